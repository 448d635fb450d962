"""Lanes order rows as Python's comparison of the values does, whatever the types."""

import decimal
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.bytes_lanes import MAX_PADDED_BYTES
from widetable.kernels.key_lanes import key_lanes

# Few different bytes, zero among them: ties, prefixes and paddings come up all the time.
BYTES = st.lists(st.sampled_from(b"\x00\x01a\xff"), max_size=12).map(bytes)
# Around the 64 bytes that are sorted at a time, and well past them.
LONG = st.tuples(
    st.sampled_from([b"", b"p" * 60, b"p" * 64, b"p" * 70, b"p" * 125, b"q" * 200]), BYTES
).map(b"".join)
TEXT = st.text(alphabet="a\x00\u00e9\U0001f600\ue000", max_size=8)
FLOAT_CASES = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, -1.5, 5e-324]


def integers(bits: int) -> st.SearchStrategy[int]:
    limit = 1 << (bits - 1)
    edges = st.sampled_from([0, 1, -1, limit - 1, -limit])
    return edges | st.integers(-limit, limit - 1) | st.integers(-3, 3)


def decimals(digits: int) -> st.SearchStrategy[decimal.Decimal]:
    limit = 10**digits - 1
    return (st.integers(-limit, limit) | st.integers(-3, 3)).map(decimal.Decimal)


def float_order(value: float) -> tuple[int, int]:
    """Java's total order: the bits as a signed magnitude, all NaNs as one at the end."""
    if math.isnan(value):
        return (1, 0)
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return (0, bits if bits >= 0 else -(bits & (2**63 - 1)) - 1)


def same(value: Any) -> Any:
    return value


# name -> (arrow type, values, sort key of a value)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "bool": (pa.bool_(), st.booleans(), same),
    "int8": (pa.int8(), integers(8), same),
    "int16": (pa.int16(), integers(16), same),
    "int32": (pa.int32(), integers(32), same),
    "int64": (pa.int64(), integers(64), same),
    "date": (pa.date32(), integers(32), same),
    "time32": (pa.time32("ms"), st.integers(0, 86_399_999), same),
    "time64": (pa.time64("us"), st.integers(0, 86_399_999_999), same),
    "timestamp s": (pa.timestamp("s"), integers(64), same),
    "timestamp ms": (pa.timestamp("ms", "UTC"), integers(64), same),
    "timestamp us": (pa.timestamp("us"), integers(64), same),
    "timestamp ns": (pa.timestamp("ns"), integers(64), same),
    "decimal 18": (pa.decimal128(18, 0), decimals(18), same),
    "decimal 38": (pa.decimal128(38, 0), decimals(38), same),
    "float": (pa.float32(), st.sampled_from(FLOAT_CASES[:-1]) | st.floats(width=32), float_order),
    "double": (pa.float64(), st.sampled_from(FLOAT_CASES) | st.floats(), float_order),
    "binary": (pa.binary(), BYTES, same),
    "large binary": (pa.large_binary(), BYTES, same),
    "binary view": (pa.binary_view(), BYTES, same),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3), same),
    "long binary": (pa.binary(), LONG, same),
    "string": (pa.string(), TEXT, str.encode),
    "large string": (pa.large_string(), TEXT, str.encode),
    "string view": (pa.string_view(), TEXT, str.encode),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXT, str.encode),
}


def assert_order(lanes: np.ndarray, keys: list[Any], compare: Callable[[Any, Any], int]) -> None:
    rows = [tuple(row) for row in lanes.tolist()]
    for i in range(len(rows)):
        for j in range(len(rows)):
            expected = compare(keys[i], keys[j])
            assert (rows[i] > rows[j]) - (rows[i] < rows[j]) == expected, (keys[i], keys[j])


def compare_columns(nulls_first: bool, descending: list[bool]) -> Callable[[Any, Any], int]:
    def compare(left: list[Any], right: list[Any]) -> int:
        for a, b, turned in zip(left, right, descending, strict=True):
            if a is None or b is None:
                result = (a is not None) - (b is not None)
                result = result if nulls_first else -result
            else:
                result = (a > b) - (a < b)
                result = -result if turned else result
            if result:
                return result
        return 0

    return compare


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_one_column_of_every_type(name: str, data: st.DataObject) -> None:
    kind, values, sort_key = KINDS[name]
    rows = data.draw(st.lists(st.none() | values, max_size=10))
    turned, nulls_first = data.draw(st.booleans()), data.draw(st.booleans())
    lanes = key_lanes([pa.array(rows, kind)], nulls_first=nulls_first, descending=[turned])
    assert lanes.dtype == np.uint64
    assert lanes.flags.c_contiguous
    assert lanes.shape[0] == len(rows)
    assert lanes.shape[1] >= 1
    keys = [[None if row is None else sort_key(row)] for row in rows]
    assert_order(lanes, keys, compare_columns(nulls_first, [turned]))


@st.composite
def column_sets(draw: st.DrawFn) -> tuple[list[pa.ChunkedArray], list[list[Any]]]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    kinds = [KINDS[name] for name in names]
    row = st.tuples(*(st.none() | values for _, values, _ in kinds))
    # Two of every row: first columns that tie let later ones decide.
    rows = draw(st.lists(row, min_size=1, max_size=8))
    rows = [(*row[: i % 2], *rows[0][i % 2 :]) for i, row in enumerate(rows)] + rows
    cut = draw(st.integers(0, len(rows)))
    columns = []
    for i, (kind, _, _) in enumerate(kinds):
        # An offset and a null bitmap that starts inside a byte.
        whole = pa.array([None, *(row[i] for row in rows)], kind)
        columns.append(pa.chunked_array([whole[1 : 1 + cut], whole[1 + cut :]]))
    keys = [
        [None if v is None else kind[2](v) for v, kind in zip(row, kinds, strict=True)]
        for row in rows
    ]
    return columns, keys


