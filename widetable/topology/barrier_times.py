"""The times at which a table completed its barriers, and at which jobs committed them, by the kept snapshots.

    written    the first snapshot that is complete up to the barrier, if the barrier is exact (`exact_barriers`)
    changes    the snapshot at the changelog position of the barrier; without a changelog by compactions: written
    commit     the first one by which a job completes exactly that barrier; it begins when its batch is planned, and
               has the records of the job since the one before

Times of expired snapshots are unknown, and so are the times of the oldest snapshot's barriers. Only snapshot files are
read, each once.
Source: rules R13 and R14 of docs/consistency.md.
Raises DamagedError for a time that is no number, and what reading snapshots raises.

A table of two writers, producer lookup, that keeps its snapshots from 4 on:

    snapshot    what                    frontier   moved   waiting
    4           append of a, label 20   10         10      20
    5           append of b, label 20   20         10      20        written(20) = the time of 5
    6           compaction, cut at 20   20         20      -         changes(20) = the time of 6

The time of barrier 10 is unknown: snapshot 4 had completed it already, and the snapshots before have expired.
All numbers except `waiting` never go back within a revision, so each search is a bisection over
snapshots that were read once.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from widetable.commit.barriers.barrier_state import (
    BARRIER_BEGIN,
    WRITER,
    BarrierState,
    label_of,
    state_at,
)
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import COMMIT_KIND_APPEND, Snapshot
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.read.barrier_changes import BY_COMPACTION, is_past
from widetable.read.exact_barriers import ExactBarriers
from widetable.schema import options as opt
from widetable.topology.delays import BarrierTimes, JobCommit


class _Kept(NamedTuple):
    """Holds a snapshot with its barriers. label: of its records, None without any."""

    snapshot: Snapshot
    state: BarrierState
    label: int | None


class BarrierSnapshots(NamedTuple):
    """Holds the snapshots of an exact barrier. All are None for a barrier that cannot be read.

    base_id: the newest kept snapshot without a record of a later barrier; None for the empty table. extra_commits: how
    many later commits have records of the barrier. snapshot_id: the base, if there are no such commits.
    changelog_snapshot_id: the snapshot that has the barrier's changes; None if they are not made yet, or do not stop at
    the barrier.
    """

    base_id: int | None
    extra_commits: int | None
    snapshot_id: int | None
    changelog_snapshot_id: int | None


class KeptBarriers:
    """Holds the snapshots of a table under barriers, oldest first. They are read once, when the object is made: one
    small file per snapshot, which all stay in memory.
    """

    def __init__(self, table: OpenTable, barrier: int | None = None) -> None:
        """Read the snapshots. barrier: the only one of interest, so that earlier snapshots are not read; None: all."""
        views = barrier_views(table)
        self._interval = views.interval
        self._by_compaction = (
            table.schema.typed_options.get(opt.CHANGELOG_PRODUCER) == BY_COMPACTION
        )
        self._kept: list[_Kept] = []
        # Snapshots are read from the newest back. An expiry takes the oldest, so those that were read are contiguous.
        with contextlib.suppress(NotFoundError):  # one that expired meanwhile, and all before it
            for id in reversed(views.ids):
                self._kept.append(self._load(table, id))
                if barrier is not None and _is_before(self._kept[-1].state, barrier):
                    break
        self._kept.reverse()
        ids = range(self._kept[0].snapshot.id, views.ids.stop) if self._kept else range(0)
        first = views.first_barrier
        self._exact = ExactBarriers(ids, self._state, self._end, table.path, first)

    def _load(self, table: OpenTable, id: int) -> _Kept:
        snapshot, load = table._committer.snapshots.load(id), table._committer.level0.load
        state = state_at(snapshot, load, self._interval)
        is_append = snapshot.commit_kind == COMMIT_KIND_APPEND
        label = label_of(snapshot, load, self._interval) if is_append else None
        return _Kept(snapshot, state, label)

    @property
    def revision(self) -> int:
        """The last revision of the table, 0 without one."""
        return self._kept[-1].state.revision if self._kept else 0

    @property
    def is_whole(self) -> bool:
        """Whether these snapshots include the first one, so that no barrier of the table has expired."""
        return not self._kept or self._has_first

    @property
    def newest(self) -> int:
        """The barrier up to which the table is complete, 0 without one."""
        return self._kept[-1].state.frontier if self._kept else 0

    def frontiers(self) -> set[int]:
        """Return the barriers up to which the table was complete at a known time."""
        dated = self._kept if self._has_first else self._kept[1:]
        before = 0 if self._has_first or not self._kept else self._kept[0].state.frontier
        return {kept.state.frontier for kept in dated if kept.state.frontier > before}

    def times(self, barriers: Iterable[int]) -> BarrierTimes:
        """Return the times of those barriers that the table has."""
        own = [barrier for barrier in barriers if self._has(barrier)]
        written = self._times({barrier: self._end_at(barrier) for barrier in own})
        positions = {barrier: self._position_at(barrier) for barrier in own}
        changes = self._times(positions) if self._by_compaction else written
        had = set(own)
        commits = {key: commit for key, commit in self.commits().items() if key[1] in had}
        return BarrierTimes(written, changes, commits)

    def barriers(self) -> dict[int, BarrierSnapshots | None]:
        """Return the barriers up to which the table was complete at some time and whose base is kept, ascending; None
        for one that is not exact.
        """
        came = sorted({kept.state.frontier for kept in self._kept} - {0})
        based = (barrier for barrier in came if self._has_first or self._base_end(barrier))
        return {b: self._snapshots(b) if self._has(b) else None for b in based}

    def _snapshots(self, barrier: int) -> BarrierSnapshots:
        """Return the snapshots of an exact barrier whose base is kept. It counts commits, because files would need
        manifests.
        """
        at = self._base_end(barrier)
        extras = sum(
            kept.label is not None
            and kept.label <= barrier
            and kept.snapshot.delta_record_count > 0
            for kept in self._kept[at : self._end_at(barrier) + 1]
        )
        base_id = self._kept[at - 1].snapshot.id if at else None
        changed_at = self._position_at(barrier) if self._by_compaction else self._end_at(barrier)
        changed_id = None if changed_at is None else self._kept[changed_at].snapshot.id
        return BarrierSnapshots(base_id, extras, None if extras else base_id, changed_id)

    def _base_end(self, barrier: int) -> int:
        """Return the index in `_kept` of the first snapshot with a record of a later barrier."""
        return bisect_right(self._kept, barrier, key=lambda kept: kept.state.highest)

    def commits(self) -> dict[tuple[str, int], JobCommit]:
        """Return the commits by which jobs completed barriers, by job and barrier.

            a@10 (5 records), a@20 open (3), a@20 complete (4)      (a, 10): 5 rows, (a, 20): 7 rows

        A barrier that a job completes without records has 0 rows; a barrier that it skips is left out. rows is None
        for the first barrier of a job that may have had records in expired snapshots.
        """
        commits: dict[tuple[str, int], JobCommit] = {}
        rows: Counter[str] = Counter()
        partial = set() if self._has_first or not self._kept else self._partial_jobs()
        for snapshot, state, label in self._kept:
            job = snapshot.properties.get(WRITER)
            if job is None or label is None:
                continue
            rows[job] += snapshot.delta_record_count
            member = state.members.get(job)
            if member is not None and member.frontier == label and (job, label) not in commits:
                counted = None if job in partial else rows[job]
                commits[job, label] = JobCommit(_begin(snapshot), snapshot.time_millis, counted)
                partial.discard(job)
                del rows[job]
        return commits

    def _partial_jobs(self) -> set[str]:
        """Return the jobs that may have records of their next barrier in expired snapshots."""
        snapshot, state, _ = self._kept[0]
        open_ones = {name for name, one in state.members.items() if one.last > one.frontier}
        return open_ones | {snapshot.properties.get(WRITER, "")}

    def _state(self, id: int) -> BarrierState:
        return self._kept[id - self._kept[0].snapshot.id].state

    def _end(self, barrier: int) -> int:
        return self._kept[self._end_at(barrier)].snapshot.id

    def _end_at(self, barrier: int) -> int:
        """Return the index of the first snapshot that is complete up to a barrier that the table has."""
        return bisect_left(self._kept, barrier, key=lambda kept: kept.state.frontier)

    def _position_at(self, barrier: int) -> int | None:
        """Return the index of `BarrierChanges.position` if changes may stop there; None if there is none yet, or if a
        compaction went beyond the barrier.
        """
        at = bisect_left(self._kept, True, key=lambda kept: is_past(kept.state, barrier))
        is_there = at < len(self._kept) and self._kept[at].state.moved <= barrier
        return at if is_there else None

    def _has(self, barrier: int) -> bool:
        """Whether the barrier is complete and exact, by the kept snapshots."""
        is_complete = barrier % self._interval == 0 and barrier <= self.newest
        return is_complete and self._exact.at_most(barrier) == barrier

    @property
    def _has_first(self) -> bool:
        """Whether the first snapshot under barriers is kept."""
        return bool(self._kept) and self._kept[0].snapshot.id == (self._kept[0].state.since or 1)

    def _times(self, places: Mapping[int, int | None]) -> dict[int, int]:
        """Return the time of each barrier. places: the index of the first snapshot in `_kept` that reached it.

        The oldest kept snapshot gives no time, because an expired one may have reached the barrier before, unless it is
        the very first snapshot.
        """
        return {
            barrier: self._kept[at].snapshot.time_millis
            for barrier, at in places.items()
            if at is not None and (at > 0 or self._has_first)
        }


def _is_before(state: BarrierState, barrier: int) -> bool:
    """Whether neither the table, nor its records, nor a writer has reached a barrier."""
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
