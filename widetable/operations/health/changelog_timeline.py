"""The rows of one bucket over a span of snapshots, ordered by time. Pure.

In: the table's rows, each with its source, kind, snapshot, and place in the changelog of that snapshot. Out: the rows
that break a law, and the rows of the table at a snapshot.

    BASE      the rows of the bucket at the start
    CHANGE    the changelog of a snapshot, in order
    WRITTEN   rows of files that a snapshot added to the emitted levels; newest file first

For each key, a CHANGE is compared with the CHANGE or BASE before it (chain law). A WRITTEN row is compared with it,
too: it must be the whole row of the changelog (law 5). Rows are compared column by column. Raises nothing.

    row    source     snapshot  place  kind  k   v
    0      BASE       1         0      +I    1   10
    1      CHANGE     2         0      -U    1   10    equals 0: right
    2      CHANGE     2         1      +U    1   11    right behind 1: right
    3      WRITTEN    2         0      +I    1   11    equals 2: right
    4      CHANGE     2         2      -D    2   5     chain: a live row before it is missing
    5      WRITTEN    3         0      +I    1   12    merged-rows: differs from 2

    order by key, then row     0 1 2 3 5 | 4             starts    0 5
    state before, by position  - 0 1 2 2 | -             a WRITTEN row is no state

All work is done on arrays, without a Python object for a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import one_array
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.merge.row_equality import equal_values
from widetable.runtime.derived_value import derived_value
from widetable.schema.row_kind import INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retraction

Rows: TypeAlias = npt.NDArray[np.int64]
Kinds: TypeAlias = npt.NDArray[np.int8]

CHAIN = "chain"
MERGED_ROWS = "merged-rows"


class TimelineSource(IntEnum):
    """Says where a row of a timeline comes from (module text)."""

    BASE = 0
    CHANGE = 1
    WRITTEN = 2


@dataclass(frozen=True)
class Breaches:
    """Rows that break a law in one way. rows int64[b]; others int64[b]: the previous row of the key, -1 for none.

    expected, actual: None if the finding is the difference of the two rows.
    """

    law: str
    rows: Rows
    others: Rows
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True)
class Timeline:
    """Holds the rows of all keys, ordered by time: of two rows of a key the later position is newer.

    rows: the table's columns. snapshots int64[n]: ids, ascending. places int64[n]: the position of a CHANGE in the
    snapshot's changelog. key: the key columns; compared: the columns in which equal rows agree. keeps_kinds: a new row
    may be a +U (first-row). lanes, order and starts are computed once, on first use.
    """

    rows: pa.Table
    sources: npt.NDArray[np.int8]
    kinds: Kinds
    snapshots: Rows
    places: Rows
    key: tuple[str, ...]
    compared: tuple[str, ...]
    keeps_kinds: bool = False

    def breaches(self) -> Iterator[Breaches]:
        """Yield the breaches of each law; some have no rows."""
        if not self.rows.num_rows:
            return
        sorted_rows = _Sorted(self)
        yield from sorted_rows.changes()
        yield from sorted_rows.written()

    def live_rows(self, snapshot_id: int) -> Rows:
        """Return the row numbers of the table's rows at a snapshot, in key order.

        Only the base and the changelogs count: the last such row of each key up to the snapshot is live, unless it is
        a retraction. In the module's example the result is [0] at snapshot 1, [2] at 2.
        """
        order = self.order
        if not len(order):
            return order
        emits = (self.sources[order] != TimelineSource.WRITTEN) & (
            self.snapshots[order] <= snapshot_id
        )
        last = np.maximum.reduceat(np.where(emits, np.arange(len(order)), -1), self.starts)
        rows = order[last[last >= 0]]
        return np.asarray(rows[~is_retraction(self.kinds[rows])])

    def count(self, source: TimelineSource) -> int:
        return int((self.sources == source).sum())

    @derived_value
    def lanes(self) -> npt.NDArray[np.uint64]:
        return key_lanes([self.rows.column(name) for name in self.key])

    @derived_value
    def order(self) -> Rows:
        """Return the row numbers, sorted by key, then time."""
        return sort_order(self.lanes, np.arange(self.rows.num_rows, dtype=np.int64))

    @derived_value
    def starts(self) -> Rows:
        """Return the position in `order` at which each key starts."""
        return group_starts(self.lanes, self.order)[:-1]


class _Sorted:
    """Views a timeline that is not empty by position in its order. A state is a BASE or CHANGE row.

    before int64[n]: the position of the previous state of the same key, -1 for none. has_live: whether that state is a
    live row.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        order = self._order = timeline.order
        self._kinds = timeline.kinds[order]
        self._sources = timeline.sources[order]
        self._snapshots = timeline.snapshots[order]
        self._places = timeline.places[order]
        self._before = self._states_before()
        self._has_before = self._before >= 0
        self._has_live = self._has_before & ~is_retraction(self._kinds[self._before])

    def _states_before(self) -> Rows:
        at = np.arange(len(self._order))
        is_state = self._sources != TimelineSource.WRITTEN
        last = np.maximum.accumulate(np.where(is_state, at, -1))
        before = np.concatenate([[-1], last[:-1]])
        sizes = np.diff(np.append(self._timeline.starts, len(at)))
        # The last state before a key's first row belongs to another key.
        before[before < np.repeat(self._timeline.starts, sizes)] = -1
        return np.asarray(before, np.int64)

    def changes(self) -> Iterator[Breaches]:
        is_change = self._sources == TimelineSource.CHANGE
        is_old = is_change & is_retraction(self._kinds)
        is_new = is_change & (self._kinds == INSERT)
        yield self._breaches(CHAIN, is_new & self._has_live, "no live row before +I", "one")
        yield self._breaches(CHAIN, is_old & ~self._has_live, "a live row before -U or -D", "none")
        yield self._differing(CHAIN, is_old & self._has_live)
        completes = self._completes_pair(is_change)
        is_completed = np.zeros(len(completes), np.bool_)
        is_completed[self._before[completes]] = True
        lone_after = is_change & (self._kinds == UPDATE_AFTER) & ~completes
        if self._timeline.keeps_kinds:
            lone_after &= self._has_live
        lone_before = is_change & (self._kinds == UPDATE_BEFORE) & ~is_completed
        yield self._breaches(CHAIN, lone_after, "the -U of its key right before +U", "none")
        yield self._breaches(CHAIN, lone_before, "the +U of its key right after -U", "none")

    def _completes_pair(self, is_change: Mask) -> Mask:
        """Whether a row is the +U of the -U right before it."""
        before = self._before
        return np.asarray(
            is_change
            & self._has_before
            & is_change[before]
            & (self._kinds == UPDATE_AFTER)
            & (self._kinds[before] == UPDATE_BEFORE)
            & (self._snapshots == self._snapshots[before])
            & (self._places == self._places[before] + 1)
        )

    def written(self) -> Iterator[Breaches]:
        written = (self._sources == TimelineSource.WRITTEN) & ~self._is_hidden()
        is_dead = is_retraction(self._kinds)
        added, deleted = written & ~is_dead, written & is_dead
        yield self._breaches(
            MERGED_ROWS, added & ~self._has_live, "no live row, as in the changelog", "one"
        )
        yield self._breaches(
            MERGED_ROWS,
            deleted & self._has_live,
            "a live row, as in the changelog",
            "a deleted one",
        )
        yield self._differing(MERGED_ROWS, added & self._has_live)

    def _is_hidden(self) -> Mask:
        """Tell for each row whether a newer file of the same snapshot has its key, too.

        Newest files come first, so readers see only the first of a key's WRITTEN rows of one snapshot. The others may
        be older rows, for which no law holds.
        """
        hidden = np.zeros(len(self._order), np.bool_)
        hidden[1:] = (self._sources[:-1] == TimelineSource.WRITTEN) & (
            self._snapshots[:-1] == self._snapshots[1:]
        )
        hidden[self._timeline.starts] = False
        return hidden

    def _breaches(self, law: str, wrong: Mask, expected: str, actual: str) -> Breaches:
        at = np.flatnonzero(wrong)
        return Breaches(law, self._order[at], self._others(at), expected, actual)

    def _differing(self, law: str, pairs: Mask) -> Breaches:
        at = np.flatnonzero(pairs)
        rows, others = self._order[at], self._others(at)
        table = self._timeline.rows
        differ = ~equal_rows(table, rows, table, others, self._timeline.compared)
        return Breaches(law, rows[differ], others[differ])

    def _others(self, at: Rows) -> Rows:
        before = self._before[at]
        return np.where(before < 0, -1, self._order[before])


