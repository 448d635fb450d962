"""The barriers of a table: which snapshots they are, and who is missing in those that are not complete.

    complete        those up to which the table was complete at some time, by the snapshots that are kept; such a one
                    that a derived job passed over is not exact, and not read
    not complete    the next one, and those that some writer has completed

Source: rules R11, R13 and R14 of docs/consistency.md. Raises what reading snapshots and lists raises.

    wa has completed 20, wb 10, interval 10      10: complete      20: waits for wb
    a has completed 20, b 40                     20: complete      30: waits for a      40: waits for a

Barriers between those that the table was complete up to at some snapshot are not listed: where
one commit takes it from 10 to 40, no snapshot tells 20 and 30 apart from 40, though
`scan(barrier=20)` reads 20.
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
    """is_exact: complete, and no job passed over it; only then it is read, and numbers are there. base_id: the snapshot
    that reads of it begin with; None where that is the empty table.
    extra_files: of later commits, that belong to it. hidden_files: of the base, that belong to later ones; where the
    snapshot before these has expired. snapshot_id: the base, where it has just these rows.
    changelog_snapshot_id: by which its changes are there; None where they are not made yet, or do not stop at it.
    missing: writers that it waits for.
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
    """Ascending. limit: so many at most of those that are complete, the newest; None for all.
    Those that are not complete come on top of it. Each exact one costs the lists of the later
    commits that belong to it.
    """
    views, changes = barrier_views(table), barrier_changes(table)
    by_compaction = table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION
    found = []
    with contextlib.suppress(NotFoundError):  # that one has expired, and so have all before it
        for barrier in islice(_frontiers(views), limit):
            if views.exact.at_most(barrier) < barrier:
                found.append(_unread(barrier, (), is_complete=True))
                continue
            view = _view(views, barrier)
            changed_id = _position(changes, barrier) if by_compaction else view.end.id
            found.append(_exact(barrier, view, changed_id))
    return [*reversed(found), *_incomplete(views.newest())]


def _frontiers(views: BarrierViews) -> Iterator[int]:
    """The newest first."""
    before = None
    for id in reversed(views.ids):
        frontier = views.state(id).frontier
        if frontier and frontier != before:
            yield frontier
        before = frontier


def _view(views: BarrierViews, barrier: int) -> BarrierView:
    """By the snapshot that shows most of it, not by the one that costs least."""
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
    """None in a table that nobody writes: it waits for nobody."""
    ahead = {member.frontier for member in state.members.values()}
    if state.members:
        ahead.add(state.frontier + state.interval)
    for barrier in sorted(ahead):
        if barrier > state.frontier:
            yield _unread(barrier, tuple(state.behind(barrier)), is_complete=False)
