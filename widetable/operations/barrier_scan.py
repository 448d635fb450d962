"""Rows of a table as of a barrier, changes between barriers, and which snapshots they need. Raises what
`read/barrier_view.py` and `read/barrier_changes.py` raise.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from widetable.barrier_options import BARRIER_INTERVAL, BARRIERS_KEPT
from widetable.commit.committer import Committer
from widetable.operations.open_table import OpenTable
from widetable.operations.supported import check_readable
from widetable.read.barrier_changes import BarrierChanges
from widetable.read.barrier_view import BarrierView, BarrierViews
from widetable.read.filters import parse
from widetable.read.scan import TableScan
from widetable.schema import TableSchema
from widetable.write.table_state import TableState


def barrier_views(table: OpenTable) -> BarrierViews:
    """The barriers of a table, by the snapshots that it has now."""
    return views_of(table._state(), table._committer)


def views_of(state: TableState, committer: Committer) -> BarrierViews:
    """The same."""
    latest_id = committer.snapshots.latest_id()
    earliest_id = committer.snapshots.earliest_id() if latest_id else None
    ids = range(earliest_id or 1, (latest_id or 0) + 1)
    files = committer.live_files
    return BarrierViews(state.schema, committer.level0, files, ids, state.paths.root)


def needed_for_barriers(state: TableState, committer: Committer) -> list[int]:
    """The first snapshot that must stay for the newest complete barriers to be read."""
    if state.options.get(BARRIER_INTERVAL) is None:
        return []
    views = views_of(state, committer)
    barrier = views.newest().frontier - state.options.get(BARRIERS_KEPT) * views.interval
    floor_id = views.floor_id(barrier)
    return [] if floor_id is None else [floor_id]


def barrier_changes(table: OpenTable) -> BarrierChanges:
    """Where the changes between barriers are, by the snapshots that the table has now."""
    state = table._state()
    return BarrierChanges(state, views_of(state, table._committer))


def barrier_change_ids(table: OpenTable, start: int, end: int) -> list[int]:
    """The snapshots whose changes are those after one barrier (0: before the first) up to another."""
    check_readable(table.schema)
    return barrier_changes(table).snapshot_ids(start, end)


def barrier_scan(
    table: OpenTable,
    barrier: int,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    schema: TableSchema | None = None,
) -> TableScan:
    """The rows as of a complete barrier. schema: of their columns; None: the one that the table had when it was
    complete.
    """
    return scan_of_view(table, barrier_views(table).view(barrier), columns, filter, schema)


def scan_of_view(
    table: OpenTable,
    view: BarrierView,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    schema: TableSchema | None = None,
) -> TableScan:
    """The same of a barrier that was found."""
    schemas = table._committer.schemas
    schema = schema or schemas.load(view.end.schema_id)
    check_readable(schema)
    condition = None if filter is None else parse(filter, schema)
    return TableScan(
        table._state(schema),
        table._committer.live_files,
        view.base,
        columns,
        condition,
        rescaled=schemas.is_rescaled(),
        barrier=view,
    )
