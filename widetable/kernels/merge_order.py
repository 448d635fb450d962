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
    if not len(plan) or rows < 2:
        return order
    # One or two lanes travel with the row numbers; more are looked at only where those tie.
    keys = lanes[:, :2].copy()
    other_keys, other_order = np.empty_like(keys), np.empty_like(order)
    if _merge_runs(keys, order, other_keys, other_order, plan):
        keys, order, other_order = other_keys, other_order, order
    if lanes.shape[1] > 2 or not _runs_rise(sequence, run_offsets):
        _settle_ties(lanes, sequence, keys, order, other_order)
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
def _runs_rise(sequence: npt.NDArray[np.int64], run_offsets: npt.NDArray[np.int64]) -> bool:
    """Whether no run has a lower sequence than a run before it: then equal keys keep their position."""
    highest = np.int64(-(2**63))
    for run in range(len(run_offsets) - 1):
        run_highest = highest
        for row in range(run_offsets[run], run_offsets[run + 1]):
            if sequence[row] < highest:
                return False
            run_highest = max(run_highest, sequence[row])
        highest = run_highest
    return True


@kernel
def _merge_runs(
    keys: Lanes, order: Rows, other_keys: Lanes, other_order: Rows, merges: npt.NDArray[np.int64]
) -> bool:
    """Merge by `keys`, then position; the runs start out in `keys` and `order`.

    A merge goes from one pair of arrays to the other, so a run is in either pair; the shorter one
    moves first if they differ. Returns whether all is in the other pair at the end.
    """
    in_other = np.zeros(len(keys) + 1, np.bool_)  # by first position of a run
    for step in range(len(merges)):
        start, middle, end = merges[step, 0], merges[step, 1], merges[step, 2]
        if start == middle or middle == end:
            continue
        if in_other[start] != in_other[middle]:
            first, last = (start, middle) if middle - start < end - middle else (middle, end)
            if in_other[first]:
                keys[first:last] = other_keys[first:last]
                order[first:last] = other_order[first:last]
            else:
                other_keys[first:last] = keys[first:last]
                other_order[first:last] = order[first:last]
            in_other[first] = not in_other[first]
        lefts = middle - start
        if in_other[start]:
            _merge_pair(
                other_keys[start:end],
                other_order[start:end],
                lefts,
                keys[start:end],
                order[start:end],
            )
        else:
            _merge_pair(
                keys[start:end],
                order[start:end],
                lefts,
                other_keys[start:end],
                other_order[start:end],
            )
        in_other[start] = not in_other[start]
    return bool(in_other[0])


@kernel
def _merge_pair(keys: Lanes, order: Rows, lefts: int, to_keys: Lanes, to_order: Rows) -> None:
    if keys.shape[1] == 1:
        _merge_two(keys, order, lefts, to_keys, to_order)
    else:
        _merge_two_wide(keys, order, lefts, to_keys, to_order)


