"""Sort rows in any order by key lanes, then sequence number, then position; and find where equal keys begin.

In: `lanes` (n, L) uint64, C-contiguous (key_lanes.py), and a sequence number per row. Out: int64 row
numbers. Callers guarantee the lengths. A radix sort orders rows by the first lane, then only the rows that tie by the
next lane, and so on; input that is sorted already is recognised in one pass.

Measured in M rows/s, one thread, 1 to 2.6 M rows; merge_order.py has the numbers of sorted runs:

    unsorted rows               1 lane, 20 / 40 / 64 bits   3 lanes (24 hex digits)
    sort_order                           96 / 70 / 50         16 to 22
    numpy argsort, lexsort               12 / 12 / 12          3.6
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.array_types import Lanes
from widetable.kernels.jit import kernel

Rows: TypeAlias = npt.NDArray[np.int64]

# Ties of fewer rows than this are sorted by insertion, larger ones by radix, which costs 8 * 256 counts however few
# rows there are.
_SMALL = 48


def sort_order(lanes: Lanes, sequence: npt.NDArray[np.int64]) -> Rows:
    """Return row numbers ordered by (lanes, sequence, row number).

        lanes      3 1 3 1     sequence   9 2 8 2     order   1 3 2 0

    Beside the result this takes 32 bytes per row, and, where sequence numbers do not ascend by
    position, a copy of the lanes with one more lane. Where they ascend, a stable sort keeps them in
    order.
    """
    rows = lanes.shape[0]
    order = np.arange(rows, dtype=np.int64)
    if rows < 2 or _first_unordered(lanes, sequence, 0, rows) < 0:
        return order
    if not _ascending(sequence):
        lanes = np.concatenate([lanes, sequence_lane(sequence)], axis=1)
    keys, spare_keys = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
    spare, ends, counts = (
        np.empty(rows, np.int64),
        np.zeros(rows, np.int64),
        np.empty((8, 256), np.int64),
    )
    _sort_by_lanes(lanes, order, spare, keys, spare_keys, ends, counts, _SMALL)
    return order


def group_starts(lanes: Lanes, order: Rows) -> Rows:
    """Return where each group of equal lanes starts in `order`, and n at the end: g + 1 positions.

    lanes: of the key alone, so rows that differ only in their sequence number are one group. order:
    the result of `sort_order` or `merge_order` for the same lanes. Without rows the result is [0].
    """
    starts = np.empty(len(order) + 1, np.int64)
    groups = _group_starts(lanes, order, starts)
    return starts[: groups + 1].copy()


def sequence_lane(sequence: npt.NDArray[np.int64]) -> Lanes:
    """Return a lane (n, 1) that sorts like the numbers.

    The sign bit is flipped: -1, 0, 1 become 7FFF.., 8000..00, 8000..01.
    """
    return (sequence.view(np.uint64) ^ np.uint64(1 << 63)).reshape(-1, 1)


@kernel
def _first_unordered(lanes: Lanes, sequence: npt.NDArray[np.int64], start: int, end: int) -> int:
    """Return the first of rows start + 1 to end - 1 that is smaller than the row before it, or -1."""
    for row in range(start + 1, end):
        tied = True
        for lane in range(lanes.shape[1]):
            if lanes[row, lane] != lanes[row - 1, lane]:
                if lanes[row, lane] < lanes[row - 1, lane]:
                    return row
                tied = False
                break
        if tied and sequence[row] < sequence[row - 1]:
            return row
    return -1


@kernel
def first_unordered(
    lanes: Lanes, sequence: npt.NDArray[np.int64], run_offsets: npt.NDArray[np.int64]
) -> int:
    """Return the first row that is smaller than the row before it in its run, or -1. run_offsets: as of
    `merge_order`.
    """
    for run in range(len(run_offsets) - 1):
        row = _first_unordered(lanes, sequence, run_offsets[run], run_offsets[run + 1])
        if row >= 0:
            return row
    return -1


@kernel
def _ascending(sequence: npt.NDArray[np.int64]) -> bool:
    for row in range(1, len(sequence)):
        if sequence[row] < sequence[row - 1]:
            return False
    return True


@kernel
def _radix_sort(
    keys: npt.NDArray[np.uint64],
    order: Rows,
    spare_keys: npt.NDArray[np.uint64],
    spare: Rows,
    counts: npt.NDArray[np.int64],
) -> None:
    """Sort `order` by `keys` (key of order[i] is keys[i]), stable, both in place; the spares have
    the same length. counts[8, 256]: memory for counts.
    """
    rows = len(keys)
    low_byte = np.uint64(255)
    for digit in range(8):
        for value in range(256):
            counts[digit, value] = 0
    for i in range(rows):
        key = keys[i]
        for digit in range(8):
            counts[digit, np.int64((key >> np.uint64(8 * digit)) & low_byte)] += 1
    in_spare = False
    for digit in range(8):
        shift = np.uint64(8 * digit)
        # All rows agree in this byte, so a pass would move nothing; any row serves for the test,
        # and `keys` as well as the spare. A lane of 20 significant bits takes three passes instead
        # of eight.
        if counts[digit, np.int64((keys[0] >> shift) & low_byte)] == rows:
            continue
        total = 0
        for value in range(256):
            total, counts[digit, value] = total + counts[digit, value], total
        if in_spare:
            _scatter(spare_keys, spare, keys, order, counts[digit], shift)
        else:
            _scatter(keys, order, spare_keys, spare, counts[digit], shift)
        in_spare = not in_spare
    if in_spare:
        for i in range(rows):
            order[i] = spare[i]
            keys[i] = spare_keys[i]


@kernel
def _scatter(
    keys: npt.NDArray[np.uint64],
    order: Rows,
    to_keys: npt.NDArray[np.uint64],
    to_order: Rows,
    positions: Rows,
    shift: np.uint64,
) -> None:
    low_byte = np.uint64(255)
    for i in range(len(keys)):
        digit = np.int64((keys[i] >> shift) & low_byte)
        position = positions[digit]
        positions[digit] = position + 1
        to_keys[position] = keys[i]
        to_order[position] = order[i]


@kernel
def _sort_by_lanes(
    lanes: Lanes,
    order: Rows,
    spare: Rows,
    keys: npt.NDArray[np.uint64],
    spare_keys: npt.NDArray[np.uint64],
    ends: Rows,
    counts: npt.NDArray[np.int64],
    small: int,
) -> None:
    """Sort `order` by all lanes, stable. Each lane sorts only rows that tie on the lanes before; small
    ties are sorted by all lanes at once. ends[i], zero at first: where the range ends that begins at position i and is
    not sorted yet.
    """
    rows = len(order)
    ends[0] = rows
    for lane in range(lanes.shape[1]):
        start = 0
        while start < rows:
            end = ends[start]
            if end - start < 2:
                start += 1
                continue
            # The range is removed from the list; rows that still tie are added again below, for the
            # next lane. Insertion compares all remaining lanes at once, so none of its range is
            # added again.
            ends[start] = 0
            if end - start < small:
                _insertion_sort(lanes, order, start, end, lane)
            else:
                for i in range(start, end):
                    keys[i] = lanes[order[i], lane]
                _radix_sort(
                    keys[start:end],
                    order[start:end],
                    spare_keys[start:end],
                    spare[start:end],
                    counts,
                )
                first = start
                for i in range(start + 1, end + 1):
                    if i == end or keys[i] != keys[first]:
                        ends[first] = i
                        first = i
            start = end


@kernel
def _insertion_sort(lanes: Lanes, order: Rows, start: int, end: int, first_lane: int) -> None:
    for i in range(start + 1, end):
        row = order[i]
        at = i
        while at > start:
            other = order[at - 1]
            less = False
            for lane in range(first_lane, lanes.shape[1]):
                if lanes[row, lane] != lanes[other, lane]:
                    less = lanes[row, lane] < lanes[other, lane]
                    break
            if not less:
                break
            order[at] = other
            at -= 1
        order[at] = row


@kernel
def _group_starts(lanes: Lanes, order: Rows, starts: Rows) -> int:
    rows, groups = len(order), 0
    for i in range(rows):
        differs = i == 0
        if not differs:
            for lane in range(lanes.shape[1]):
                if lanes[order[i], lane] != lanes[order[i - 1], lane]:
                    differs = True
                    break
        if differs:
            starts[groups] = i
            groups += 1
    starts[groups] = rows
    return groups