@given(column_sets(), st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())
def test_several_chunked_columns(
    case: tuple[list[pa.ChunkedArray], list[list[Any]]], turned: list[bool], nulls_first: bool
) -> None:
    columns, keys = case
    descending = turned[: len(columns)]
    lanes = key_lanes(columns, nulls_first=nulls_first, descending=descending)
    assert_order(lanes, keys, compare_columns(nulls_first, descending))


def ordered(*values: Any, kind: pa.DataType) -> None:
    """The values are in strictly rising order, and so are their lanes."""
    rows = [tuple(row) for row in key_lanes([pa.array(values, kind)]).tolist()]
    assert rows == sorted(set(rows))
    assert len(rows) == len(values)


def test_a_prefix_comes_before_what_extends_it() -> None:
    ordered(b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0", b"a\0b", b"ab", kind=pa.binary())
    ordered(b"12345678", b"12345678\0", b"123456780", kind=pa.binary())
    prefix = b"x" * 200
    ordered(prefix, prefix + b"\0", prefix + b"a", prefix + b"b" * 100, kind=pa.binary())


def test_strings_compare_by_utf8_bytes_not_by_utf16_units() -> None:
    ordered("z", "\u00e9", "\uffee", "\U0001f600", kind=pa.string())


def test_long_values_are_ranked() -> None:
    longest = MAX_PADDED_BYTES + 1
    ordered("a", "b" * longest, "b" * longest + "\0", "c", kind=pa.string())
    lanes = key_lanes([pa.array(["a", "b" * 1000, "c" * 1000])])
    assert lanes.tolist() == [[0], [1], [2]]  # ranks, not words


def test_nulls_come_first_whatever_the_direction() -> None:
    column = pa.array([None, 3, 1, 2])
    assert key_lanes([column], descending=[True])[:, 0].argsort().tolist() == [0, 1, 3, 2]
    assert key_lanes([column])[:, 0].argsort().tolist() == [0, 2, 3, 1]
    last = key_lanes([column], nulls_first=False, descending=[True])
    assert last[:, 0].argsort().tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("column", [pa.array([5, 6, 7, 8]), pa.array(["ab", "b", "c", "d" * 99])])
def test_what_lies_behind_a_null_does_not_matter(column: pa.Array) -> None:
    buffers = [pa.py_buffer(bytes([0b0101])), *column.buffers()[1:]]
    with_nulls = pa.Array.from_buffers(column.type, 4, buffers)
    assert with_nulls.null_count == 2
    lanes = [tuple(row) for row in key_lanes([with_nulls]).tolist()]
    assert lanes[1] == lanes[3] < lanes[0] < lanes[2]


def test_all_nans_are_equal_and_greatest() -> None:
    patterns = [0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000000, 0x0]
    values = np.array(patterns, np.uint64).view(np.float64)
    lanes = key_lanes([pa.array(values)])[:, 0]
    assert lanes[0] == lanes[1] > lanes[2] > lanes[3]


@pytest.mark.parametrize("bits", [0x7F800001, 0xFFBFFFFF])
def test_a_signalling_nan_is_as_others_and_says_nothing(bits: int) -> None:
    """Where a quiet one is made of it numpy warns, which is an error in tests."""
    found = key_lanes(
        [
            pa.Array.from_buffers(
                pa.float32(), 2, [None, pa.py_buffer(struct.pack("<If", bits, math.nan))]
            )
        ]
    )
    assert (found[0] == found[1]).all()


def test_columns_that_say_nothing_take_no_lane() -> None:
    constant, text = pa.array([7, 7, 7]), pa.array(["same", "same", "same"])
    nulls = pa.nulls(3, pa.int32())
    assert key_lanes([constant, text, nulls]).tolist() == [[0], [0], [0]]
    assert key_lanes([constant, pa.array([5, 1, 3]), text]).shape == (3, 1)


def test_narrow_columns_share_a_lane() -> None:
    region, number = (
        pa.array([2, 1, None, 2], pa.int32()),
        pa.array([-1, 5, 7, -(2**31)], pa.int32()),
    )
    lanes = key_lanes([region, number])
    assert lanes.shape == (4, 1)
    assert lanes[:, 0].argsort().tolist() == [2, 1, 3, 0]


def test_a_column_may_straddle_two_lanes() -> None:
    wide = pa.array([-(2**63), 2**63 - 1, 0, 0])
    narrow = pa.array([0, 1, 1, 0], pa.int8())
    assert key_lanes([narrow, wide]).shape == (4, 2)
    rows = [tuple(row) for row in key_lanes([narrow, wide]).tolist()]
    assert sorted(range(4), key=rows.__getitem__) == [0, 3, 2, 1]


def test_no_rows_and_no_columns() -> None:
    assert key_lanes([pa.array([], pa.string())]).shape == (0, 1)
    assert key_lanes([pa.chunked_array([], pa.int64())]).shape == (0, 1)
    assert key_lanes([]).shape == (0, 1)


def test_a_dictionary_may_hold_a_value_twice_and_nulls() -> None:
    indices = pa.array([0, 1, 2, 3, None], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["b", "a", "b", None]))
    lanes = key_lanes([column])[:, 0].tolist()
    assert lanes[0] == lanes[2] > lanes[1] > lanes[3] == lanes[4]


def test_what_cannot_be_a_key_is_refused() -> None:
    with pytest.raises(TypeError, match="list"):
        key_lanes([pa.array([[1]])])
    with pytest.raises(ValueError, match="lengths"):
        key_lanes([pa.array([1]), pa.array([1, 2])])
