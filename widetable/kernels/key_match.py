"""Where a batch of keys lies among sorted rows.

In: the key columns of both sides, each side in key order (key_lanes.py), the keys distinct. Out: pairs of (key, row)
whose keys are equal, ascending. Every key gallops from where the one before it ended, so a few keys touch a few rows
(a mapped column stays unread elsewhere) and many keys cost what a merge costs.

A single column of whole numbers without nulls is compared as it lies in memory; all else by lanes, which both sides
must be encoded into together: that reads all rows.

Raises TypeError where the sides differ in type or the type cannot be a key, ValueError for rows that are not in key
order (only with `check_order`) and for columns of different length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.jit import kernel
from widetable.kernels.key_lanes import key_lanes

# Rows whose lexicographic order is the key order: u64[n, L], or signed integers of one column [n, 1].
Ordered: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int64]


def match_keys(
    keys: Sequence[pa.Array], rows: Sequence[pa.Array], *, check_order: bool = False
) -> tuple[Positions, Positions]:
    """(hits int64[h] into keys, positions int64[h] into rows), both ascending.

    keys, rows: the same key columns of both, most significant first. With distinct rows each key is hit once at most; a
    key that several rows have gives a pair for each of them. check_order: make sure of the order of the rows, which
    reads all of them.
    """
    found = [column.type for column in rows]
    if [column.type for column in keys] != found:
        raise TypeError(
            f"keys: found the types {[column.type for column in keys]}, expected those of the rows: {found}"
        )
    ordered_keys, ordered_rows = _ordered(keys, rows)
    if check_order:
        row = first_descent(ordered_rows)
        if row >= 0:
            raise ValueError(
                f"rows: found row {row} before the row ahead of it, expected key order"
            )
    # Pages of these that nothing is written to take no memory.
    hits = np.empty(len(ordered_rows), np.int64)
    positions = np.empty(len(ordered_rows), np.int64)
    count = _match(ordered_keys, ordered_rows, hits, positions)
    return hits[:count].copy(), positions[:count].copy()


def _ordered(keys: Sequence[pa.Array], rows: Sequence[pa.Array]) -> tuple[Ordered, Ordered]:
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
    is_time = pa.types.is_date32(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return column.null_count == 0 and bool(pa.types.is_signed_integer(kind) or is_time)


@kernel
def _compare(one: Ordered, row: int, other: Ordered, other_row: int) -> int:
    for lane in range(one.shape[1]):
        if one[row, lane] != other[other_row, lane]:
            return -1 if one[row, lane] < other[other_row, lane] else 1
    return 0


@kernel
def first_descent(rows: Ordered) -> int:
    """The first row whose key is smaller than the one ahead of it, or -1."""
    for row in range(1, len(rows)):
        if _compare(rows, row, rows, row - 1) < 0:
            return row
    return -1


@kernel
def _match(keys: Ordered, rows: Ordered, hits: Positions, positions: Positions) -> int:
    """Fills in the pairs and says how many there are: not more than rows."""
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
