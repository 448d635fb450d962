"""Find a batch of keys among sorted rows, and in several key ranges.

In: the key columns of both sides, each side in key order (key_lanes.py), the keys distinct. Out: pairs of (key, row)
whose keys are equal, ascending. The search for each key gallops from the end of the search before, so a few keys read a
few rows (a mapped column stays unread elsewhere) and many keys cost as much as a merge.

A single column of 32- or 64-bit numbers without nulls is compared in place; other keys are compared by lanes, into
which both sides must be encoded together: that reads all rows.

Raises TypeError where the sides differ in type or the type cannot be a key, ValueError for keys that do not ascend and
for columns of different length, RowsOutOfOrder for rows that are not in key order (only with `check_order`).

    keys 2 3 9      rows 1 2 2 5 9      hits 0 0 2, positions 1 2 4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.jit import kernel
from widetable.kernels.key_lanes import key_lanes

# Rows whose lexicographic order is the key order: u64[n, L], or signed integers of one column [n, 1].
Ordered: TypeAlias = npt.NDArray[Any]


class RowsOutOfOrder(ValueError):
    """Raised for rows that must be sorted and are not: the file is damaged."""


def match_keys(
    keys: Sequence[pa.Array], rows: Sequence[pa.Array], *, check_order: bool = False
) -> tuple[Positions, Positions]:
    """Return (hits int64[h] into keys, positions int64[h] into rows), both ascending.

    keys, rows: the same key columns of both, most significant first. With distinct rows each key is hit at most once; a
    key that several rows have gives a pair for each of them. check_order: check the order of the rows, which
    reads all of them.
    """
    row_types = [column.type for column in rows]
    if [column.type for column in keys] != row_types:
        raise TypeError(
            f"keys: found the types {[column.type for column in keys]}, expected those of the rows: {row_types}"
        )
    ordered_keys, ordered_rows = _ordered(keys, rows)
    wrong = _first_out_of_order(ordered_keys, -1)
    if wrong >= 0:
        raise ValueError(f"keys: found key {wrong} not after the key before it, expected key order")
    wrong = _first_out_of_order(ordered_rows, 0) if check_order else -1
    if wrong >= 0:
        raise RowsOutOfOrder(
            f"rows: found row {wrong} with a smaller key than the row before it, expected key order"
        )
    # Unwritten pages of these arrays take no memory.
    hits = np.empty(len(ordered_rows), np.int64)
    positions = np.empty(len(ordered_rows), np.int64)
    count = _match(ordered_keys, ordered_rows, hits, positions)
    return hits[:count].copy(), positions[:count].copy()


def slices_in_ranges(
    keys: Sequence[pa.Array], lower: Sequence[pa.Array], upper: Sequence[pa.Array]
) -> tuple[Positions, Positions]:
    """Return (starts int64[r], ends int64[r]): keys[starts[i] : ends[i]] may lie in range i, other keys do not.

    keys: in key order, without nulls. lower, upper: the same columns, one row per range: its smallest and its largest
    key. A null in `lower` is smaller and one in `upper` larger than any value.

        keys 1 3 5 7      ranges [2, 5] [null, 4] [8, null]      slices 1:3, 0:2, 4:4

    This decides which files a batch of keys reads, by the ranges in manifests. Keys and bounds are
    encoded together, so that their lanes can be compared; each range costs two binary
    searches.
    """
    ranges = len(lower[0])
    columns: list[pa.ChunkedArray] = []
    for key, low, high in zip(keys, lower, upper, strict=True):
        # An additional column: false for keys and lower bounds, true for an upper bound that is
        # null, so that it sorts behind all. A null in `lower` needs none, because null is the
        # smallest value.
        if high.null_count:
            no = pa.repeat(pa.scalar(False), len(key) + ranges)
            columns.append(pa.chunked_array([no, high.is_null()]))
        columns.append(pa.chunked_array([key, low, high], type=key.type))
    lanes = key_lanes(columns)
    count = len(lanes) - 2 * ranges
    starts, ends = np.empty(ranges, np.int64), np.empty(ranges, np.int64)
    _slices(lanes[:count], lanes[count : count + ranges], lanes[count + ranges :], starts, ends)
    return starts, ends


def _ordered(keys: Sequence[pa.Array], rows: Sequence[pa.Array]) -> tuple[Ordered, Ordered]:
    """Return both sides in a form that `_compare` takes. The plain form reads only the rows of the
    search: a mapped column of a million rows is hardly read for three keys.
    """
    if len(keys) == 1 and _is_plain_number(keys[0]) and _is_plain_number(rows[0]):
        dtype = np.dtype(f"i{rows[0].type.bit_width // 8}")
        one, other = fixed_values(keys[0], dtype), fixed_values(rows[0], dtype)
        return one.reshape(-1, 1), other.reshape(-1, 1)
    both = [
        pa.chunked_array([one, other], type=other.type)
        for one, other in zip(keys, rows, strict=True)
    ]
    lanes = key_lanes(both)
    count = len(keys[0]) if keys else 0
    return lanes[:count], lanes[count:]


def _is_plain_number(column: pa.Array) -> bool:
    kind = column.type
    is_number = pa.types.is_int32(kind) or pa.types.is_int64(kind)
    is_time = pa.types.is_date32(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return column.null_count == 0 and bool(is_number or is_time)


@kernel
def _compare(one: Ordered, row: int, other: Ordered, other_row: int) -> int:
    for lane in range(one.shape[1]):
        if one[row, lane] != other[other_row, lane]:
            return -1 if one[row, lane] < other[other_row, lane] else 1
    return 0


@kernel
def _first_out_of_order(rows: Ordered, least: int) -> int:
    """Return the first row to which the row before it compares as more than `least`, or -1."""
    for row in range(1, len(rows)):
        if _compare(rows, row - 1, rows, row) > least:
            return row
    return -1


@kernel
def _rows_before(rows: Ordered, bounds: Ordered, bound: int, least: int) -> int:
    """Return how many of the sorted rows compare with a bound as `least` or less."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if _compare(rows, middle, bounds, bound) <= least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _slices(
    keys: Ordered, lower: Ordered, upper: Ordered, starts: Positions, ends: Positions
) -> None:
    for bound in range(len(lower)):
        starts[bound] = _rows_before(keys, lower, bound, -1)
        ends[bound] = max(_rows_before(keys, upper, bound, 0), starts[bound])


@kernel
def _match(keys: Ordered, rows: Ordered, hits: Positions, positions: Positions) -> int:
    """Fill in the pairs and return their number, which is at most the number of rows."""
    end = len(rows)
    low = 0
    count = 0
    for key in range(len(keys)):
        # Rows below `low` are smaller than the key. Strides double until one lands on a row that is not.
        high = low
        stride = 1
        while high < end and _compare(rows, high, keys, key) < 0:
            low = high + 1
            high += stride
            stride *= 2
        high = min(high, end)
        while low < high:
            middle = (low + high) // 2
            if _compare(rows, middle, keys, key) < 0:
                low = middle + 1
            else:
                high = middle
        if low == end:
            break
        while low < end and _compare(rows, low, keys, key) == 0:
            hits[count] = key
            positions[count] = low
            count += 1
            low += 1
    return count
