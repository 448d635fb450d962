"""What expiry leaves in tables that jobs connect: the newest barrier that they have in common, and some before it.

    consumer/consumer-widetable-barriers    of each table that a job connects with another one; other clients honour it

Each table by itself keeps its own newest barriers. A table that is ahead of another one that is made of the same would
let go of the barrier at which the two can be read together. The floor only grows, but for revisions; who renews it and
dies leaves it where it is, so nothing is lost, and snapshots stay. Source: rule R18 of docs/consistency.md. Raises what
reading snapshots raises, StorageError.

    widetable.barriers-kept = 2, interval 10; a and b are connected

    a complete up to 90, b up to 50      common 50      floors at barrier 30: a keeps 30 to 90, b 30 to 50
    b has none yet                       common 0       floors before the first: a and b keep all their snapshots

The consumer stands at the snapshot that reads as of the floor begin with
(`BarrierViews.floor_id`). The second line is also that of tables of different intervals, which
cannot be read together, but jobs refuse to connect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from widetable.arguments import refused
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.operations.barriers.common_barrier import common_barrier
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIERS_KEPT
from widetable.schema.retention_options import CONSUMER_EXPIRATION_TIME
from widetable.storage.paths import CONSUMER_PREFIX, TEMPORARY_BYTES, check_name

CONSUMER: Final = "widetable-barriers"


def check_consumer(job: str) -> None:
    """Refuse a job that cannot have a consumer of its name in its sources, before anything is written."""
    check_name(job, "job", len(CONSUMER_PREFIX) + TEMPORARY_BYTES)
    if job == CONSUMER:
        raise refused(job, "job", f"another name than that of the consumer {CONSUMER}")


def keep_common_barriers(
    tables: Mapping[str, OpenTable],
    components: Iterable[Iterable[str]],
    revision: int | None = None,
) -> dict[str, int]:
    """Note it anew. components: names of tables that jobs connect. Returns the first snapshot that is kept, by table;
    tables that nothing connects with others have none. revision: that is about to count, so floors may go back.

    tables: those under barriers, by name; other names in components are passed over. A table by
    itself loses its consumer: its own expiry keeps its newest barriers. With a revision nothing
    is returned.
    """
    kept: dict[str, int] = {}
    for component in components:
        connected = {name: tables[name] for name in component if name in tables}
        if len(connected) < 2:
            for table in connected.values():
                table._consumers.delete(CONSUMER)
            continue
        views = {name: barrier_views(table, revision) for name, table in connected.items()}
        common = common_barrier(views.values())
        for name, table in connected.items():
            before = table.schema.typed_options.get(BARRIERS_KEPT) * views[name].interval
            floor_id = views[name].floor_id(common - before)
            if floor_id is not None and revision is not None:
                table._consumers.record(CONSUMER, floor_id)
            elif floor_id is not None:
                kept[name] = _raised(table._consumers, floor_id)
                renew_consumer(table, CONSUMER)
    return kept


def renew_consumer(table: OpenTable, name: str) -> None:
    """That of a job that runs, where consumers are forgotten that make no progress: it may wait for another table."""
    if table.schema.typed_options.get(CONSUMER_EXPIRATION_TIME) is not None:
        table._consumers.renew(name)


def _raised(consumers: ConsumerStore, floor_id: int) -> int:
    """The higher of what is noted and what is asked for. Of two that do this at once one may
    note the lower one last: then more is kept than need be, until the next call.
    """
    known = consumers.next_snapshot(CONSUMER)
    if known is None or known < floor_id:
        consumers.record(CONSUMER, floor_id)
        return floor_id
    return known
