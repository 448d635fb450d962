"""Parts that are NOT NULL have no nulls where the value around them is null, and all values stay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.hidden_nulls import has_required_parts, nulls, without_hidden_nulls

_FLAT: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-9, 9)),
    (pa.string(), st.text("ab", max_size=3)),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(20, 2), st.decimals(-99, 99, places=2)),
    (pa.float64(), st.sampled_from([0.5, 2.0])),
]


@st.composite
def kind_and_values(draw: Any, depth: int = 3) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    shape = draw(st.sampled_from(["flat", "struct", "list", "map"])) if depth else "flat"
    if shape == "flat":
        flat: tuple[pa.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(_FLAT))
        return flat
    if shape == "struct":
        parts = draw(st.lists(kind_and_values(depth=depth - 1), min_size=1, max_size=3))
        required = [draw(st.booleans()) for _ in parts]
        fields = [pa.field(f"f{i}", kind, not required[i]) for i, (kind, _) in enumerate(parts)]
        values = {
            f"f{i}": each if required[i] else st.none() | each for i, (_, each) in enumerate(parts)
        }
        return pa.struct(fields), st.fixed_dictionaries(values)
    kind, values = draw(kind_and_values(depth=depth - 1))
    items = st.none() | values
    if shape == "list":
        return pa.list_(pa.field("element", kind)), st.lists(items, max_size=3)
    pairs = st.lists(st.tuples(st.text("xy", min_size=1, max_size=2), items), max_size=3)
    return pa.map_(pa.string(), kind), pairs


@given(st.data())
def test_values_stay_and_arrow_casts_them(data: st.DataObject) -> None:
    kind, values = data.draw(kind_and_values())
    given_rows = data.draw(st.lists(st.none() | values, max_size=8))
    column = pa.array(given_rows, kind)
    places = st.none() if not given_rows else st.none() | st.integers(0, len(given_rows) - 1)
    taken = column.take(pa.array(data.draw(st.lists(places, max_size=9)), pa.int64()))
    start = data.draw(st.integers(0, len(taken)))
    for array in (taken, taken.slice(start), nulls(3, kind), pa.chunked_array([taken, column])):
        shown = without_hidden_nulls(array)
        shown.validate(full=True)
        assert shown.type == kind
        assert shown.to_pylist() == array.to_pylist()
        assert pa.table({"v": shown}).cast(pa.schema([("v", kind)])).num_rows == len(array)
        if not has_required_parts(kind):
            assert shown is array or shown.equals(array)


def test_a_null_below_a_value_stays() -> None:
    loose = pa.struct([pa.field("a", pa.int32())])
    kind = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    column = pa.array([{"a": None}, None], loose)
    wrong = pa.Array.from_buffers(kind, 2, column.buffers()[:1], children=[column.field(0)])
    assert without_hidden_nulls(wrong).field(0).null_count == 1
