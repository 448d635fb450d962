"""BinaryRow by logical types: rows of a batch to bytes, one row to bytes and back.

On disk: never change. The grammar is above the code that writes it (`kernels.binary_rows`; Paimon
`BinaryRow`, `BinaryRowWriter`, `SerializationUtils.serializeBinaryRow`; format.md section 5).
Manifests hold a row as

    arity(4 bytes, big-endian) row

which is what `encode_row` gives and `decode_row` takes; their values are plain (`plain_value`).
Raises UnsupportedError for nested types, InvalidError for a value that its type cannot hold,
DamagedError for bytes that are no such row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.errors import DamagedError, InvalidError, UnsupportedError
from widetable.format.plain_value import PlainValue, plain_column
from widetable.kernels.binary_rows import BinaryRows, Layout, encode_binary_rows
from widetable.types import DataType, timestamp_unit

# On disk: never change. Arity 0 and the header: also the partition of unpartitioned tables.
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
_COMPACT_DECIMAL_DIGITS: Final = 18
_COMPACT_TIMESTAMP_DIGITS: Final = 3
_WIDE_DECIMAL_BYTES: Final = 16


def layout_of(kind: DataType) -> Layout:
    """How a field of this type lies in a row."""
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
    """One row per row of `columns`, without arity. columns: of the types' Arrow types, one at least."""
    return encode_binary_rows(columns, [layout_of(kind) for kind in types])


def with_arity(row: bytes, arity: int) -> bytes:
    """The form that manifests hold."""
    return arity.to_bytes(4, "big") + row


def null_row(arity: int) -> bytes:
    """A row whose fields are all null, arity in front."""
    row = bytearray((arity + 71) // 64 * 8 + 8 * arity)
    for index in range(8, arity + 8):
        row[index // 8] |= 1 << (index % 8)
    return with_arity(bytes(row), arity)


def encode_row(values: Sequence[PlainValue], types: Sequence[DataType]) -> bytes:
    """One row of plain values, arity in front; no value at all gives EMPTY_ROW."""
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
    """The values of one row. data: arity in front, as manifests hold it; subject: for messages."""
    arity = len(types)
    header = (arity + 71) // 64 * 8
    if len(data) < 4 + header + 8 * arity or int.from_bytes(data[:4], "big") != arity:
        raise _damaged(subject, f"{len(data)} bytes {data[:8].hex()}..", f"a row of {arity} fields")
    row = data[4:]
    values: list[PlainValue] = []
    for index, kind in enumerate(types):
        if row[(index + 8) // 8] >> (index % 8) & 1:
            values.append(None)
            continue
        try:
            values.append(_DECODERS[layout_of(kind)](row, header + 8 * index, kind))
        except (ValueError, OverflowError, struct.error) as cause:
            raise _damaged(
                subject, f"field {index} that does not decode: {cause}", f"a {kind}"
            ) from cause
    return tuple(values)


def _fixed(code: str) -> Callable[[bytes, int, DataType], Any]:
    unpack = struct.Struct("<" + code).unpack_from

    def decode(row: bytes, at: int, kind: DataType) -> Any:
        return unpack(row, at)[0]

    return decode


def _bytes(row: bytes, at: int, kind: DataType) -> Any:
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


def _compact_timestamp(row: bytes, at: int, kind: DataType) -> Any:
    return struct.unpack_from("<q", row, at)[0]


def _wide_timestamp(row: bytes, at: int, kind: DataType) -> Any:
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
    Layout.TIMESTAMP_COMPACT: _compact_timestamp,
    Layout.TIMESTAMP_WIDE: _wide_timestamp,
}


def _damaged(subject: str, found: str, expected: str) -> DamagedError:
    return DamagedError(
        subject,
        found=found,
        expected=expected,
        action="Restore the file, or go back to an older snapshot.",
    )
