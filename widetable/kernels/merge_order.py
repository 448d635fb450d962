"""The order in which rows are merged: by key lanes, then sequence number, then position.

In: `lanes` (n, L) uint64, C-contiguous (key_lanes.py), and a sequence number per row. Out: int64
row numbers. Two functions, by what is known of the input:

* `sort_order` knows nothing. Radix sort on the first lane, then only the rows that tie on it by the
  next lane, and so on; input that is in order already is recognised in one pass.
* `merge_order` knows where sorted runs start. Runs are merged two at a time, the two shortest
  first, with galloping: a run much shorter than its partner is searched for, not walked along.

Measured are M rows/s in `docs` of the functions. Nothing is raised; lengths are the caller's
promise.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Lanes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]

# Ties of fewer rows than this are sorted by insertion, larger ones by radix.
_SMALL = 48


def sort_order(lanes: Lanes, sequence: npt.NDArray[np.int64]) -> Rows:
    """Row numbers ordered by (lanes, sequence, row number)."""
    rows, width = lanes.shape
    order = np.arange(rows, dtype=np.int64)
    if rows < 2 or _in_order(lanes, sequence):
        return order
    if not _ascending(sequence):
        lanes = np.concatenate([lanes, _sequence_lane(sequence)], axis=1)
        width += 1
    keys, spare_keys = np.empty(rows, np.uint64), np.empty(rows, np.uint64)
    _sort_by_lanes(lanes, order, np.empty(rows, np.int64), keys, spare_keys, _SMALL)
    return order


def merge_order(
    lanes: Lanes, sequence: npt.NDArray[np.int64], run_offsets: npt.NDArray[np.int64]
) -> Rows:
    """Row numbers ordered by (lanes, sequence, row number); rows run_offsets[i] : run_offsets[i +
    1] are in that order already, for each of the k runs (k + 1 offsets, from 0 to n). So of two
    equal rows the one of the lower run comes first.
    """
    rows = lanes.shape[0]
    order = np.arange(rows, dtype=np.int64)
    plan = _merge_plan(run_offsets)
    if len(plan):
        spare, spare_keys = np.empty(rows, np.int64), np.empty(rows, np.uint64)
        _merge_runs(lanes, sequence, order, lanes[:, 0].copy(), spare, spare_keys, plan)
    return order


def group_starts(lanes: Lanes, order: Rows) -> Rows:
    """Where each group of equal lanes starts in `order`, and n at the end: g + 1 positions for g
    groups.
    """
    starts = np.empty(len(order) + 1, np.int64)
    groups = _group_starts(lanes, order, starts)
    return starts[: groups + 1].copy()


def _sequence_lane(sequence: npt.NDArray[np.int64]) -> Lanes:
    return (sequence.view(np.uint64) ^ np.uint64(1 << 63)).reshape(-1, 1)


@kernel
def _ascending(sequence: npt.NDArray[np.int64]) -> bool:
    for row in range(1, len(sequence)):
        if sequence[row] < sequence[row - 1]:
            return False
    return True


@kernel
def _before(lanes: Lanes, sequence: npt.NDArray[np.int64], row: int, other: int) -> bool:
    """Whether `row` comes before `other` by (lanes, sequence)."""
    for lane in range(lanes.shape[1]):
        if lanes[row, lane] != lanes[other, lane]:
            return bool(lanes[row, lane] < lanes[other, lane])
    return bool(sequence[row] < sequence[other])


@kernel
def _in_order(lanes: Lanes, sequence: npt.NDArray[np.int64]) -> bool:
    for row in range(1, len(sequence)):
        if _before(lanes, sequence, row, row - 1):
            return False
    return True


# Sorting


@kernel
def _radix_sort(
    keys: npt.NDArray[np.uint64], order: Rows, spare_keys: npt.NDArray[np.uint64], spare: Rows
) -> None:
    """Sort `order` by `keys` (key of order[i] is keys[i]), stable, both in place; the spares have
    the same length.
    """
    rows = len(keys)
    low_byte = np.uint64(255)
    counts = np.zeros((8, 256), np.int64)
    for i in range(rows):
        key = keys[i]
        for digit in range(8):
            counts[digit, np.int64((key >> np.uint64(8 * digit)) & low_byte)] += 1
    in_spare = False
    for digit in range(8):
        shift = np.uint64(8 * digit)
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
        order[:] = spare
        keys[:] = spare_keys


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
    small: int,
) -> None:
    """Sort `order` by all lanes, stable. Lane by lane, only rows that tie on the lanes before;
    small ties at once.
    """
    rows = len(order)
    # ends[i] for the first position i of a range still to be sorted: where it ends; the range
    # starts out as everything.
    ends = np.zeros(rows, np.int64)
    ends[0] = rows
    for lane in range(lanes.shape[1]):
        start = 0
        while start < rows:
            end = ends[start]
            if end - start < 2:
                start += 1
                continue
            ends[start] = 0
            if end - start < small:
                _insertion_sort(lanes, order, start, end, lane)
            else:
                for i in range(start, end):
                    keys[i] = lanes[order[i], lane]
                _radix_sort(
                    keys[start:end], order[start:end], spare_keys[start:end], spare[start:end]
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


# Merging


@kernel
def _merge_plan(run_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(start, middle, end) of each merge of two neighbours, the shortest pair first."""
    cuts = run_offsets.copy()
    merges = np.empty((max(len(cuts) - 2, 0), 3), np.int64)
    for step in range(len(merges)):
        runs = len(cuts) - 1 - step
        best = 0
        for i in range(1, runs - 1):
            if cuts[i + 2] - cuts[i] < cuts[best + 2] - cuts[best]:
                best = i
        merges[step, 0], merges[step, 1], merges[step, 2] = (
            cuts[best],
            cuts[best + 1],
            cuts[best + 2],
        )
        for i in range(best + 1, runs):
            cuts[i] = cuts[i + 1]
    return merges


