"""When a table came to its barriers, and when jobs committed them, by the snapshots that it keeps.

    written    the first snapshot that is complete up to the barrier, where that is exact (`exact_barriers`)
    changes    the one at the changelog position of the barrier; without a changelog that compactions make: written
    commit     of a job: the first one by which it completes just that barrier; it begins when its batch is planned

What has expired is not known, nor when the oldest snapshot's barriers came. Source: rule R13 of docs/consistency.md.
Raises DamagedError for a time that is no number, and what reading snapshots raises.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from widetable import options as opt
from widetable.commit.barrier_state import BARRIER_BEGIN, WRITER, BarrierState
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.meta.delays import BarrierTimes, JobCommit
from widetable.operations.barrier_scan import barrier_views
from widetable.operations.open_table import OpenTable
from widetable.read.barrier_changes import BY_COMPACTION, is_past


class _Kept(NamedTuple):
    """A snapshot with its barriers. label: of its records, None without any."""

    snapshot: Snapshot
    state: BarrierState
    label: int | None


class KeptBarriers:
    """The snapshots of a table under barriers, oldest first, as they are now."""

    def __init__(self, table: OpenTable, barrier: int | None = None) -> None:
        """barrier: the only one that will be asked for; older snapshots than its are not read."""
        views = barrier_views(table)
        self._exact = views.exact
        self._interval = views.interval
        self._by_compaction = (
            table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION
        )
        self._kept: list[_Kept] = []
        with contextlib.suppress(NotFoundError):  # what expires meanwhile, and all before it
            for id in reversed(views.ids):
                snapshot = table._committer.snapshots.load(id)
                self._kept.append(_Kept(snapshot, views.state(id), views.label(id)))
                if barrier is not None and _is_before(self._kept[-1].state, barrier):
                    break
        self._kept.reverse()

    @property
    def newest(self) -> int:
        """The barrier up to which it is complete, 0 without."""
        return self._kept[-1].state.frontier if self._kept else 0

    def frontiers(self) -> set[int]:
        """The barriers up to which it was complete at some time that is known."""
        known = self._kept if self._has_first else self._kept[1:]
        before = 0 if self._has_first or not self._kept else self._kept[0].state.frontier
        return {kept.state.frontier for kept in known if kept.state.frontier > before}

    def times(self, barriers: Iterable[int]) -> BarrierTimes:
        """Of those of the barriers that the table has."""
        own = [barrier for barrier in barriers if self._has(barrier)]
        written = self._first_times(own, lambda state, barrier: state.frontier >= barrier)
        changes = self._position_times(own) if self._by_compaction else written
        return BarrierTimes(written, changes, self._commits(set(own)))

    def _has(self, barrier: int) -> bool:
        is_complete = barrier % self._interval == 0 and barrier <= self.newest
        return is_complete and self._exact.at_most(barrier) == barrier

    @property
    def _has_first(self) -> bool:
        return bool(self._kept) and self._kept[0].snapshot.id == 1

    def _first(self, barrier: int, holds: Callable[[BarrierState, int], bool]) -> int | None:
        """Where in `_kept`; holds: once it does, it does for all later ones."""
        at = bisect_left(self._kept, True, key=lambda kept: holds(kept.state, barrier))
        is_known = at < len(self._kept) and (at > 0 or self._has_first)
        return at if is_known else None

    def _first_times(
        self, barriers: Iterable[int], holds: Callable[[BarrierState, int], bool]
    ) -> dict[int, int]:
        places = {barrier: self._first(barrier, holds) for barrier in barriers}
        return {
            barrier: self._kept[at].snapshot.time_millis
            for barrier, at in places.items()
            if at is not None
        }

    def _position_times(self, barriers: Iterable[int]) -> dict[int, int]:
        """A compaction that went on over a barrier leaves none of it."""
        found = {}
        for barrier in barriers:
            at = self._first(barrier, is_past)
            if at is not None and self._kept[at].state.moved <= barrier:
                found[barrier] = self._kept[at].snapshot.time_millis
        return found

    def _commits(self, barriers: set[int]) -> dict[tuple[str, int], JobCommit]:
        found: dict[tuple[str, int], JobCommit] = {}
        for snapshot, state, label in self._kept:
            job = snapshot.properties.get(WRITER, "")
            member = state.members.get(job)
            if label in barriers and member is not None and member.frontier == label:
                found.setdefault((job, label), JobCommit(_begin(snapshot), snapshot.time_millis))
        return found


def _is_before(state: BarrierState, barrier: int) -> bool:
    """Whether nothing has come to a barrier yet, and nobody."""
    frontiers = (member.frontier for member in state.members.values())
    return max(state.frontier, state.highest, *frontiers) < barrier


def _begin(snapshot: Snapshot) -> int | None:
    text = snapshot.properties.get(BARRIER_BEGIN)
    try:
        return None if text is None else int(text)
    except ValueError as cause:
        raise DamagedError(
            f"property {BARRIER_BEGIN!r} of snapshot {snapshot.id}",
            found=repr(text[:100]) if text else "nothing",
            expected="a decimal number",
            action="Restore the snapshot file, or let it expire.",
        ) from cause
