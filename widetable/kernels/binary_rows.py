"""Encode rows in Paimon's binary row form: bucket keys, partitions, min and max keys, statistics.

Grammar of one row (org.apache.paimon.data.BinaryRow; all numbers little-endian, all parts multiples
of 8 bytes):

    row        := header slot{arity} variable*
    header     := kind nullbit{..}          ((arity + 71) // 64) * 8 bytes; byte 0 is the row kind, here 0 (+I);
                                            null of field i is bit i + 8, its slot is zero
    slot       := 8 bytes, by layout:
        BOOL INT8 INT16 INT32 INT64 FLOAT DOUBLE    the value in 1, 1, 2, 4, 8, 4, 8 bytes, then zeros
                                            (so the INT -1 is ffffffff00000000)
        BYTES, up to 7 bytes                the bytes, zeros, last byte 0x80 | length
        BYTES, longer                       int32 length, int32 offset of its variable part from the start of the row
        DECIMAL_COMPACT (p <= 18)           int64 unscaled value
        DECIMAL_WIDE (p > 18)               int32 length, int32 offset; length 0 when null
        TIMESTAMP_COMPACT (p <= 3)          int64 epoch milliseconds, floor before 1970
        TIMESTAMP_WIDE (p > 3)              int32 nanosecond of the millisecond (0 when null), int32 offset
    variable   := of the fields in order
        BYTES longer than 7                 the bytes, zeros up to a multiple of 8; nothing for null
        DECIMAL_WIDE                        16 bytes, null or not: the shortest big-endian two's complement, then zeros
        TIMESTAMP_WIDE                      8 bytes, null or not: int64 epoch milliseconds, floor before 1970

A manifest prefixes the row with its arity as a 4-byte big-endian number; that prefix is not written
here.

As every row is a multiple of 8 bytes, rows are built as 64-bit words, column by column.

    (INT -1, "abc")            00000000 00000000  ffffffff 00000000  61626300 00000083
    (INT null, "abcdefgh")     00010000 00000000  00000000 00000000  08000000 18000000  61626364 65666768
    DECIMAL(20, 0) 200         00000000 00000000  02000000 10000000  00c80000 00000000  00000000 00000000
    TIMESTAMP(6), 1 us before 1970      0 ..  583e0f00 10000000  ffffffff ffffffff
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import (
    ArrowArray,
    ArrowColumn,
    bool_values,
    bytes_view,
    fixed_values,
    is_bytes,
    one_array,
    time_millis,
    valid_of,
)
from widetable.kernels.jit import kernel

Words: TypeAlias = npt.NDArray[np.uint64]
Starts: TypeAlias = npt.NDArray[np.int64]
Valid: TypeAlias = npt.NDArray[np.bool_]


class Layout(enum.Enum):
    """How a field's slot is written (see the grammar)."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"  # also DATE, and TIME of any unit as milliseconds of the day
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"  # strings too
    DECIMAL_COMPACT = "decimal compact"
    DECIMAL_WIDE = "decimal wide"
    TIMESTAMP_COMPACT = "timestamp compact"
    TIMESTAMP_WIDE = "timestamp wide"


