"""Binary rows against a slow encoder that follows the grammar field by field."""

import decimal
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.binary_rows import Layout, encode_binary_rows

INT64 = st.integers(-(2**63), 2**63 - 1)
# In nanoseconds, within what every unit can hold.
INSTANT = st.integers(-(2**62), 2**62)

# layout -> (arrow type, strategy of Python values that pa.array takes)
FIELDS: dict[Layout, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    Layout.BOOL: (pa.bool_(), st.booleans()),
    Layout.INT8: (pa.int8(), st.integers(-128, 127)),
    Layout.INT16: (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    Layout.INT32: (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    Layout.INT64: (pa.int64(), INT64),
    Layout.FLOAT: (pa.float32(), st.floats(width=32, allow_nan=False)),
    Layout.DOUBLE: (pa.float64(), st.floats(allow_nan=False)),
    Layout.BYTES: (pa.binary(), st.binary(max_size=20)),
    Layout.DECIMAL_COMPACT: (pa.decimal128(18, 0), st.integers(-(10**18) + 1, 10**18 - 1)),
    Layout.DECIMAL_WIDE: (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1)),
    Layout.TIMESTAMP_COMPACT: (pa.timestamp("us"), INT64),
    Layout.TIMESTAMP_WIDE: (pa.timestamp("ns"), INSTANT),
}


def slow_row(values: list[Any], layouts: list[Layout]) -> bytes:
    header = bytearray((len(values) + 71) // 64 * 8)
    slots, variable = b"", b""
    start = len(header) + 8 * len(values)
    for i, (value, layout) in enumerate(zip(values, layouts, strict=True)):
        if value is None:
            header[(i + 8) // 8] |= 1 << (i + 8) % 8
        slot, part = slow_field(value, layout, start + len(variable))
        slots += slot.ljust(8, b"\0")
        variable += part
    return bytes(header) + slots + variable


def slow_field(value: Any, layout: Layout, offset: int) -> tuple[bytes, bytes]:
    if layout is Layout.DECIMAL_WIDE:
        if value is None:
            return struct.pack("<ii", 0, offset), bytes(16)
        length = next(n for n in range(1, 17) if -(1 << 8 * n - 1) <= value < 1 << 8 * n - 1)
        data = value.to_bytes(length, "big", signed=True)
        return struct.pack("<ii", length, offset), data.ljust(16, b"\0")
    if layout is Layout.TIMESTAMP_WIDE:
        if value is None:
            return struct.pack("<ii", 0, offset), bytes(8)
        millis, nanos = divmod(value, 10**6)
        return struct.pack("<ii", nanos, offset), struct.pack("<q", millis)
    if value is None:
        return b"", b""
    if layout is Layout.BYTES:
        if len(value) <= 7:
            return value.ljust(7, b"\0") + bytes([0x80 | len(value)]), b""
        padding = bytes(-len(value) % 8)
        return struct.pack("<ii", len(value), offset), value + padding
    if layout is Layout.TIMESTAMP_COMPACT:
        return struct.pack("<q", value // 1000), b""
    codes = {"BOOL": "?", "INT8": "b", "INT16": "h", "INT32": "i", "FLOAT": "f", "DOUBLE": "d"}
    return struct.pack("<" + codes.get(layout.name, "q"), value), b""


def column(values: list[Any], layout: Layout) -> pa.Array:
    kind = FIELDS[layout][0]
    if pa.types.is_decimal(kind):
        values = [None if v is None else decimal.Decimal(v) for v in values]
    return pa.array(values, kind)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Layout], list[list[Any]]]:
    layouts = draw(st.lists(st.sampled_from(list(Layout)), max_size=6))
    row = st.tuples(*(st.none() | FIELDS[layout][1] for layout in layouts))
    return layouts, [list(values) for values in draw(st.lists(row, min_size=1, max_size=5))]


@given(tables(), st.integers(0, 3))
def test_rows_are_what_the_grammar_says(
    table: tuple[list[Layout], list[list[Any]]], cut: int
) -> None:
    layouts, rows = table
    columns = [
        column([row[i] for row in rows], layout).slice(cut) for i, layout in enumerate(layouts)
    ]
    encoded = encode_binary_rows(columns, layouts, rows=len(rows[cut:]))
    assert [encoded.row(i) for i in range(len(encoded))] == [
        slow_row(row, layouts) for row in rows[cut:]
    ]
    assert encoded.data.dtype == np.uint8
    assert encoded.offsets[-1] == len(encoded.data)


@pytest.mark.parametrize("arity", [55, 56, 57, 120, 121, 300])
def test_header_grows_with_the_arity(arity: int) -> None:
    values = [None if i % 3 == 0 else i for i in range(arity)]
    columns = [pa.array([value], pa.int32()) for value in values]
    encoded = encode_binary_rows(columns, [Layout.INT32] * arity)
    assert encoded.row(0) == slow_row(values, [Layout.INT32] * arity)


def test_no_columns_give_the_empty_row() -> None:
    encoded = encode_binary_rows([], [], rows=2)
    assert [encoded.row(0), encoded.row(1)] == [bytes(8), bytes(8)]


def test_no_rows() -> None:
    encoded = encode_binary_rows([pa.array([], pa.string())], [Layout.BYTES])
    assert len(encoded) == 0
    assert len(encoded.data) == 0


@pytest.mark.parametrize(
    ("unit", "value", "millis", "nanos"),
    [
        ("s", -1, -1000, 0),
        ("ms", -1, -1, 0),
        ("us", -1, -1, 999_000),
        ("ns", -1, -1, 999_999),
        ("ns", 1_000_001, 1, 1),
        ("us", 1_001, 1, 1_000),
    ],
)
def test_timestamps_of_every_unit(unit: str, value: int, millis: int, nanos: int) -> None:
    instants = pa.array([value], pa.timestamp(unit, "UTC"))
    compact = encode_binary_rows([instants], [Layout.TIMESTAMP_COMPACT])
    wide = encode_binary_rows([instants], [Layout.TIMESTAMP_WIDE])
    assert compact.row(0) == bytes(8) + struct.pack("<q", millis)
    assert wide.row(0) == bytes(8) + struct.pack("<iiq", nanos, 16, millis)


@pytest.mark.parametrize(
    ("kind", "per_second"),
    [
        (pa.time32("s"), 1),
        (pa.time32("ms"), 10**3),
        (pa.time64("us"), 10**6),
        (pa.time64("ns"), 10**9),
    ],
)
def test_times_become_milliseconds(kind: pa.DataType, per_second: int) -> None:
    times = pa.array([45_296 * per_second], kind)
    assert encode_binary_rows([times], [Layout.INT32]).row(0)[8:] == struct.pack(
        "<iI", 45_296_000, 0
    )


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view(), pa.binary(9)],
)
def test_bytes_of_every_arrow_form(kind: pa.DataType) -> None:
    values = [b"123456789", b"abcdefghi"]
    expected = [slow_row([value], [Layout.BYTES]) for value in values]
    encoded = encode_binary_rows([pa.array(values, kind)], [Layout.BYTES])
    assert [encoded.row(0), encoded.row(1)] == expected
    chunked = pa.chunked_array([pa.array(values[:1], kind), pa.array(values[1:], kind)])
    assert encode_binary_rows([chunked], [Layout.BYTES]).row(1) == expected[1]


def test_a_type_that_does_not_fit_the_layout_is_refused() -> None:
    with pytest.raises(TypeError, match=r"INT32.*int64"):
        encode_binary_rows([pa.array([1], pa.int64())], [Layout.INT32])


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths"):
        encode_binary_rows([pa.array([1]), pa.array([1, 2])], [Layout.INT64, Layout.INT64])
