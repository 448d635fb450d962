"""The snapshots of a table that are still there, and which of them a reader would have read at a given moment.

A moment has the newest snapshot whose own time is not after it (0017), as `scan(timestamp=...)` chooses it. Times may
fall where a clock was wrong, so the answer is found in the least time of each snapshot and all later ones:

    snapshot      1    2    3    4          at 10: 1; at 11: 3, not 1; at 900: 4
    time         10  900   11   12
    least        10   11   11   12

A compaction changes no row, so a moment that has one is read at the snapshot before it that changed rows.

    final before    the time of the newest snapshot: a later commit has this time, or a later one

In: the table. Out: arrays, one entry for each snapshot. Raises NotFoundError for a moment before the oldest snapshot,
unless that is the first one of the table; DamagedError where snapshots are lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.snapshot_times import AHEAD_MILLIS, is_ahead
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.errors import NotFoundError
from widetable.format.human_units import exact_time_text
from widetable.kernels.array_types import Mask, Positions
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.runtime.machine_clock import now_nanos

_FIRST_ID = 1


class Oldest(NamedTuple):
    """The oldest snapshot of which versions are kept."""

    snapshot_id: int
    millis: int


class SnapshotMoments(NamedTuple):
    """Snapshots in the order of their ids.

    ids, millis: int64[n]. changes_rows: bool[n], False for compactions.
    """

    ids: Positions
    millis: Positions
    changes_rows: Mask

    @property
    def oldest(self) -> Oldest:
        """The oldest one; the first of all for a table without snapshots."""
        return Oldest(int(self.ids[0]), int(self.millis[0])) if len(self.ids) else Oldest(1, 0)

    @property
    def final_before_micros(self) -> int:
        """The moment before which no later commit changes an answer.

        A newest snapshot that a wrong clock has made does not count: its successor gets the time of its own clock.
        """
        if not len(self.ids):
            return 0
        now_millis = now_nanos() // 1_000_000
        newest = int(self.millis[-1])
        return 1000 * (now_millis - AHEAD_MILLIS if is_ahead(newest, now_millis) else newest)

    def chosen(self, table: OpenTable, at_micros: Positions) -> Positions:
        """Return the place of the snapshot that each moment has, -1 for one before all that are kept."""
        least = np.minimum.accumulate(self.millis[::-1])[::-1] * 1000
        places = least.searchsorted(at_micros, "right") - 1
        if len(self.ids) and int(self.ids[-1]) - int(self.ids[0]) >= len(self.ids):
            self._check_gaps(table, at_micros, places)
        return places

    def read_at(self, places: Positions) -> Positions:
        """Return the places of the snapshots that are read in place of these: they have the same rows."""
        own = np.where(self.changes_rows, np.arange(len(self.ids)), 0)
        return np.append(np.maximum.accumulate(own), -1)[places]

    def _check_gaps(self, table: OpenTable, at_micros: Positions, places: Positions) -> None:
        """Raise DamagedError for a moment at which a lost snapshot may have been the newest."""
        followed = np.append(np.diff(self.ids) > 1, False)
        doubtful = (places >= 0) & followed[places]
        for micros in np.unique(at_micros[doubtful]).tolist():
            table._committer.snapshots.by_timestamp(micros // 1000)


def check_not_before(oldest: Oldest, at_micros: Positions, is_before: Mask) -> None:
    """Raise NotFoundError for a moment before the oldest snapshot, unless the table did not exist before that."""
    if oldest.snapshot_id == _FIRST_ID or not is_before.any():
        return
    row = int(is_before.argmax())
    raise NotFoundError(
        f"row {row} of entities (counted from 0)",
        found=f"the time {exact_time_text(int(at_micros[row]) // 1000)}, before all versions that are kept",
        expected=f"a time from {exact_time_text(oldest.millis)} on, of snapshot {oldest.snapshot_id}, the oldest",
        action="Leave earlier rows out. The option history.table keeps versions for longer than snapshots.",
        code=ErrorCode.SNAPSHOT_NOT_FOUND,
    )


def snapshot_moments(table: OpenTable) -> SnapshotMoments:
    """Read the snapshots that are there. O(snapshots): each is a small file."""
    store, state = table._committer.snapshots, table._state()
    first, last = store.earliest_id() or 1, store.latest_id() or 0
    loaded = [or_none(store.load, id) for id in range(first, last + 1)]
    kept = [snapshot for snapshot in loaded if snapshot is not None]
    return SnapshotMoments(
        np.array([snapshot.id for snapshot in kept], np.int64),
        np.array([snapshot.time_millis for snapshot in kept], np.int64),
        np.array([touches_rows(snapshot, state) for snapshot in kept], np.bool_),
    )
