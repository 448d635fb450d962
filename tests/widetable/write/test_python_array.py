"""Nested values of Python become the array that Arrow makes of them by the column's type, and errors name the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.widetable.kernels.test_hidden_nulls import kind_and_values
from widetable.schema.types import DataField, arrow_type
from widetable.schema.types_from_arrow import type_from_arrow
from widetable.write.python_array import _built
from widetable.write.safe_cast import safe_cast


@given(st.data())
def test_values_are_those_that_arrow_makes_by_type(data: st.DataObject) -> None:
    kind, values = data.draw(kind_and_values())
    given_rows = data.draw(st.lists(st.none() | values, max_size=6))
    field = DataField(0, "v", type_from_arrow(kind))
    kind = arrow_type(field.type)
    found = safe_cast(_built(given_rows, field), field, kind)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == pa.array(given_rows, kind).to_pylist()


FORMS: list[tuple[str, Any, Any]] = [
    ("MAP<STRING, ROW<a INT, b STRING>>", {"x": {"a": 1}}, [("x", {"a": 1, "b": None})]),
    ("MAP<STRING, ROW<a INT>>", (("x", {"a": 1}), ["y", None]), [("x", {"a": 1}), ("y", None)]),
    ("ARRAY<MAP<STRING, INT>>", [{"a": 1}, None, []], [[("a", 1)], None, []]),
    ("ROW<m MAP<STRING, INT> NOT NULL, n BIGINT>", {"m": {"a": 1}}, {"m": [("a", 1)], "n": None}),
    ("ROW<s MULTISET<STRING>>", {"s": {"a": 2}}, {"s": [("a", 2)]}),
]


@pytest.mark.parametrize(("kind", "value", "expected"), FORMS)
def test_maps_beside_rows_are_taken_from_dicts(
    tmp_path: Path, kind: str, value: Any, expected: Any
) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT", "v": kind}, primary_key=["k"])
    table.write([{"k": 1, "v": value}, {"k": 2, "v": None}])
    table.write(pd.DataFrame({"k": [3, 4, 5], "v": [value, float("nan"), None]}))
    found = dict(zip(*(table.scan().to_arrow()[name].to_pylist() for name in "kv"), strict=True))
    assert found == {1: expected, 2: None, 3: expected, 4: None, 5: None}


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("MAP<STRING, ROW<a INT>>", {"x": {"b": 1}}, "b"),
        ("MAP<STRING, ROW<a INT>>", {"x": 7}, "7"),
        ("MAP<STRING, ROW<a INT>>", {"x": {"a": "one"}}, "one|string"),
        ("MAP<STRING, ROW<a INT>>", [("x", {"a": 1}, 3)], "3"),
        ("MAP<STRING, ROW<a INT>>", [(None, {"a": 1})], "null|NULL"),
        ("ARRAY<MAP<STRING, INT>>", {"a": 1}, "a"),
        ("ARRAY<MAP<STRING, INT>>", ["a"], "a"),
        ("ROW<m MAP<STRING, INT> NOT NULL>", {"m": None}, "null|NULL"),
        ("ROW<m MAP<STRING, INT>>", {"m": {"a": 1 << 40}}, "1099511627776"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, kind: str, value: Any, found: str) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("db.t", {"k": "INT", "v": kind}, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match="column 'v'") as error:
        table.write([{"k": 1, "v": value}])
    assert any(part in str(error.value) for part in found.split("|")), error.value
    assert table.snapshots() == []
