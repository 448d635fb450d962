"""The barrier floor: in tables that jobs connect, expiry keeps the newest common barrier, and some before it.

    consumer/consumer-widetable-barriers    in each table that a job connects with another; other clients honour it

Each table by itself keeps only its own newest barriers. A table that is ahead of a connected one would expire the
barrier at which the two can be read together. The floor only grows, except by revisions. If the process that renews it
dies, the floor stays, so that snapshots are kept and nothing is lost. Source: rule R18 of docs/consistency.md. Raises
what reading snapshots raises, StorageError.

    widetable.barriers-kept = 2, interval 10; a and b are connected

    a complete up to 90, b up to 50      common 50      floors at barrier 30: a keeps 30 to 90, b 30 to 50
    b has none yet                       common 0       floors before the first: a and b keep all their snapshots

The consumer points to the first snapshot that reads as of the floor need (`BarrierViews.floor_id`). The second line
would also apply to tables of different intervals, which cannot be read together; but jobs refuse to connect these.
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
    """Raise InvalidError for a job that cannot have a consumer of its name in its sources."""
    check_name(job, "job", len(CONSUMER_PREFIX) + TEMPORARY_BYTES)
    if job == CONSUMER:
        raise refused(job, "job", f"another name than that of the consumer {CONSUMER}")


def keep_common_barriers(
    tables: Mapping[str, OpenTable],
    components: Iterable[Iterable[str]],
    revision: int | None = None,
) -> dict[str, int]:
    """Write the floor of all tables. Returns the first snapshot that is kept, by table, for tables that jobs connect
    with others.

    tables: those under barriers, by name. components: names of tables that jobs connect; other names are skipped.
    revision: the one that is about to become active, so that floors may go back; then nothing is returned. A table that
    is not connected loses its consumer, because its own expiry keeps its newest barriers.
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
    """Renew the consumer of a running job if the table expires consumers without progress: the job may be waiting for
    another table.
    """
    if table.schema.typed_options.get(CONSUMER_EXPIRATION_TIME) is not None:
        table._consumers.renew(name)


def _raised(consumers: ConsumerStore, floor_id: int) -> int:
    """Raise the floor to `floor_id`, and return it; a higher floor stays. If two calls run at once, the lower floor may
    be written last; then more than necessary is kept until the next call.
    """
    recorded_id = consumers.next_snapshot(CONSUMER)
    if recorded_id is None or recorded_id < floor_id:
        consumers.record(CONSUMER, floor_id)
        return floor_id
    return recorded_id
