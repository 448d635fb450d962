"""Rows of key columns as u64 lanes whose lexicographic order is the key order.

In: columns of equal length. Out: a C-contiguous (n, L) uint64 array, L >= 1. Comparing two rows
lane by lane, left to right, gives Paimon's order: columns left to right; null before everything
(after everything with `nulls_first=False`); integers, dates, times, timestamps and decimals by
value; false before true; floats in Java's total order (-0.0 before 0.0, NaN last, all NaNs equal);
strings and binaries by unsigned bytes, a prefix before what extends it. Rows are equal exactly when
all lanes are equal. Lanes mean nothing outside of the call that made them.

How: every column becomes "parts", one u64 array each. A part is then rebased to its smallest value
and freed of low bits in which all rows agree, which leaves `width` significant bits (0 for a
constant part, which thereby vanishes). The remaining bits of all parts are written one after the
other, like one big-endian bit string per row, flush right in ceil(sum of widths / 64) lanes. So
(nullable INT, INT, BOOLEAN) is usually one lane.

    fixed-width value   [1 bit: 0 null, 1 value, if the column has nulls] [value, sign bit flipped]
    DECIMAL p > 18      [null bit] [high word, sign bit flipped] [low word]
    bytes               [null bit] [big-endian words of the bytes after the common prefix, zero-padded] [length]
                        the length only if some value ends with byte 0: else no two values differ by
                        padding alone
    long bytes, dictionaries   [null bit] [rank of the value among the distinct values]

Raises TypeError for a column type that cannot be a key (nested types), ValueError for columns of
different length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.arrow_buffers import (
    ArrowArray,
    ArrowColumn,
    as_words,
    bool_values,
    bytes_view,
    chunks_of,
    fixed_values,
    is_bytes,
    one_array,
    validity,
)
from widetable.kernels.jit import kernel

Lane: TypeAlias = npt.NDArray[np.uint64]

# Bytes that may be left per value after the common prefix; longer ones are ranked.
MAX_PADDED_BYTES = 64

_SIGN = np.uint64(1 << 63)


def key_lanes(
    columns: Sequence[ArrowColumn],
    *,
    nulls_first: bool = True,
    descending: Sequence[bool] | None = None,
) -> npt.NDArray[np.uint64]:
    """The lanes of `columns`, most significant column first (see the module text).

    `descending[i]` turns the order of the values of column i around; nulls stay where `nulls_first`
    puts them.
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
    if column.null_count == len(column):
        return []
    if _is_dictionary_with_nulls(column):
        column = pc.cast(column, column.type.value_type)
    parts = list(_values_of(column.type)(column))
    if descending:
        for part in parts:
            np.invert(part, out=part)
    if column.null_count == 0:
        return parts
    valid = np.concatenate([_valid(chunk) for chunk in chunks_of(column)])
    for part in parts:
        # What lies behind a null must be equal in all nulls, and a real value keeps the part
        # narrow.
        part[~valid] = part[valid.argmax()]
    return [(valid if nulls_first else ~valid).astype(np.uint64), *parts]


def _valid(array: ArrowArray) -> npt.NDArray[np.bool_]:
    valid = validity(array)
    return np.ones(len(array), np.bool_) if valid is None else valid


def _is_dictionary_with_nulls(column: ArrowColumn) -> bool:
    """Nulls may hide in the dictionary itself, where null_count does not see them."""
    if not pa.types.is_dictionary(column.type):
        return False
    return any(chunk.dictionary.null_count for chunk in chunks_of(column))


# Parts by type


def _values_of(kind: pa.DataType) -> Callable[[ArrowColumn], Sequence[Lane]]:
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
    # float32 to float64 is exact and keeps the order, -0.0 and NaN.
    values = np.concatenate(
        [fixed_values(chunk, dtype) for chunk in chunks_of(column)], dtype=np.float64
    )
    lane = np.empty(len(values), np.uint64)
    _total_order(values, values.view(np.uint64), lane)
    return (lane,)


def _decimal(column: ArrowColumn) -> Sequence[Lane]:
    words = np.concatenate([fixed_values(chunk, np.uint64) for chunk in chunks_of(column)]).reshape(
        -1, 2
    )
    if column.type.precision <= 18:
        return (words[:, 0] ^ _SIGN,)
    return words[:, 1] ^ _SIGN, words[:, 0].copy()


def _bytes(column: ArrowColumn) -> Sequence[Lane]:
    views = [(*bytes_view(chunk), _valid(chunk)) for chunk in chunks_of(column)]
    prefix, longest, ends_with_zero = _shape_of_bytes(views)
    if longest - prefix > MAX_PADDED_BYTES:
        return _ranks(column)
    words = (longest - prefix + 7) // 8
    lanes = np.zeros((words + ends_with_zero, len(column)), np.uint64)
    first = 0
    for data, offsets, valid in views:
        _padded_words(
            *as_words(data), offsets, valid, prefix, words, lanes[:, first : first + len(valid)]
        )
        if ends_with_zero:
            lanes[words, first : first + len(valid)] = np.diff(offsets)
        first += len(valid)
    return list(lanes)