class BinaryRows(NamedTuple):
    """Encoded rows, n of them: row i is data[offsets[i] : offsets[i + 1]]; `data` is uint8, `offsets` int64 of
    length n + 1 in bytes.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> bytes:
        """Return the bytes of one row, without an arity prefix."""
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


def encode_binary_rows(
    columns: Sequence[ArrowColumn], layouts: Sequence[Layout], *, rows: int | None = None
) -> BinaryRows:
    """Write one binary row per row of `columns`; `rows` is their length, needed only when there are
    no columns.

    Raises TypeError for a column whose Arrow type does not fit its layout, ValueError for
    lengths that differ.

    All columns are sized before any is written, because a row's length determines where the
    next begins. A column of several chunks is joined first.
    """
    if len(columns) != len(layouts):
        raise ValueError(
            f"binary rows: found {len(columns)} columns, expected {len(layouts)}, one per layout"
        )
    count = rows if rows is not None else len(columns[0]) if columns else 0
    if any(len(column) != count for column in columns):
        raise ValueError(
            f"binary rows: found columns of lengths {[len(c) for c in columns]}, expected {count}"
        )
    arrays = [one_array(column) for column in columns]
    fields = [_field(array, layout) for array, layout in zip(arrays, layouts, strict=True)]
    valid = [valid_of(array) for array in arrays]
    header = (len(columns) + 71) // 64
    sizes = np.full(count, header + len(columns), np.int64)
    for field, is_valid in zip(fields, valid, strict=True):
        field.add_sizes(is_valid, sizes)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    words = np.zeros(starts[-1], np.uint64)
    # cursors[i]: the word at which the next variable part of row i goes.
    cursors = starts[:-1] + (header + len(columns))
    for index, field in enumerate(fields):
        # Field i has bit i + 8: the first byte of the header is the row kind.
        if arrays[index].null_count:
            word, bit = divmod(index + 8, 64)
            _set_null_bits(valid[index], starts, words, word, np.uint64(1 << bit))
        field.write(*field.values, valid[index], words, starts, cursors, header + index)
    return BinaryRows(words.view(np.uint8), starts * 8)


class _Field(NamedTuple):
    """A column ready to be written. write: the kernel that writes slot and variable part of all rows, and moves the
    cursors past the variable part; values: its first arguments. words: of each row's variable part, where all are
    equal.

    Fields are written in order, each over all rows: `cursors` holds the position in each row where
    the variable part continues.
    """

    write: Callable[..., None]
    values: tuple[npt.NDArray[Any], ...]
    words: int = 0

    def add_sizes(self, valid: Valid, sizes: Starts) -> None:
        """Add the words of the variable part to each row's size."""
        if self.write is _write_bytes:
            _add_bytes_sizes(self.values[1], valid, sizes)
        elif self.words:
            sizes += self.words


# From Arrow


def _field(array: ArrowArray, layout: Layout) -> _Field:
    is_kind, make = _FIELDS[layout]
    if not is_kind(array.type):
        raise TypeError(
            f"binary row field of layout {layout.name}: found Arrow type {array.type}, expected one that fits it"
        )
    return make(array)


def _fixed(values: npt.NDArray[Any]) -> _Field:
    """Return a field of unsigned integers that are as wide as the slot's value."""
    return _Field(_write_fixed, (values.astype(np.uint64),))


def _unsigned(dtype: str) -> Callable[[ArrowArray], _Field]:
    # Unsigned, so that a value narrower than the slot is filled up with zeros and not with its
    # sign.
    return lambda array: _fixed(fixed_values(array, dtype))


def _int32(array: ArrowArray) -> _Field:
    values = time_millis(array) if pa.types.is_time(array.type) else fixed_values(array, np.int32)
    return _fixed(values.view(np.uint32))


def _compact_timestamp(array: ArrowArray) -> _Field:
    return _fixed(_millis_and_nanos(array)[0].view(np.uint64))


