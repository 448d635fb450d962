"""Rows that name their columns are written as the same rows that lack the others."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.write.test_row_columns import SCHEMA, TABLES, new_table
from widetable.errors import InvalidError
from widetable.write.named_columns import check_names_column

Row = Mapping[str, Any]
NAMES = pa.field("written", pa.list_(pa.string()))


def write_named(table: wt.Table, rows: Sequence[Row], fill: Any = None) -> None:
    """Dicts as whole rows with a list of their names. fill: what stands where a row has no value."""
    whole = [{**dict.fromkeys(SCHEMA.names, fill), **row, "written": list(row)} for row in rows]
    batch = pa.RecordBatch.from_pylist(whole, SCHEMA.append(NAMES))
    table.write(batch, written_columns="written")


def random_row(rng: random.Random) -> Row:
    names = rng.sample(SCHEMA.names[1:], rng.randint(0, 7))
    return {"id": rng.randint(1, 2), **{name: rng.choice([None, 1, 2, 3]) for name in names}}


def is_taken(table: wt.Table, rows: Sequence[Row]) -> bool:
    try:
        write_named(table, rows)
    except InvalidError:
        return False
    return True


@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_rows_that_name_their_columns_are_as_each_alone(
    tmp_path: Path, options: Mapping[str, str], rng: random.Random
) -> None:
    for number in range(8):
        alone = new_table(tmp_path / f"alone{number}", options)
        named = new_table(tmp_path / f"named{number}", options)
        right = []
        for row in [random_row(rng) for _ in range(rng.randint(2, 12))]:
            try:
                alone.write([row])
            except InvalidError:
                assert not is_taken(named, [row]), row
            else:
                right.append(row)
        if right:
            write_named(named, right, fill=9)
        assert named.scan().to_arrow().to_pylist() == alone.scan().to_arrow().to_pylist(), right


def test_nested_values_that_are_not_named_are_not_written(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "l": "ARRAY<STRING>", "m": "MAP<STRING, INT>", "r": "ROW<x INT>"}
    table = wt.Catalog(tmp_path).create_table(
        "db.t", columns, primary_key=["id"], options={"merge-engine": "partial-update"}
    )
    first = {"id": 1, "l": ["a"], "m": [("k", 1)], "r": {"x": 1}}
    schema = table.schema.arrow_schema().append(NAMES)
    rows = [
        {**first, "written": ["id", "l", "m", "r"]},
        {"id": 1, "l": ["b"], "m": [("k", 2)], "r": {"x": 2}, "written": ["m"]},
    ]
    table.write(pa.RecordBatch.from_pylist(rows, schema), written_columns="written")
    assert table.scan().to_arrow().to_pylist() == [{**first, "m": [("k", 2)]}]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (["a", None], "id = 1: found null among the names"),
        (["a", "bb"], "id = 1: found 'bb'; .*Did you mean b?"),
        (["written"], "id = 1: found 'written'"),
        (["s", "g"], "the row with id = 1, columns to write .*'t'"),
    ],
    ids=["null among the names", "unknown", "the column itself", "part of a group"],
)
def test_a_row_that_names_no_columns_is_refused_by_its_key(
    tmp_path: Path, written: list[str | None] | None, message: str
) -> None:
    table = new_table(tmp_path, TABLES["groups"])
    whole = dict.fromkeys(SCHEMA.names, 1)
    rows = [
        {**whole, "id": 0, "written": ["a", "a", "id"]},
        {**whole, "written": written},
        {**whole, "written": []},
    ]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA.append(NAMES))
    with pytest.raises(InvalidError, match=message):
        table.write(batch, written_columns="written")


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("written", None, "found no such column"),
        ("written", pa.string(), "found a column of string"),
        ("written", pa.list_(pa.int64()), "found a column of list"),
        ("a", pa.list_(pa.string()), "found a column of the table"),
    ],
    ids=["not there", "a text", "a list of numbers", "of the table"],
)
def test_a_column_that_cannot_hold_names_is_refused(
    tmp_path: Path, column: str, kind: pa.DataType | None, message: str
) -> None:
    table = new_table(tmp_path, {})
    with pytest.raises(InvalidError, match=message):
        check_names_column(table.schema, column, kind)
    check_names_column(table.schema, "written", pa.large_list(pa.large_string()))