def equal_rows(
    left: pa.Table, left_rows: Rows, right: pa.Table, right_rows: Rows, compared: Sequence[str]
) -> Mask:
    """Return bool[k]: whether each pair of rows agrees in the compared columns."""
    equal = np.ones(len(left_rows), np.bool_)
    for name in compared:
        equal &= equal_values(
            one_array(left.column(name)).take(pa.array(left_rows)),
            one_array(right.column(name)).take(pa.array(right_rows)),
        )
    return equal


def differing_keys(
    left: pa.Table, right: pa.Table, key: Sequence[str], compared: Sequence[str]
) -> tuple[Rows, Rows]:
    """Return the row numbers, left and right, of keys whose rows differ; -1 if a side lacks the key.

    Each side has a key at most once.

    left     k 1 2 3, v 1 2 3
    right    k 2 3 4, v 2 9 4
    found    left [0, 2, -1]    right [-1, 1, 2]      keys 1, 3 and 4
    """
    both_sides = [
        pa.chunked_array([*left.column(name).chunks, *right.column(name).chunks]) for name in key
    ]
    lanes = key_lanes(both_sides)
    order = sort_order(lanes, np.arange(len(lanes), dtype=np.int64))
    starts = group_starts(lanes, order)
    firsts, lasts = order[starts[:-1]], order[starts[1:] - 1]
    on_left = np.where(firsts < left.num_rows, firsts, -1)
    on_right = np.where(lasts >= left.num_rows, lasts - left.num_rows, -1)
    differs = (on_left < 0) | (on_right < 0)
    both = np.flatnonzero(~differs)
    differs[both] = ~equal_rows(left, on_left[both], right, on_right[both], compared)
    return on_left[differs], on_right[differs]
