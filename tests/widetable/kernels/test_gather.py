"""Gathered rows are those that Python's indexing picks, in the same type, with nothing shared wrongly."""

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels import gather
from widetable.kernels.gather import take, take_rows

WIDE = st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal)
INT64 = st.integers(-(2**63), 2**63 - 1)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), INT64),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "date": (pa.date32(), st.integers(-(10**5), 10**5)),
    "timestamp": (pa.timestamp("us", "UTC"), INT64),
    "decimal": (pa.decimal128(38, 0), WIDE),
    "string": (pa.string(), st.text(max_size=4)),
    "binary": (pa.binary(), st.binary(max_size=4)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "c"])),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(0, 9), max_size=2)),
    "struct": (pa.struct({"x": pa.int32()}), st.fixed_dictionaries({"x": st.integers(0, 9)})),
    "null": (pa.null(), st.none()),
}


def raw(array: pa.Array) -> list[Any]:
    """Values that compare exactly, instants as numbers."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_take(name: str, data: st.DataObject) -> None:
    kind, values = KINDS[name]
    may_be_null = data.draw(st.booleans())
    rows = data.draw(st.lists(st.none() | values if may_be_null else values, max_size=20))
    whole = pa.array([*rows[:1], *rows], kind)
    array = whole.slice(min(1, len(rows)))
    lowest = data.draw(st.sampled_from([-1, 0]))
    picks = st.integers(lowest, len(rows) - 1) if rows else st.just(-1)
    indices = np.array(data.draw(st.lists(picks, max_size=30)), np.int64)
    source = raw(array)
    expected = [None if i < 0 else source[i] for i in indices]
    cut = data.draw(st.integers(0, len(rows)))
    for column in (array, pa.chunked_array([array[:cut], array[cut:]])):
        taken = take(column, indices)
        taken.validate(full=True)
        assert taken.type == kind
        assert raw(taken) == expected
        assert taken.null_count == sum(value is None for value in expected)


def test_large_integers_survive_missing_rows() -> None:
    values = [2**63 - 1, -(2**63) + 1, 2**53 + 1]
    taken = take(pa.array(values), np.array([2, -1, 0, 1]))
    assert taken.to_pylist() == [values[2], None, values[0], values[1]]


@pytest.mark.parametrize("chunked", [False, True])
def test_rows_in_sequence_share_the_memory_of_the_column(chunked: bool) -> None:
    array = pa.array(range(100))
    column = pa.chunked_array([array, pa.array([1])]) if chunked else array
    taken = take(column, np.arange(10, 20))
    assert taken.to_pylist() == list(range(10, 20))
    assert taken.buffers()[1].address == array.buffers()[1].address


def test_same_ends_but_not_in_sequence() -> None:
    assert take(pa.array([0, 1, 2, 3]), np.array([0, 2, 1, 3])).to_pylist() == [0, 2, 1, 3]


def test_all_missing_from_nothing() -> None:
    for kind, _ in KINDS.values():
        assert take(pa.array([], kind), np.array([-1, -1])).to_pylist() == [None, None]
        assert take(pa.array([], kind), np.array([], np.int64)).to_pylist() == []


def test_chunks_may_have_dictionaries_of_their_own() -> None:
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    assert take(pa.chunked_array(chunks), np.array([3, 2, -1, 1])).to_pylist() == [
        "a",
        "c",
        None,
        "b",
    ]


@pytest.mark.parametrize("few_rows", [0, 1 << 20], ids=["column by column", "at once"])
def test_rows_of_all_types_are_taken(few_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "_FEW_ROWS", few_rows)
    texts = pa.array(["a", None, "ccc", "dd"])
    columns = {
        "number": pa.array([1, None, 3, 4]),
        "text": texts,
        "view": texts.cast(pa.string_view()),
        "code": texts.dictionary_encode(),
        "list": pa.array([[1], None, [], [2, 3]]),
    }
    batch = pa.record_batch(columns).slice(1)
    for indices in ([2, 0, 1, 0], [0, 1, 2], []):
        taken = take_rows(batch, np.array(indices, np.int64))
        taken.validate(full=True)
        assert taken.schema == batch.schema
        assert taken.to_pylist() == [batch.to_pylist()[index] for index in indices]
