"""Primary keys as bytes whose order is the order of the rows in a data file: the keys of a lookup cache.

    key      = column*                         in the order of the trimmed primary key, never null
    column   = fixed | bytes | wide decimal
    fixed    = the value, big-endian, sign bit flipped (TINYINT 1 byte, SMALLINT 2, INT, DATE, TIME 4,
               BIGINT, TIMESTAMP, DECIMAL p <= 18: 8)
             | 00 or 01                        BOOLEAN
             | IEEE 754 bits, big-endian, all bits flipped when negative, else the sign bit
                                               FLOAT 4, DOUBLE 8; every NaN is 7FC0.. before that
    wide     = 16 bytes, big-endian, sign bit flipped                        DECIMAL p > 18
    bytes    = (byte | 00 -> 00 FF)* 00 01     STRING, CHAR, BINARY: 00 is escaped, so a prefix sorts first

Caches are named after an immutable data file and can be built again, so this grammar is not frozen; a
change of it must change `GRAMMAR_VERSION`, which is part of a cache's name.

In: Arrow columns without nulls. Out: the keys end to end, or one bytes object per row. Raises InvalidError for a null
and UnsupportedError for a type that cannot be a key. Rows are handled by kernels, never one by one.

    STRING, SMALLINT     ("a", 1)             61 00 01        80 01
                         ("a" 00 "b", 0)      61 00 FF 62 00 01    80 00
                         ("ab", -1)           61 62 00 01     7F FF
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError, UnsupportedError
from widetable.kernels.arrow_buffers import bool_values, bytes_view, fixed_values, is_bytes
from widetable.kernels.float_order import order_bits
from widetable.kernels.jit import kernel

GRAMMAR_VERSION: Final = 1

_Bytes = npt.NDArray[np.uint8]
_Offsets = npt.NDArray[np.int64]


class EncodedKeys(NamedTuple):
    """Keys end to end. Key i is data[offsets[i] : offsets[i + 1]]; offsets begin at 0."""

    data: _Bytes
    offsets: _Offsets

    def to_list(self) -> list[bytes]:
        """Return one bytes object for each key, as RocksDB takes them."""
        lengths = np.diff(self.offsets)
        if not len(lengths):
            return []
        width = int(lengths[0])
        if width and bool((lengths == width).all()):
            # A void dtype keeps trailing zero bytes, which dtype S would strip.
            listed: list[bytes] = np.ascontiguousarray(self.data).view(f"V{width}").tolist()
            return listed
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        keys = pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
        values: list[bytes] = keys.to_pylist()
        return values


def encode_keys(columns: Sequence[pa.Array], names: Sequence[str]) -> EncodedKeys:
    """Encode one key for each row. columns: equal lengths, in key order; names: for messages."""
    parts = [_encode(column, name) for column, name in zip(columns, names, strict=True)]
    keys = parts[0]
    for more in parts[1:]:
        ends = np.empty(len(keys.offsets), np.int64)
        out = np.empty(len(keys.data) + len(more.data), np.uint8)
        _put_both(*keys, *more, ends, out)
        keys = EncodedKeys(out[: ends[-1]], ends)
    return keys


def range_keys(prefixes: EncodedKeys, following: Sequence[pa.DataType]) -> EncodedKeys:
    """Return two keys for each prefix: the smallest one with the prefix, and the smallest one after all of these.

    No key follows a prefix of only FF: both are then the same. following: the types of the other columns, one at least.

        "a", then a SMALLINT        61 00 01 00 00      61 00 02 00 00
        TINYINT 127, the same       FF 00 00            FF 00 00
    """
    rest = np.frombuffer(b"".join(map(_smallest, following)), np.uint8)
    rows = len(prefixes.offsets) - 1
    out = np.empty(2 * (len(prefixes.data) + rows * len(rest)), np.uint8)
    ends = np.empty(2 * rows + 1, np.int64)
    _put_ranges(*prefixes, rest, ends, out)
    return EncodedKeys(out, ends)


def _smallest(kind: pa.DataType) -> bytes:
    """Return a lower bound of the encoded values of the type."""
    if is_bytes(kind):
        return b"\0\1"
    width = 1 if pa.types.is_boolean(kind) else kind.bit_width // 8
    is_narrow = pa.types.is_decimal128(kind) and kind.precision <= 18
    return bytes(8 if is_narrow else width)


def _encode(column: pa.Array, name: str) -> EncodedKeys:
    if column.null_count:
        raise InvalidError(
            f"key column {name!r}",
            found="a null",
            expected="a value in every row",
            action="Leave keys with a null out: no row can have them.",
        )
    if is_bytes(column.type):
        view = bytes_view(column)
        data, offsets = np.ascontiguousarray(view.data), np.ascontiguousarray(view.offsets)
        ends = np.empty(len(offsets), np.int64)
        _escaped_ends(data, offsets, ends)
        out = np.empty(ends[-1], np.uint8)
        _put_escaped(data, offsets, ends, out)
        return EncodedKeys(out, ends)
    fixed = _fixed(column, name)
    rows, width = fixed.shape
    return EncodedKeys(fixed.reshape(-1), np.arange(rows + 1, dtype=np.int64) * width)


def _fixed(column: pa.Array, name: str) -> _Bytes:
    """Return rows of big-endian, order-preserving bytes: uint8[n, width]."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return bool_values(column).astype(np.uint8).reshape(-1, 1)
    if pa.types.is_floating(kind):
        values = fixed_values(column, np.dtype(f"f{kind.bit_width // 8}"))
        return _big_endian(order_bits(values))
    if pa.types.is_decimal128(kind):
        return _decimal(column)
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
        raise UnsupportedError(
            f"key column {name!r}",
            found=f"the type {kind}",
            expected="a plain type",
            action="Cast the column to the table's key type.",
        )
    width = kind.bit_width // 8
    values = fixed_values(column, np.dtype(f"u{width}"))
    return _big_endian(values ^ values.dtype.type(1 << (8 * width - 1)))


