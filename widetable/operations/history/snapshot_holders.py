"""Lists what keeps snapshots from expiry, by name: consumers, readers with a lease, pins of lookup joins, barriers.

Expiry uses their snapshots; the answer to "why does the table grow" uses their names. Raises what reading them raises.
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
    """A holder of snapshots.

    kind: `read` and `pin` as in `inspect.leases`, `barriers` or `consumer`. name: of the consumer, process, or query
    with its join. snapshot_id: the first one that it needs; it needs all later ones too.
    """

    kind: str
    name: str | None
    snapshot_id: int


def holders(
    state: TableState, committer: Committer, clock: Clock, without: Container[str] = ()
) -> list[Holder]:
    """Return all holders. without: consumers that do not count."""
    # Leases before holders that depend on them (`snapshot_holds`).
    leases = [
        Holder(one.kind, one.owner, one.snapshot_id)
        for one in holds_in_force(state, clock)
        if one.snapshot_id
    ]
    barriers = needed_for_barriers(state, committer)
    consumers = ConsumerStore(state.file_io, state.paths).all()
    return [
        *leases,
        *(Holder(BARRIERS, None, id) for id in barriers),
        *(Holder(CONSUMER, name, id) for name, id in consumers.items() if name not in without),
    ]
