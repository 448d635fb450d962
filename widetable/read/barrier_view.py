"""Which files hold the rows of a table as of a barrier: those of its base, and later ones that belong to it.

    base      the newest kept snapshot that has no record of a later barrier
    extras    what appends after it added whose label is the barrier or an earlier one

    snapshots    1 wa@10   2 wb@10   3 wa@20   4 wb@20          barrier 10: base 2      barrier 20: base 4
                 1 wa@10   2 wa@20   3 wb@10                    barrier 10: base 1 and the files of 3

Highest labels and complete barriers never go back from snapshot to snapshot, so both ends are found by bisection. After
the first snapshot that is complete up to the barrier nothing of it comes. Source: rule R14 of docs/consistency.md.
Raises NotFoundError for a barrier that is not complete, which says who is missing, and for one that has expired;
InvalidError for a table without barriers and a number that is none; what reading lists raises.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from widetable.commit.barrier_state import BARRIERS, BarrierState, check_barrier, label_of, state_at
from widetable.commit.barrier_table import interval_of
from widetable.commit.committed import Load
from widetable.commit.live_files import LiveFiles
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, Snapshot
from widetable.schema import TableSchema


@dataclass(frozen=True)
class BarrierView:
    """base: None where the first kept snapshot is that of a later barrier. end: the first snapshot that is complete up
    to it. extras: entries of files, oldest first. first_id: it needs the snapshots from here on.
    """

    barrier: int
    base: Snapshot | None
    end: Snapshot
    extras: tuple[ManifestEntry, ...]
    first_id: int

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that has just these rows; None where there is none."""
        return self.base.id if self.base is not None and not self.extras else None


class BarrierViews:
    """Of one table. load: a snapshot by id, remembered ones too (`LastCommits.load`). path: for messages."""

    def __init__(
        self, schema: TableSchema, load: Load, live_files: LiveFiles, ids: range, path: str
    ) -> None:
        """ids: of the snapshots that are kept."""
        self._interval = interval_of(schema, path)
        self._load_any = load
        self._live_files = live_files
        self._path = path
        self._ids = ids[self._unknown(ids) :]

    def newest(self) -> BarrierState:
        """How far the table and its writers are."""
        return self._state(self._ids[-1]) if self._ids else BarrierState.new(self._interval)

    def view(self, barrier: int) -> BarrierView:
        """Where the rows as of a complete barrier are."""
        self._check_complete(barrier)
        base = self._base(barrier)
        end = bisect_left(self._ids, barrier, key=lambda id: self._state(id).frontier)
        extras = [
            entry
            for id in range(base.id + 1 if base else self._ids[0], self._ids[end] + 1)
            for entry in self._extras(self._load(id), barrier)
        ]
        first_id = base.id if base else self._ids[0]
        return BarrierView(barrier, base, self._load(self._ids[end]), tuple(extras), first_id)

    def floor_id(self, intervals: int) -> int | None:
        """The first snapshot that reads need as of the newest complete barrier and those of so many intervals before;
        None in a table without snapshots. It says itself how far each writer is.
        """
        if not self._ids:
            return None
        barrier = self.newest().frontier - intervals * self._interval
        found = bisect_right(self._ids, barrier, key=lambda id: self._state(id).highest)
        floor_id = self._ids[max(found - 1, 0)]
        while floor_id > self._ids[0] and BARRIERS not in self._load(floor_id).properties:
            floor_id -= 1
        return floor_id

    def _base(self, barrier: int) -> Snapshot | None:
        found = bisect_right(self._ids, barrier, key=lambda id: self._state(id).highest)
        if found:
            return self._load(self._ids[found - 1])
        if self._ids[0] == 1:
            return None
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found="a barrier that has expired",
            expected=f"{self._oldest()} or a later one",
            action="Read a later barrier; snapshots that are kept longer keep older ones.",
        )

    def _unknown(self, ids: range) -> int:
        """How many of the first snapshots are other clients', behind ones of ours that have expired."""
        for at, id in enumerate(ids[:-1]):
            with contextlib.suppress(NotFoundError):
                self._state(id)
                return at
        return max(len(ids) - 1, 0)

    def _oldest(self) -> int:
        """The first barrier that has a base."""
        highest = self._state(self._ids[0]).highest
        return -(-highest // self._interval) * self._interval

    def _extras(self, snapshot: Snapshot, barrier: int) -> Sequence[ManifestEntry]:
        if snapshot.commit_kind != COMMIT_KIND_APPEND:
            return ()
        label = label_of(snapshot, self._load_any, self._interval)
        if label is None or label > barrier:
            return ()
        return [e for e in self._live_files.delta_entries(snapshot) if e.kind == ADD]

    def _state(self, id: int) -> BarrierState:
        return state_at(self._load(id), self._load_any, self._interval)

    def _load(self, id: int) -> Snapshot:
        """One that is there, not one that is only remembered."""
        found = self._load_any(id)
        if found.id != id:
            raise NotFoundError(
                f"snapshot {id} of {self._path}",
                found="an expired snapshot",
                expected="one that is kept",
                action="Read again.",
            )
        return found

    def _check_complete(self, barrier: int) -> None:
        check_barrier(barrier, self._interval)
        state = self.newest()
        if barrier <= state.frontier:
            return
        missing = ", ".join(f"{w} (at {at})" for w, at in state.behind(barrier).items())
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found=f"a table that is complete up to {state.frontier}; missing: {missing or 'any writer'}",
            expected=f"{state.frontier} or an earlier barrier",
            action="Wait for these writers, let those that have ended leave, or read an earlier barrier.",
        )