def _shape_of_bytes(views: Sequence[tuple[Any, Any, Any]]) -> tuple[int, int, bool]:
    """(bytes that all values start with, longest value, whether a value ends with byte 0), nulls
    left out.
    """
    first = np.empty(0, np.uint8)
    prefix, longest, ends_with_zero = -1, 0, False
    for data, offsets, valid in views:
        if prefix < 0 and valid.any():
            row = int(valid.argmax())
            first = data[offsets[row] : offsets[row + 1]]
            prefix = len(first)
        prefix, longest, ends_with_zero = _bytes_shape(
            data, offsets, valid, first, prefix, longest, ends_with_zero
        )
    return max(prefix, 0), longest, ends_with_zero


def _ranks(column: ArrowColumn) -> Sequence[Lane]:
    """Rank of each value in the sorted dictionary of the distinct values; memory: the distinct
    values, once.
    """
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not pa.types.is_dictionary(kind):
        # 64-bit offsets: the distinct values of several chunks may pass 2 GiB.
        column = column.cast(pa.large_string() if pa.types.is_string(kind) else pa.large_binary())
    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    encoded = one_array(chunked if pa.types.is_dictionary(kind) else chunked.dictionary_encode())
    values = key_lanes([encoded.dictionary]) if pa.types.is_dictionary(kind) else None
    if values is None:
        order = pc.array_sort_indices(encoded.dictionary).to_numpy()
        ranks = np.empty(len(order), np.uint64)
        ranks[order] = np.arange(len(order), dtype=np.uint64)
    else:
        # A dictionary that came from outside may hold a value twice: equal values must share a
        # rank.
        ranks = np.unique(values, axis=0, return_inverse=True)[1].astype(np.uint64).reshape(-1)
    indices = pc.fill_null(encoded.indices, 0)
    return (ranks[indices.to_numpy()],)


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
    (is_bytes, _bytes),
    (pa.types.is_dictionary, _ranks),
)


# Parts into lanes


def _pack(parts: Sequence[Lane], rows: int) -> npt.NDArray[np.uint64]:
    pieces = []
    for part in parts:
        lowest, highest, differing = _spread(part)
        if differing:
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
    """(smallest, largest, the bits in which some row differs from the first)."""
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
    """Or the part's significant bits, shifted left by `shift` (right when negative), into one
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


@kernel
def _total_order(
    values: npt.NDArray[np.float64], bits: npt.NDArray[np.uint64], lane: npt.NDArray[np.uint64]
) -> None:
    sign = np.uint64(1 << 63)
    largest = np.uint64(0xFFFFFFFFFFFFFFFF)
    for row in range(len(values)):
        if values[row] != values[row]:
            lane[row] = largest
        elif bits[row] & sign:
            lane[row] = ~bits[row]
        else:
            lane[row] = bits[row] | sign


@kernel
def _bytes_shape(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    valid: npt.NDArray[np.bool_],
    first: npt.NDArray[np.uint8],
    prefix: int,
    longest: int,
    ends_with_zero: bool,
) -> tuple[int, int, bool]:
    for row in range(len(valid)):
        if not valid[row]:
            continue
        start, end = offsets[row], offsets[row + 1]
        longest = max(longest, end - start)
        prefix = min(prefix, end - start)
        for i in range(prefix):
            if data[start + i] != first[i]:
                prefix = i
                break
        if end > start and data[end - 1] == 0:
            ends_with_zero = True
    return prefix, longest, ends_with_zero


@kernel
def _padded_words(
    data: npt.NDArray[np.uint64],
    tail: np.uint64,
    offsets: npt.NDArray[np.int64],
    valid: npt.NDArray[np.bool_],
    prefix: int,
    words: int,
    lanes: npt.NDArray[np.uint64],
) -> None:
    """lanes[w, row] = bytes prefix + 8w to prefix + 8w + 8 of the value, big-endian, zeros after its end.

    Bytes are read as the (at most two) aligned words that they lie in: 3 times faster than one by one.
    """
    for row in range(len(valid)):
        if not valid[row]:
            continue
        end = offsets[row + 1]
        start = offsets[row] + prefix
        for word in range(words):
            at = start + 8 * word
            left = end - at
            if left <= 0:
                break
            source, shift = at >> 3, np.uint64((at & 7) << 3)
            value = (data[source] if source < len(data) else tail) >> shift
            if (at & 7) + left > 8 and shift:
                after = data[source + 1] if source + 1 < len(data) else tail
                value |= after << (np.uint64(64) - shift)
            value = _big_endian(value)
            if left < 8:
                value &= ~((np.uint64(1) << np.uint64(64 - 8 * left)) - np.uint64(1))
            lanes[word, row] = value


@kernel
def _big_endian(word: np.uint64) -> np.uint64:
    """The word with its bytes turned around."""
    bytes_mask, pairs_mask = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
    one, two, four = np.uint64(8), np.uint64(16), np.uint64(32)
    word = ((word & bytes_mask) << one) | ((word >> one) & bytes_mask)
    word = ((word & pairs_mask) << two) | ((word >> two) & pairs_mask)
    return np.uint64((word << four) | (word >> four))