@kernel
def _merge_two(keys: Lanes, order: Rows, lefts: int, to_keys: Lanes, to_order: Rows) -> None:
    """Merge the run of the first `lefts` rows with the one of the rest; equal keys: left row first.

    From both ends at once, and without a branch that depends on the outcome: two chains of loads that
    the processor overlaps, and nothing to mispredict. Positions are unsigned: numba would test signed
    ones for being negative. 3 times faster than a plain loop on runs of equal length.
    """
    one, lane = np.uint64(1), np.uint64(0)
    # What is left: left rows i ..< i_end, right rows j ..< j_end, to be written to out ..< out_end.
    i, i_end = np.uint64(0), np.uint64(lefts)
    j, j_end = i_end, np.uint64(len(keys))
    out, out_end = i, j_end
    while True:
        # So many rows can be taken from each end before a side runs out or the ends meet.
        steps = min(i_end - i, j_end - j, (j_end - j + i_end - i) // np.uint64(2))
        if steps < np.uint64(16):
            break
        for _ in range(steps):
            key, other = keys[i, lane], keys[j, lane]
            right = np.uint64(other < key)
            to_keys[out, lane] = min(key, other)
            to_order[out] = order[i] ^ ((order[i] ^ order[j]) & -np.int64(right))
            i += one - right
            j += right
            out += one
            p, q = i_end - one, j_end - one
            key, other = keys[p, lane], keys[q, lane]
            left = np.uint64(other < key)
            out_end -= one
            to_keys[out_end, lane] = max(key, other)
            to_order[out_end] = order[q] ^ ((order[p] ^ order[q]) & -np.int64(left))
            i_end -= left
            j_end -= one - left
    _merge_rest(keys, order, i, i_end, j, j_end, to_keys, to_order, out)


@kernel
def _merge_two_wide(keys: Lanes, order: Rows, lefts: int, to_keys: Lanes, to_order: Rows) -> None:
    """`_merge_two` for keys of two lanes."""
    one, lane, low = np.uint64(1), np.uint64(0), np.uint64(1)
    i, i_end = np.uint64(0), np.uint64(lefts)
    j, j_end = i_end, np.uint64(len(keys))
    out, out_end = i, j_end
    while True:
        steps = min(i_end - i, j_end - j, (j_end - j + i_end - i) // np.uint64(2))
        if steps < np.uint64(16):
            break
        for _ in range(steps):
            key, other = keys[i, lane], keys[j, lane]
            low_key, low_other = keys[i, low], keys[j, low]
            right = np.uint64(other < key) | (
                np.uint64(other == key) & np.uint64(low_other < low_key)
            )
            source = i ^ ((i ^ j) & (np.uint64(0) - right))
            to_keys[out, lane], to_keys[out, low] = keys[source, lane], keys[source, low]
            to_order[out] = order[source]
            i += one - right
            j += right
            out += one
            p, q = i_end - one, j_end - one
            key, other = keys[p, lane], keys[q, lane]
            low_key, low_other = keys[p, low], keys[q, low]
            left = np.uint64(other < key) | (
                np.uint64(other == key) & np.uint64(low_other < low_key)
            )
            source = q ^ ((p ^ q) & (np.uint64(0) - left))
            out_end -= one
            to_keys[out_end, lane], to_keys[out_end, low] = keys[source, lane], keys[source, low]
            to_order[out_end] = order[source]
            i_end -= left
            j_end -= one - left
    _merge_rest(keys, order, i, i_end, j, j_end, to_keys, to_order, out)


@kernel
def _merge_rest(
    keys: Lanes,
    order: Rows,
    i: np.uint64,
    i_end: np.uint64,
    j: np.uint64,
    j_end: np.uint64,
    to_keys: Lanes,
    to_order: Rows,
    out: np.uint64,
) -> None:
    """Merge left rows i ..< i_end and right rows j ..< j_end to `out` on, one by one."""
    last = keys.shape[1] - 1
    while i < i_end or j < j_end:
        right = i == i_end
        if not right and j < j_end:
            right = keys[j, 0] < keys[i, 0] or (
                keys[j, 0] == keys[i, 0] and keys[j, last] < keys[i, last]
            )
        source = j if right else i
        for lane in range(keys.shape[1]):
            to_keys[out, lane] = keys[source, lane]
        to_order[out] = order[source]
        i += np.uint64(not right)
        j += np.uint64(right)
        out += np.uint64(1)


@kernel
def _settle_ties(
    lanes: Lanes, sequence: npt.NDArray[np.int64], keys: Lanes, order: Rows, spare: Rows
) -> None:
    """Order the rows that tie on `keys` by all lanes and the sequence; they stand by position."""
    rows, last = len(order), keys.shape[1] - 1
    start = 0
    while start < rows:
        end = start + 1
        while (
            end < rows and keys[end, 0] == keys[start, 0] and keys[end, last] == keys[start, last]
        ):
            end += 1
        if end - start > 1:
            _merge_stretches(lanes, sequence, order[start:end], spare[start:end])
        start = end


@kernel
def _merge_stretches(
    lanes: Lanes, sequence: npt.NDArray[np.int64], order: Rows, spare: Rows
) -> None:
    """Sort `order`, stable, by merging neighbouring stretches that are in order, until one is left."""
    rows = len(order)
    while True:
        start = 0
        while start < rows:
            middle = _stretch_end(lanes, sequence, order, start)
            if middle == rows:
                break
            end = _stretch_end(lanes, sequence, order, middle)
            spare[start:middle] = order[start:middle]
            i, j = start, middle
            for out in range(start, end):
                if i == middle:
                    break
                if j < end and _before(lanes, sequence, order[j], spare[i]):
                    order[out] = order[j]
                    j += 1
                else:
                    order[out] = spare[i]
                    i += 1
            start = end
        if start == 0:
            return


@kernel
def _stretch_end(lanes: Lanes, sequence: npt.NDArray[np.int64], order: Rows, start: int) -> int:
    end = start + 1
    while end < len(order) and not _before(lanes, sequence, order[end], order[end - 1]):
        end += 1
    return end


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
