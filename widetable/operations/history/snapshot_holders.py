"""Who keeps snapshots from expiry, by name: consumers, readers with a lease, pins of lookup joins, barriers.

Expiry asks for their snapshots, an answer to "why does the table grow" for their names. Raises what reading them
raises.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from widetable.commit.holds.snapshot_holds import holds_in_force
from widetable.commit.notes.clock import Clock
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.transaction.committer import Committer
from widetable.operations.handle.barrier_scan import needed_for_barriers
from widetable.write.table_state import TableState

CONSUMER: Final = "consumer"
BARRIERS: Final = "barriers"


class Holder(NamedTuple):
    """kind: `read` and `pin` as in `inspect.leases`, `barriers` or `consumer`. name: of the consumer, process, or query
    with its join. snapshot_id: the first that is needed, with all later ones.
    """

    kind: str
    name: str | None
    snapshot_id: int


def holders(
    state: TableState, committer: Committer, clock: Clock, without: Container[str] = ()
) -> list[Holder]:
    """without: consumers that do not count."""
    # Leases before what others look up by them (`snapshot_holds`).
    found = [
        Holder(one.kind, one.owner, one.snapshot_id)
        for one in holds_in_force(state, clock)
        if one.snapshot_id
    ]
    barriers = needed_for_barriers(state, committer)
    consumers = ConsumerStore(state.file_io, state.paths).all()
    return [
        *found,
        *(Holder(BARRIERS, None, id) for id in barriers),
        *(Holder(CONSUMER, name, id) for name, id in consumers.items() if name not in without),
    ]