def _decimal(column: pa.Array) -> _Bytes:
    words = fixed_values(column, np.uint64).reshape(-1, 2)
    sign = np.uint64(1 << 63)
    if column.type.precision <= 18:
        return _big_endian(words[:, 0] ^ sign)
    return np.hstack([_big_endian(words[:, 1] ^ sign), _big_endian(words[:, 0])])


def _big_endian(values: npt.NDArray[Any]) -> _Bytes:
    width = values.dtype.itemsize
    swapped = np.ascontiguousarray(values).astype(values.dtype.newbyteorder(">"))
    return swapped.view(np.uint8).reshape(-1, width)


@kernel
def _escaped_ends(data: _Bytes, offsets: _Offsets, ends: _Offsets) -> None:
    ends[0] = 0
    for row in range(len(offsets) - 1):
        size = offsets[row + 1] - offsets[row] + 2
        for at in range(offsets[row], offsets[row + 1]):
            if data[at] == 0:
                size += 1
        ends[row + 1] = ends[row] + size


@kernel
def _put_escaped(data: _Bytes, offsets: _Offsets, ends: _Offsets, out: _Bytes) -> None:
    for row in range(len(offsets) - 1):
        to = ends[row]
        for at in range(offsets[row], offsets[row + 1]):
            out[to] = data[at]
            to += 1
            if data[at] == 0:
                out[to] = 0xFF
                to += 1
        out[to] = 0
        out[to + 1] = 1


@kernel
def _put_both(
    left: _Bytes,
    left_offsets: _Offsets,
    right: _Bytes,
    right_offsets: _Offsets,
    ends: _Offsets,
    out: _Bytes,
) -> None:
    to = ends[0] = 0
    for row in range(len(left_offsets) - 1):
        for at in range(left_offsets[row], left_offsets[row + 1]):
            out[to] = left[at]
            to += 1
        for at in range(right_offsets[row], right_offsets[row + 1]):
            out[to] = right[at]
            to += 1
        ends[row + 1] = to


@kernel
def _put_ranges(data: _Bytes, offsets: _Offsets, rest: _Bytes, ends: _Offsets, out: _Bytes) -> None:
    to = ends[0] = 0
    for key in range(len(ends) - 1):
        row = key >> 1
        for at in range(offsets[row], offsets[row + 1]):
            out[to] = data[at]
            to += 1
        if key & 1:
            last = to - 1
            while last > ends[key] and out[last] == 0xFF:
                last -= 1
            if out[last] != 0xFF:
                out[last] += np.uint8(1)
                for at in range(last + 1, to):
                    out[at] = 0
        for at in range(len(rest)):
            out[to] = rest[at]
            to += 1
        ends[key + 1] = to
