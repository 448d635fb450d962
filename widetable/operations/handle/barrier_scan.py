"""Rows of a table as of a barrier, changes between barriers, and which snapshots they need. Raises what
`read/barrier_view.py` and `read/barrier_changes.py` raise.

In: an open table and barriers; 0 means before the first. Out: where rows and changes are, or scans of
them. Each call lists the current snapshots and caches nothing, so two calls may see different ones.
Calls that must agree share one BarrierViews or one `revision`: None takes the revisions that are
active at that moment, which another process may change in between.

    two writers of a column each, interval 10, changelog-producer lookup:

    snapshots    3 wa@10  4 wa@20  5 wa@30  6 wb@10  7 wb@20  8 wb@30      (1 and 2: they join)
    rows         10: snapshot 8 without 4 files       20: without 2 files       30: snapshot 8
    changes      none yet; after compactions 9, cut at 20, and 10, cut at 30: up to 20, up to 30
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow.compute as pc

from widetable.acceptance.acceptance import Use, accept
from widetable.commit.barriers.barrier_state import state_at
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.notes.revision_notes import notes_of
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.operations.handle.chosen_state import state_of_view
from widetable.operations.handle.compaction_threads import wait_for_changelogs
from widetable.operations.handle.open_table import OpenTable
from widetable.read.barrier_changes import BarrierChanges
from widetable.read.barrier_view import BarrierViews
from widetable.read.scan import TableScan
from widetable.schema.barrier_options import BARRIER_INTERVAL, BARRIERS_KEPT
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import table_name
from widetable.write.table_state import TableState

Found = TypeVar("Found")
# The number of attempts; each further one is made because an expiry removed snapshots during the one before.
_ATTEMPTS: Final = 10


def active_revision(table: OpenTable) -> int | None:
    """Return the active revision of the table's warehouse, or None for a table outside of a warehouse."""
    notes = notes_of(table._file_io, table._paths)
    return None if notes is None else notes.active()


def newest_revision(table: OpenTable) -> int:
    """Return the newest revision to which the table was taken back, whether it is active yet or not; 0 without one."""
    committer, interval = table._committer, interval_of(table.schema, table.path)
    return state_at(committer.snapshots.latest(), committer.last_commits.load, interval).revision


def barrier_views(table: OpenTable, revision: int | None = None) -> BarrierViews:
    """Return the barriers of a table, by the snapshots that it has now.

    revision: the last one that counts; None: those that are active now.
    """
    return views_of(table._state(), table._committer, revision)


def views_of(state: TableState, committer: Committer, revision: int | None = None) -> BarrierViews:
    """Return the barriers of a table state, as `barrier_views` does.

    The newest id is looked up first, then the oldest one: an expiry in between removes snapshots at the old end, so
    some ids of the range may be gone, but the range never ends before it begins.
    """
    latest_id = committer.snapshots.latest_id()
    earliest_id = committer.snapshots.earliest_id() if latest_id else None
    ids = range(earliest_id or 1, (latest_id or 0) + 1)
    files = committer.live_files

    def visible(newest: int) -> int:
        notes = notes_of(state.file_io, state.paths)
        return newest if notes is None else notes.visible(newest, revision)

    return BarrierViews(state.schema, committer.level0, files, ids, state.paths.root, visible)


def needed_for_barriers(state: TableState, committer: Committer) -> list[int]:
    """Return the first snapshots that must stay so that the newest complete barriers can be read.

    There are none, one or two ids; `expiry` keeps from the smallest of all. With an interval of 10, complete up to
    50, and `widetable.barriers-kept` = 2, they keep what barrier 30 and later ones need. The newest schema decides,
    because the table may have been put under barriers since the expiry began.
    """
    state = replace(state, schema=committer.schemas.latest())
    if state.options.get(BARRIER_INTERVAL) is None:
        return []
    views = views_of(state, committer)
    barrier = views.newest().frontier - state.options.get(BARRIERS_KEPT) * views.interval
    floor_id = views.floor_id(barrier)
    return [*needed_for_revision(state, views), *([] if floor_id is None else [floor_id])]


def needed_for_revision(state: TableState, views: BarrierViews) -> list[int]:
    """Return the first snapshot that a revision needs which is not active yet.

    A table that is taken back needs the rows that it goes back to; one that is not, the changes with which jobs
    continue.
    """
    notes, place = notes_of(state.file_io, state.paths), table_name(state.paths.root)
    note = None if notes is None else notes.unfinished()
    if note is None or place is None:
        return []
    barrier = note.tables.get(place[1], note.barrier)
    with contextlib.suppress(NotFoundError):
        return [first_kept_for(BarrierChanges(state, views), views, barrier)] if barrier else []
    return []


def first_kept_for(changes: BarrierChanges, views: BarrierViews, barrier: int) -> int:
    """Return the first snapshot that is needed for the rows as of a barrier and for the changes after it.

    Either may be the earlier one, because both the base of the rows and the position of the changes may be late
    snapshots.
    """
    return min(views.view(barrier).first_id, changes.first_needed(barrier))


def barrier_changes(table: OpenTable, revision: int | None = None) -> BarrierChanges:
    """Find the changes between barriers in the snapshots that the table has now."""
    state = table._state()
    return BarrierChanges(state, views_of(state, table._committer, revision))


def barrier_change_ids(table: OpenTable, start: int, end: int) -> list[int]:
    """Return the snapshots that hold the changes after one barrier (0: before the first) up to another.

    Waits for changelogs that this process makes in the background after its commits.
    """
    accept(table.schema, Use.READ)
    wait_for_changelogs(table.path)
    return behind_expiry([table], lambda: barrier_changes(table).snapshot_ids(start, end))


def behind_expiry(tables: Sequence[OpenTable], look: Callable[[], Found]) -> Found:
    """Call `look`, and call it again when an expiry has removed snapshots meanwhile.

    A look at the barriers reads all snapshots that it has listed, and an expiry may remove those that no one needs at
    that time. NotFoundError is raised when no snapshot has expired meanwhile.

            look    ids 3 .. 9        loads 3: not found       the oldest is 5 by now: looks again, at 5 .. 9
                                                               it still is 3: raises

    look: has no effects, or effects that may be repeated.
    """
    for tries_left in reversed(range(_ATTEMPTS)):
        first = [table._committer.snapshots.earliest_id() for table in tables]
        try:
            return look()
        except NotFoundError:
            is_same = first == [table._committer.snapshots.earliest_id() for table in tables]
            if is_same or not tries_left:
                for table in tables:
                    table._check_alive()
                raise
    raise AssertionError("the last attempt returns or raises")


def barrier_scan(
    table: OpenTable,
    barrier: int,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    revision: int | None = None,
    schema: TableSchema | None = None,
) -> TableScan:
    """Return a scan of the rows as of a complete barrier.

    schema: the schema of their columns; None: the one that the table had when the barrier was complete.
    """
    view = behind_expiry([table], lambda: barrier_views(table, revision).view(barrier))
    return state_of_view(table, view, schema).scan(columns, filter)
