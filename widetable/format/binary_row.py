"""Convert rows to and from BinaryRow by logical types: rows of a batch to bytes, one row to bytes and back.

On disk: never change. The grammar is above the code that writes it (`kernels.binary_rows`; Paimon
`BinaryRow`, `BinaryRowWriter`, `SerializationUtils.serializeBinaryRow`; format.md section 5).
Manifests hold a row as

    arity(4 bytes, big-endian) row

which `encode_row` returns and `decode_row` takes; their values are plain (`plain_value`).
Raises UnsupportedError for nested types, InvalidError for a value that its type cannot hold,
DamagedError for bytes that are no such row.

Two results of `encode_row`, in hex:

    (INT 7, VARCHAR 'ab')             00000002  0000000000000000  0700000000000000  6162000000000082
                                      arity     header            7                 'ab', 0x80 | 2
    (INT null, VARCHAR 'abcdefghi')   00000002  0001000000000000  0000000000000000  0900000018000000
                                      6162636465666768  6900000000000000
                                      field 0 is null; 9 bytes at byte 24 of the row; the bytes, filled up

Rows of equal values (floats: of equal bits) have equal bytes, so partitions are compared,
hashed and looked up by their bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.errors import InvalidError, UnsupportedError
from widetable.format.damaged_file import damaged_bytes
from widetable.format.plain_value import PlainValue, plain_column
from widetable.kernels.binary_rows import BinaryRows, Layout, encode_binary_rows
from widetable.schema.types import DataType, timestamp_unit

# On disk: never change. Arity 0 and the header; also the partition of unpartitioned tables.
EMPTY_ROW: Final = bytes(12)

_LAYOUTS: Final[dict[str, Layout]] = {
    "BOOLEAN": Layout.BOOL,
    "TINYINT": Layout.INT8,
    "SMALLINT": Layout.INT16,
    "INT": Layout.INT32,
    "DATE": Layout.INT32,
    "TIME": Layout.INT32,
    "BIGINT": Layout.INT64,
    "FLOAT": Layout.FLOAT,
    "DOUBLE": Layout.DOUBLE,
    "CHAR": Layout.BYTES,
    "VARCHAR": Layout.BYTES,
    "BINARY": Layout.BYTES,
    "VARBINARY": Layout.BYTES,
}
# Decimals of so many digits are one 64-bit number in their slot: 10**18 - 1 is below 2**63,
# 10**19 - 1 is not.
_COMPACT_DECIMAL_DIGITS: Final = 18
_COMPACT_TIMESTAMP_DIGITS: Final = 3
_WIDE_DECIMAL_BYTES: Final = 16


def layout_of(kind: DataType) -> Layout:
    """Return the layout of a field of this type in a row.

    The layout, not the type, determines the bytes: INT, DATE and TIME of one number have equal
    slots, and so equal hashes. Raises UnsupportedError for nested types, which Paimon can
    write into a row, but which no key, partition or statistic of ours may have.
    """
    if kind.root == "DECIMAL":
        compact = (kind.precision or 0) <= _COMPACT_DECIMAL_DIGITS
        return Layout.DECIMAL_COMPACT if compact else Layout.DECIMAL_WIDE
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        compact = (kind.precision or 0) <= _COMPACT_TIMESTAMP_DIGITS
        return Layout.TIMESTAMP_COMPACT if compact else Layout.TIMESTAMP_WIDE
    layout = _LAYOUTS.get(kind.root)
    if layout is None:
        raise UnsupportedError(
            f"type {kind}",
            found="a nested type in a key, partition or statistic",
            expected="a plain type",
            action="Use another column.",
        )
    return layout


def encode_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> BinaryRows:
    """Encode one row per row of `columns`, without arity. columns: of the types' Arrow types, at least one.

    The bytes of row i are `.row(i)` of the result. Raises UnsupportedError for a nested type.
    """
    return encode_binary_rows(columns, [layout_of(kind) for kind in types])


def with_arity(row: bytes, arity: int) -> bytes:
    """Return a row in the form of manifests, with its arity.

    The arity is not hashed: bucket hashes are those of the bare row.
    """
    return arity.to_bytes(4, "big") + row


def null_row(arity: int) -> bytes:
    """Return a row whose fields are all null, with its arity.

    The header has the 8 bits of the row kind before the null bits, so it grows to a second word
    at 57 fields, not at 65.
    """
    row = bytearray((arity + 71) // 64 * 8 + 8 * arity)
    for index in range(8, arity + 8):
        row[index // 8] |= 1 << (index % 8)
    return with_arity(bytes(row), arity)


def encode_row(values: Sequence[PlainValue], types: Sequence[DataType]) -> bytes:
    """Encode one row of plain values, with its arity; no value at all gives EMPTY_ROW.

    `decode_row` is the inverse. Raises InvalidError for another number of values than types,
    and for a value that its type does not hold (`plain_column`).
    """
    if len(values) != len(types):
        raise InvalidError(
            "row",
            found=f"{len(values)} values",
            expected=f"{len(types)}, one per type",
            action="Give one value per column.",
        )
    layouts = [layout_of(kind) for kind in types]
    columns = [plain_column([value], kind) for value, kind in zip(values, types, strict=True)]
    return with_arity(encode_binary_rows(columns, layouts, rows=1).row(0), len(types))


def decode_row(
    data: bytes, types: Sequence[DataType], subject: str = "binary row"
) -> tuple[PlainValue, ...]:
    """Decode the values of one row. data: with its arity, as in manifests; subject: for messages.

    Every offset and length is checked against the length of the data, and a decimal against its
    precision, so that a wrong bit in a manifest does not become a key that nobody wrote. Raises
    DamagedError naming the subject. Bytes behind the last field are ignored, and texts need not
    be UTF-8 (they are bytes in `plain_value`).
    """
    arity = len(types)
    header = (arity + 71) // 64 * 8
    if len(data) < 4 + header + 8 * arity or int.from_bytes(data[:4], "big") != arity:
        raise damaged_bytes(
            subject, f"{len(data)} bytes {data[:8].hex()}..", f"a row of {arity} fields"
        )
    row = data[4:]
    values: list[PlainValue] = []
    for index, kind in enumerate(types):
        if row[(index + 8) // 8] >> (index % 8) & 1:
            values.append(None)
            continue
        try:
            values.append(_DECODERS[layout_of(kind)](row, header + 8 * index, kind))
        except (ValueError, OverflowError, struct.error) as cause:
            raise damaged_bytes(
                subject, f"field {index} that does not decode: {cause}", f"a {kind}"
            ) from cause
    return tuple(values)


def _fixed(code: str) -> Callable[[bytes, int, DataType], Any]:
    """Return a decoder of a slot that is the value itself, little-endian. code: of `struct`."""
    unpack = struct.Struct("<" + code).unpack_from

    def decode(row: bytes, at: int, kind: DataType) -> Any:
        return unpack(row, at)[0]

    return decode


def _bytes(row: bytes, at: int, kind: DataType) -> Any:
    """Decode bytes. The top bit of the slot's last byte is set when the bytes are in the slot. When they are
    in the variable part that byte is the top of an int32 offset, which is never negative.
    """
    mark = row[at + 7]
    if mark & 0x80:
        length = mark & 0x7F
        if length > 7:
            raise ValueError(f"{length} bytes in a slot of 7")
        return row[at : at + length]
    return _variable(row, at)


def _variable(row: bytes, at: int) -> bytes:
    length, offset = struct.unpack_from("<ii", row, at)
    if length < 0 or offset < 0 or offset + length > len(row):
        raise ValueError(f"{length} bytes at {offset} of a row of {len(row)}")
    return row[offset : offset + length]


def _compact_decimal(row: bytes, at: int, kind: DataType) -> Any:
    return _within_precision(struct.unpack_from("<q", row, at)[0], kind)


def _wide_decimal(row: bytes, at: int, kind: DataType) -> Any:
    value = _variable(row, at)
    if not 0 < len(value) <= _WIDE_DECIMAL_BYTES:
        raise ValueError(f"a decimal of {len(value)} bytes")
    return _within_precision(int.from_bytes(value, "big", signed=True), kind)


def _within_precision(unscaled: int, kind: DataType) -> int:
    if abs(unscaled) >= 10 ** (kind.precision or 0):
        raise ValueError(f"a decimal of {len(str(abs(unscaled)))} digits")
    return unscaled


def _wide_timestamp(row: bytes, at: int, kind: DataType) -> Any:
    """Decode a timestamp as one number, in the type's Arrow unit. Digits that the type does not
    have are cut off: a writer that follows the type wrote zeros there.
    """
    nanos, offset = struct.unpack_from("<ii", row, at)
    if not 0 <= nanos < 1_000_000 or offset < 0:
        raise ValueError(f"{nanos} nanoseconds of a millisecond at {offset}")
    (millis,) = struct.unpack_from("<q", row, offset)
    if timestamp_unit(kind.precision or 0) == "us":
        return millis * 1_000 + nanos // 1_000
    return millis * 1_000_000 + nanos


_DECODERS: Final[dict[Layout, Callable[[bytes, int, DataType], Any]]] = {
    Layout.BOOL: _fixed("?"),
    Layout.INT8: _fixed("b"),
    Layout.INT16: _fixed("h"),
    Layout.INT32: _fixed("i"),
    Layout.INT64: _fixed("q"),
    Layout.FLOAT: _fixed("f"),
    Layout.DOUBLE: _fixed("d"),
    Layout.BYTES: _bytes,
    Layout.DECIMAL_COMPACT: _compact_decimal,
    Layout.DECIMAL_WIDE: _wide_decimal,
    Layout.TIMESTAMP_COMPACT: _fixed("q"),
    Layout.TIMESTAMP_WIDE: _wide_timestamp,
}