def _millis_and_nanos(array: ArrowArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (epoch milliseconds by floor, nanoseconds in the millisecond) of a timestamp array of any
    unit.
    """
    values = fixed_values(array, np.int64)
    unit = array.type.unit
    if unit in ("s", "ms"):
        return values * (1000 if unit == "s" else 1), np.zeros(len(values), np.int64)
    per_milli, nanos = (1_000, 1_000) if unit == "us" else (1_000_000, 1)
    # Round down, also before 1970: the rest is never negative.
    millis = values // per_milli
    return millis, (values - millis * per_milli) * nanos


def _is_int32(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int32(kind) or pa.types.is_date32(kind) or pa.types.is_time(kind))


def _low_words(array: ArrowArray) -> _Field:
    return _fixed(fixed_values(array, np.uint64)[::2])


_FIELDS: dict[Layout, tuple[Callable[[pa.DataType], bool], Callable[[ArrowArray], _Field]]] = {
    Layout.BOOL: (pa.types.is_boolean, lambda array: _fixed(bool_values(array))),
    Layout.INT8: (pa.types.is_int8, _unsigned("u1")),
    Layout.INT16: (pa.types.is_int16, _unsigned("u2")),
    Layout.INT32: (_is_int32, _int32),
    Layout.INT64: (pa.types.is_int64, _unsigned("u8")),
    Layout.FLOAT: (pa.types.is_float32, _unsigned("u4")),
    Layout.DOUBLE: (pa.types.is_float64, _unsigned("u8")),
    Layout.BYTES: (is_bytes, lambda array: _Field(_write_bytes, bytes_view(array))),
    Layout.DECIMAL_COMPACT: (
        lambda kind: pa.types.is_decimal128(kind) and kind.precision <= 18,
        _low_words,
    ),
    Layout.DECIMAL_WIDE: (
        lambda kind: pa.types.is_decimal128(kind) and kind.precision > 18,
        lambda array: _Field(_write_wide_decimals, (fixed_values(array, np.uint64),), 2),
    ),
    Layout.TIMESTAMP_COMPACT: (pa.types.is_timestamp, _compact_timestamp),
    Layout.TIMESTAMP_WIDE: (
        pa.types.is_timestamp,
        lambda array: _Field(_write_wide_timestamps, _millis_and_nanos(array), 1),
    ),
}


# Kernels: all positions in words of 8 bytes, starts[i] the first word of row i


@kernel
def _set_null_bits(valid: Valid, starts: Starts, words: Words, word: int, bit: np.uint64) -> None:
    for row in range(len(valid)):
        if not valid[row]:
            words[starts[row] + word] |= bit


@kernel
def _write_fixed(
    values: Words, valid: Valid, words: Words, starts: Starts, cursors: Starts, slot: int
) -> None:
    for row in range(len(valid)):
        if valid[row]:
            words[starts[row] + slot] = values[row]


@kernel
def _add_bytes_sizes(offsets: Starts, valid: Valid, sizes: Starts) -> None:
    for row in range(len(valid)):
        length = offsets[row + 1] - offsets[row]
        if valid[row] and length > 7:
            sizes[row] += (length + 7) // 8


@kernel
def _write_bytes(
    data: npt.NDArray[np.uint8],
    offsets: Starts,
    valid: Valid,
    words: Words,
    starts: Starts,
    cursors: Starts,
    slot: int,
) -> None:
    for row in range(len(valid)):
        if not valid[row]:
            continue
        first = offsets[row]
        length = offsets[row + 1] - first
        at = starts[row] + slot
        if length > 7:
            words[at] = np.uint64(length) | (
                np.uint64((cursors[row] - starts[row]) * 8) << np.uint64(32)
            )
            at = cursors[row]
            cursors[row] += (length + 7) // 8
        else:
            # The mark and length are the last of eight bytes, which is the highest of a
            # little-endian word; the bytes go below it.
            words[at] = np.uint64(0x80 | length) << np.uint64(56)
        for i in range(length):
            words[at + i // 8] |= np.uint64(data[first + i]) << np.uint64(8 * (i % 8))


@kernel
def _write_wide_decimals(
    halves: Words, valid: Valid, words: Words, starts: Starts, cursors: Starts, slot: int
) -> None:
    """Write wide decimals. halves: low word, high word of each value."""
    for row in range(len(valid)):
        at = cursors[row]
        cursors[row] += 2
        offset = np.uint64((at - starts[row]) * 8) << np.uint64(32)
        words[starts[row] + slot] = offset
        if not valid[row]:
            continue
        low, high = halves[2 * row], halves[2 * row + 1]
        length = _twos_complement_bytes(low, high)
        words[starts[row] + slot] = offset | np.uint64(length)
        for i in range(length):
            power = length - 1 - i
            half = low if power < 8 else high
            byte = (half >> np.uint64(8 * (power % 8))) & np.uint64(255)
            words[at + i // 8] |= byte << np.uint64(8 * (i % 8))


@kernel
def _twos_complement_bytes(low: np.uint64, high: np.uint64) -> int:
    """Return the fewest bytes that hold the 128-bit value with its sign, at least 1.

    0, 1, -1, 127      1         128, 200, -129      2
    """
    if np.int64(high) < 0:
        low, high = ~low, ~high
    length = 1
    for power in range(15, -1, -1):
        half = low if power < 8 else high
        byte = (half >> np.uint64(8 * (power % 8))) & np.uint64(255)
        if byte:
            # One more byte where the top bit would be read as the other sign.
            length = power + 2 if byte & np.uint64(128) else power + 1
            break
    return length


@kernel
def _write_wide_timestamps(
    millis: Starts,
    nanos: Starts,
    valid: Valid,
    words: Words,
    starts: Starts,
    cursors: Starts,
    slot: int,
) -> None:
    for row in range(len(valid)):
        at = cursors[row]
        cursors[row] += 1
        offset = np.uint64((at - starts[row]) * 8) << np.uint64(32)
        if valid[row]:
            words[starts[row] + slot] = offset | np.uint64(nanos[row])
            words[at] = np.uint64(millis[row])
        else:
            words[starts[row] + slot] = offset
