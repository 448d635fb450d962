"""Encode rows of key columns as u64 lanes whose lexicographic order is the key order.

In: columns of equal length. Out: a C-contiguous (n, L) uint64 array, L >= 1. Comparing two rows
lane by lane, left to right, gives Paimon's order: columns left to right; null before everything
(after everything with `nulls_first=False`); integers, dates, times, timestamps and decimals by
value; false before true; floats in Java's total order (-0.0 before 0.0, NaN last, all NaNs equal);
strings and binaries by unsigned bytes, a prefix before its extensions. Rows are equal exactly when
all lanes are equal. Lanes of two calls are not comparable.

How: every column becomes "parts", one u64 array each. A part is then rebased to its smallest value,
and low bits in which all rows agree are removed, which leaves `width` significant bits (0 for a
constant part, which thereby vanishes). The remaining bits of all parts are written one after the
other, like one big-endian bit string per row, flush right in ceil(sum of widths / 64) lanes. So
(nullable INT, INT, BOOLEAN) is usually one lane.

    fixed-width value   [1 bit: 0 null, 1 value, if the column has nulls] [value, sign bit flipped]
    DECIMAL p > 18      [null bit] [high word, sign bit flipped] [low word]
    bytes               [null bit] [words of bytes_lanes.py] or, for long ones, [rank]
    dictionary          [null bit] [rank of the value]

Raises TypeError for a column type that cannot be a key (nested types), ValueError for columns of
different length.

    INT, BOOLEAN     (7, true)   (null, false)   (1000, true)      lanes 2049, 0, 4035      in 12 bits of one lane
    INT              7   null   9   nulls_first=False              lanes 0, 2, 1
    INT              7   null   9   descending                     lanes 3, 1, 2            null stays first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.arrow_buffers import (
    ArrowColumn,
    bool_values,
    chunks_of,
    fixed_values,
    is_bytes,
    one_array,
    valid_of,
)
from widetable.kernels.bytes_lanes import bytes_lanes
from widetable.kernels.float_order import order_bits
from widetable.kernels.jit import kernel
from widetable.kernels.sort_order import group_starts, sort_order

Lane: TypeAlias = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)


def key_lanes(
    columns: Sequence[ArrowColumn],
    *,
    nulls_first: bool = True,
    descending: Sequence[bool] | None = None,
) -> npt.NDArray[np.uint64]:
    """Return the lanes of `columns`, most significant column first.

    `descending[i]` reverses the order of the values of column i; nulls stay where `nulls_first`
    puts them.

    To compare rows of two tables, pass both in one call, as chunks of one column each:
    lanes of two calls have different bases. No column, or no row, gives (0, 1). Reads all rows.
    """
    rows = len(columns[0]) if columns else 0
    if any(len(column) != rows for column in columns):
        raise ValueError(
            f"key columns: found lengths {[len(column) for column in columns]}, expected equal ones"
        )
    if rows == 0:
        return np.zeros((0, 1), np.uint64)
    parts: list[Lane] = []
    for index, column in enumerate(columns):
        parts += _column_parts(column, nulls_first, descending is not None and descending[index])
    return _pack(parts, rows)


def _column_parts(column: ArrowColumn, nulls_first: bool, descending: bool) -> list[Lane]:
    """Return the parts of a column; none for a column of nulls alone, whose rows are all equal."""
    if column.null_count == len(column):
        return []
    # `null_count`, used below, does not count a null among the dictionary's values.
    if _is_dictionary_with_nulls(column):
        column = pc.cast(column, column.type.value_type)
    parts = list(_values_of(column.type)(column))
    if descending:
        for part in parts:
            np.invert(part, out=part)
    if column.null_count == 0:
        return parts
    valid = np.concatenate([valid_of(chunk) for chunk in chunks_of(column)])
    for part in parts:
        # The value at a null must be equal for all nulls, and an existing value keeps the part
        # narrow.
        part[~valid] = part[valid.argmax()]
    return [(valid if nulls_first else ~valid).astype(np.uint64), *parts]


def _is_dictionary_with_nulls(column: ArrowColumn) -> bool:
    """Whether the dictionary itself has nulls, which null_count does not count."""
    if not pa.types.is_dictionary(column.type):
        return False
    return any(chunk.dictionary.null_count for chunk in chunks_of(column))


# Parts by type


def _values_of(kind: pa.DataType) -> Callable[[ArrowColumn], Sequence[Lane]]:
    """Return the function that makes the parts of a column of this type: new arrays, which may be
    changed. Raises TypeError for a type without an order.
    """
    for is_kind, values in _PARTS_BY_TYPE:
        if is_kind(kind):
            return values
    raise TypeError(
        f"key column: found type {kind}, expected a type that has an order; nested types cannot be keys"
    )


def _signed(column: ArrowColumn) -> Sequence[Lane]:
    dtype = np.dtype(f"i{column.type.bit_width // 8}")
    lane = np.concatenate(
        [fixed_values(chunk, dtype) for chunk in chunks_of(column)], dtype=np.int64
    ).view(np.uint64)
    return (np.bitwise_xor(lane, _SIGN, out=lane),)


def _boolean(column: ArrowColumn) -> Sequence[Lane]:
    return (np.concatenate([bool_values(chunk) for chunk in chunks_of(column)]).astype(np.uint64),)


def _floating(column: ArrowColumn) -> Sequence[Lane]:
    dtype = np.dtype(f"f{column.type.bit_width // 8}")
    # float32 to float64 is exact and keeps the order, -0.0 and NaN; it turns a signalling NaN into a quiet one.
    with np.errstate(invalid="ignore"):
        values = np.concatenate(
            [fixed_values(chunk, dtype) for chunk in chunks_of(column)], dtype=np.float64
        )
    return (order_bits(values),)


def _decimal(column: ArrowColumn) -> Sequence[Lane]:
    words = np.concatenate([fixed_values(chunk, np.uint64) for chunk in chunks_of(column)]).reshape(
        -1, 2
    )
    # Little-endian, low word first. Up to 18 digits fit into it, and the high word repeats its
    # sign.
    if column.type.precision <= 18:
        return (words[:, 0] ^ _SIGN,)
    return words[:, 1] ^ _SIGN, words[:, 0].copy()


def _dictionary(column: ArrowColumn) -> Sequence[Lane]:
    """Return the rank of each value among those of the dictionary, which may hold a value twice."""
    encoded = one_array(column)
    values = key_lanes([encoded.dictionary])
    order = sort_order(values, np.zeros(len(values), np.int64))
    sizes = np.diff(group_starts(values, order))
    ranks = np.zeros(max(1, len(values)), np.uint64)
    ranks[order] = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    return (ranks[pc.fill_null(encoded.indices, 0).to_numpy()],)


def _is_signed(kind: pa.DataType) -> bool:
    is_time = pa.types.is_date32(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)
    return bool(pa.types.is_signed_integer(kind) or is_time)


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


_PARTS_BY_TYPE: Sequence[
    tuple[Callable[[pa.DataType], bool], Callable[[ArrowColumn], Sequence[Lane]]]
] = (
    (_is_signed, _signed),
    (pa.types.is_boolean, _boolean),
    (_is_float, _floating),
    (pa.types.is_decimal128, _decimal),
    (is_bytes, bytes_lanes),
    (pa.types.is_dictionary, _dictionary),
)


# Parts into lanes


def _pack(parts: Sequence[Lane], rows: int) -> npt.NDArray[np.uint64]:
    """Pack the parts into lanes. Three parts of widths 40, 30 and 7 have 77 bits: two lanes, with 51 zeros in front:

        lane 0   0 .. 0 [13 bits of the first]
        lane 1   [its other 27] [30 of the second] [7 of the third]

    A part that spans two lanes is placed twice: shifted right into the first, left into the
    second.
    """
    pieces = []
    for part in parts:
        lowest, highest, differing = _spread(part)
        if differing:
            # Bits below the lowest one in which rows differ are equal in all rows, so they are
            # zero after the smallest value is subtracted: multiples of 8 lose three bits.
            drop = (int(differing) & -int(differing)).bit_length() - 1
            width = ((int(highest) - int(lowest)) >> drop).bit_length()
            pieces.append((part, np.uint64(lowest), drop, width))
    bits = sum(width for _, _, _, width in pieces)
    lanes = np.zeros((rows, max(1, (bits + 63) // 64)), np.uint64)
    position = lanes.shape[1] * 64 - bits
    for part, lowest, drop, width in pieces:
        column, used = divmod(position, 64)
        spill = width - (64 - used)
        _place(part, lowest, drop, -spill, lanes, column)
        if spill > 0:
            _place(part, lowest, drop, 64 - spill, lanes, column + 1)
        position += width
    return lanes


@kernel
def _spread(part: npt.NDArray[np.uint64]) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return (smallest, largest, the bits in which some row differs from the first)."""
    first = part[0]
    lowest, highest, differing = first, first, first ^ first
    for value in part:
        lowest = min(lowest, value)
        highest = max(highest, value)
        differing |= value ^ first
    return lowest, highest, differing


@kernel
def _place(
    part: npt.NDArray[np.uint64],
    lowest: np.uint64,
    drop: int,
    shift: int,
    lanes: npt.NDArray[np.uint64],
    column: int,
) -> None:
    """Put the part's significant bits (by OR), shifted left by `shift` (right when negative), into one
    lane.
    """
    low_bits = np.uint64(drop)
    if shift >= 0:
        left = np.uint64(shift)
        for row in range(len(part)):
            lanes[row, column] |= ((part[row] - lowest) >> low_bits) << left
    else:
        right = np.uint64(-shift)
        for row in range(len(part)):
            lanes[row, column] |= ((part[row] - lowest) >> low_bits) >> right
