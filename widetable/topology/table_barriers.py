"""The barriers of a table with their snapshots, and the missing writers of those that are not complete.

    complete        those up to which the table was complete at some time, by the kept snapshots; one that a derived job
                    skipped is not exact, and cannot be read
    not complete    the next one, and those that some writer has completed

Source: rules R11, R13 and R14 of docs/consistency.md. Raises what reading snapshots and lists raises.

    wa has completed 20, wb 10, interval 10      10: complete      20: waits for wb
    a has completed 20, b 40                     20: complete      30: waits for a      40: waits for a

Barriers between the frontiers of two snapshots are not listed: if one commit takes the table from 10 to 40, no snapshot
distinguishes 20 and 30 from 40, although `scan(barrier=20)` reads 20.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.errors import NotFoundError
from widetable.operations.handle.barrier_scan import barrier_changes, barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.read.barrier_changes import BY_COMPACTION, BarrierChanges
from widetable.read.barrier_view import BarrierView, BarrierViews
from widetable.schema import options as opt


@dataclass(frozen=True)
class TableBarrier:
    """One barrier of a table. Numbers are None unless the barrier is exact.

    Attributes
    ----------
    barrier : int
        The barrier, in epoch milliseconds.
    is_complete : bool
        Whether the table had all records up to the barrier.
    is_exact : bool
        Whether the barrier is complete and no job skipped it; only then it can be read.
    base_id : int or None
        The snapshot that reads of the barrier begin with. None: the empty table.
    extra_files : int or None
        How many files of later commits belong to the barrier.
    hidden_files : int or None
        How many files of the base belong to later barriers, where the snapshot before these has expired.
    snapshot_id : int or None
        The base, if it has exactly the rows of the barrier.
    changelog_snapshot_id : int or None
        The snapshot up to which the changes of the barrier are published. None: they are not made yet, or do not end at
        the barrier.
    missing : tuple of str
        The writers that the barrier waits for.
    """

    __module__ = "widetable"

    barrier: int
    is_complete: bool
    is_exact: bool
    base_id: int | None
    extra_files: int | None
    hidden_files: int | None
    snapshot_id: int | None
    changelog_snapshot_id: int | None
    missing: tuple[str, ...]


def table_barriers(table: OpenTable, limit: int | None) -> list[TableBarrier]:
    """Return the barriers, ascending. limit: the most complete ones, the newest; None for all.

    Incomplete barriers are added to these. Each exact one costs the manifest lists of the later commits that belong to
    it.
    """
    views, changes = barrier_views(table), barrier_changes(table)
    by_compaction = table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION
    newest_first = []
    with contextlib.suppress(NotFoundError):  # this barrier has expired, and so have all before it
        for barrier in islice(_frontiers(views), limit):
            if views.exact.at_most(barrier) < barrier:
                newest_first.append(_unread(barrier, (), is_complete=True))
                continue
            view = _view(views, barrier)
            changed_id = _position(changes, barrier) if by_compaction else view.end.id
            newest_first.append(_exact(barrier, view, changed_id))
    return [*reversed(newest_first), *_incomplete(views.newest())]


def _frontiers(views: BarrierViews) -> Iterator[int]:
    """Yield the frontiers of the snapshots, the newest first."""
    before = None
    for id in reversed(views.ids):
        frontier = views.state(id).frontier
        if frontier and frontier != before:
            yield frontier
        before = frontier


def _view(views: BarrierViews, barrier: int) -> BarrierView:
    """Return the view by the snapshot that shows most of the barrier, not by the one that is cheapest to read."""
    try:
        return views.by_snapshot(barrier)
    except NotFoundError:
        return views.view(barrier)


def _position(changes: BarrierChanges, barrier: int) -> int | None:
    try:
        return changes.position(barrier)
    except NotFoundError:
        return None


def _exact(barrier: int, view: BarrierView, changed_id: int | None) -> TableBarrier:
    return TableBarrier(
        barrier,
        is_complete=True,
        is_exact=True,
        base_id=None if view.base is None else view.base.id,
        extra_files=len(view.extras),
        hidden_files=len(view.hidden),
        snapshot_id=view.snapshot_id,
        changelog_snapshot_id=changed_id,
        missing=(),
    )


def _unread(barrier: int, missing: tuple[str, ...], *, is_complete: bool) -> TableBarrier:
    return TableBarrier(barrier, is_complete, False, None, None, None, None, None, missing)


def _incomplete(state: BarrierState) -> Iterator[TableBarrier]:
    """Yield the incomplete barriers. A table without writers has none, because it waits for nobody."""
    ahead = {member.frontier for member in state.members.values()}
    if state.members:
        ahead.add(state.frontier + state.interval)
    for barrier in sorted(ahead):
        if barrier > state.frontier:
            yield _unread(barrier, tuple(state.behind(barrier)), is_complete=False)