@kernel
def _merge_runs(
    lanes: Lanes,
    sequence: npt.NDArray[np.int64],
    order: Rows,
    keys: npt.NDArray[np.uint64],
    spare: Rows,
    spare_keys: npt.NDArray[np.uint64],
    merges: npt.NDArray[np.int64],
) -> None:
    for step in range(len(merges)):
        start, middle, end = merges[step, 0], merges[step, 1], merges[step, 2]
        if start < middle < end:
            lefts = middle - start
            spare[:lefts] = order[start:middle]
            spare_keys[:lefts] = keys[start:middle]
            _merge_two(
                lanes,
                sequence,
                spare[:lefts],
                spare_keys[:lefts],
                order[start:end],
                keys[start:end],
            )


@kernel
def _merge_two(
    lanes: Lanes,
    sequence: npt.NDArray[np.int64],
    left: Rows,
    left_keys: npt.NDArray[np.uint64],
    merged: Rows,
    keys: npt.NDArray[np.uint64],
) -> None:
    """Merge `left` with the right run, which fills the end of `merged`, into `merged`; ties take
    the left row.

    The first lanes travel along in `keys`, so that most comparisons read memory in order. A block
    of one side that lies before the other side's next row is moved as it is; otherwise a block's
    worth of rows is chosen one by one, without a branch that depends on the outcome.
    """
    block = 32
    lefts, rows = len(left), len(merged)
    i, j, out = 0, lefts, 0
    while i + block < lefts and j + block < rows:
        if left_keys[i + block - 1] < keys[j]:
            merged[out : out + block] = left[i : i + block]
            keys[out : out + block] = left_keys[i : i + block]
            i += block
            out += block
            continue
        if keys[j + block - 1] < left_keys[i]:
            for _ in range(block):
                merged[out], keys[out] = merged[j], keys[j]
                out += 1
                j += 1
            continue
        for _ in range(block):
            key, other_key = left_keys[i], keys[j]
            row, other = left[i], merged[j]
            right = other_key < key
            if other_key == key:
                right = _before(lanes, sequence, other, row)
            merged[out] = other if right else row
            keys[out] = other_key if right else key
            out += 1
            j += 1 if right else 0
            i += 0 if right else 1
    while i < lefts and j < rows:
        if keys[j] < left_keys[i] or (
            keys[j] == left_keys[i] and _before(lanes, sequence, merged[j], left[i])
        ):
            merged[out], keys[out] = merged[j], keys[j]
            j += 1
        else:
            merged[out], keys[out] = left[i], left_keys[i]
            i += 1
        out += 1
    merged[out : out + lefts - i] = left[i:]
    keys[out : out + lefts - i] = left_keys[i:]


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
