"""Tables whose columns have fields, under two masters: Paimon's Java and widetable write, compact and alter them in
turn, in files of each format, and both read the rows of a plain model.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.java.java_process import JavaProcess, JavaRefused, JavaTable
from tests.interop.java.java_session import NEEDS_JAVA, texts_of
from tests.support.models.nested_columns import (
    Value,
    arrow_rows,
    drawn,
    drawn_change,
    new_table,
    plain,
)
from tests.support.programs.tallies import Note

pytestmark = [pytest.mark.interop, NEEDS_JAVA]

KEYS = range(6)


class TwoMasters:
    """A table and its model: by key, the values of its row by the numbers of their columns."""

    def __init__(self, rng: random.Random, java: JavaProcess, folder: Path, kind: str) -> None:
        self.rng, self.columns = rng, new_table(rng)
        self.catalog = wt.Catalog(str(folder))
        self.rows: dict[int, dict[int, Value]] = {}
        self.steps: list[str] = []
        schema = arrow_rows([], [], self.columns.parts).schema
        options = {"bucket": "1", "widetable.fsync": "false"}
        table = self.catalog.create_table("db.t", schema, primary_key=["k"], options=options)
        self.java = JavaTable(java, Path(table.path))
        self.format = kind

    @property
    def table(self) -> wt.Table:
        return self.catalog.table("db.t")

    def write(self, *, theirs: bool) -> None:
        keys = self.rng.sample(KEYS, self.rng.randint(1, len(KEYS)))
        records = [{p.number: drawn(self.rng, p) for p in self.columns.parts} for _ in keys]
        data = arrow_rows(keys, records, self.columns.parts)
        self.steps.append(f"{'they' if theirs else 'we'} write {data.to_pylist()}")
        if theirs:
            self.java.write(data, options={"file.format": self.format, "write-only": "true"})
        else:
            self.table.write(data)
        self.rows.update(zip(keys, records, strict=True))

    def alter(self, *, theirs: bool) -> None:
        change = drawn_change(self.rng, self.columns, moves_fields=not theirs, keeps_oldest=True)
        self.steps.append(f"{'they' if theirs else 'we'} alter {change.alter}")
        if theirs:
            try:
                self.java.alter(change.alter)
            except JavaRefused as refusal:
                self.steps.append(f"refused: {str(refusal)[:200]}")
                return
        else:
            self.catalog.alter_table("db.t", **change.alter)
        self.columns = change.table

    def compact(self, *, theirs: bool) -> None:
        full = self.rng.random() < 0.5
        self.steps.append(f"{'they' if theirs else 'we'} compact, full={full}")
        if theirs:
            self.java.compact(full=full, options={"file.format": self.format})
        else:
            self.table.compact(full=full)

    def check(self) -> None:
        wanted = [
            {"k": key, **{p.name: plain(row.get(p.number), p) for p in self.columns.parts}}
            for key, row in self.rows.items()
        ]
        schema = self.table.arrow_schema
        expected = texts_of(pa.Table.from_pylist(sorted_maps(wanted), schema))
        ours = self.table.scan().to_arrow().to_pylist()
        assert texts_of(pa.Table.from_pylist(sorted_maps(ours), schema)) == expected, self.steps
        theirs = self.java.read().to_pylist()
        assert texts_of(pa.Table.from_pylist(sorted_maps(theirs), schema)) == expected, self.steps


def sorted_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: sorted_maps(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(sorted_maps(each) for each in value)
    if isinstance(value, list):
        found = [sorted_maps(each) for each in value]
        is_map = all(isinstance(each, tuple) for each in found)
        return sorted(found, key=lambda each: str(each[0])) if is_map else found
    return value


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("round_", range(4))
def test_both_read_what_both_altered(
    tmp_path: Path, java: JavaProcess, rng: random.Random, kind: str, round_: int, tally: Note
) -> None:
    both = TwoMasters(rng, java, tmp_path, kind)
    both.write(theirs=True)
    for _ in range(8):
        theirs = rng.random() < 0.5
        step = rng.choice(["write", "alter", "alter", "compact"])
        getattr(both, step)(theirs=theirs)
        both.check()
    tally(tables=1, steps=8)


COLUMNS = {
    "k": "INT",
    "v": "ROW<a INT, b STRING>",
    "l": "ARRAY<ROW<a INT, b STRING>>",
    "m": "MAP<STRING, ROW<a INT, b STRING>>",
    "last": "INT",
}
ROW = {"a": 1, "b": "x"}
RECORD = {"k": 1, "v": ROW, "l": [ROW, None], "m": [("p", ROW)], "last": 1}


def made(java: JavaProcess, folder: Path, **options: str) -> tuple[wt.Catalog, JavaTable]:
    """With one row."""
    catalog = wt.Catalog(str(folder))
    options = {"widetable.fsync": "false", **options}
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    table.write(pa.Table.from_pylist([RECORD], table.arrow_schema))
    return catalog, JavaTable(java, Path(table.path))


CHANGES: list[dict[str, Any]] = [
    {"add_columns": [pa.field(f"{row}.c", pa.int64()) for row in ("v", "l.element", "m.value")]},
    {"add_columns": [pa.field("v.r", pa.struct([("p", pa.int8()), ("q", pa.list_(pa.int8()))]))]},
    {"drop_columns": ["v.a", "l.element.b"], "rename_columns": {"v.b": "a", "m.value.a": "z"}},
    {"change_types": {"m.value.z": pa.int64(), "l.element.a": pa.string()}},
    {"change_comments": {"v.a": "deep", "k": "key"}, "move_columns": {"last": "first"}},
    {"move_columns": {"m": "after k"}},
    {"move_columns": {"k": "last"}},
    {"move_columns": {"l": "before v"}},
    {"drop_columns": ["v.c"], "add_columns": [pa.field("v.c", pa.int8())]},
    {"set_options": {"alter-column-null-to-not-null.disabled": "false"}},
    {"change_nullability": {"v.a": False, "last": False, "m.value": False}},
    {"change_nullability": {"v.a": True, "last": True, "m.value": True}},
]


def test_the_same_changes_give_the_same_columns(tmp_path: Path, java: JavaProcess) -> None:
    """Ids and all."""
    ours, _ = made(java, tmp_path / "ours")
    _, theirs = made(java, tmp_path / "theirs")
    for change in CHANGES:
        schema = ours.alter_table("db.t", **change).schema
        theirs.alter(change)
        assert schema.fields == theirs.fields(), change
        assert schema.highest_field_id == wt.Table.open(theirs.path).schema.highest_field_id
        expected = texts_of(ours.table("db.t").scan().to_arrow())
        assert texts_of(theirs.read()) == expected
        assert texts_of(wt.Table.open(theirs.path).scan().to_arrow()) == expected


def test_java_has_no_row_where_all_fields_are_newer(tmp_path: Path, java: JavaProcess) -> None:
    catalog, theirs = made(java, tmp_path)
    rows = ("v", "l.element", "m.value")
    theirs.alter({"add_columns": [pa.field(f"{row}.n", pa.int8()) for row in rows]})
    theirs.alter({"drop_columns": [f"{row}.{name}" for row in rows for name in "ab"]})
    assert theirs.read().to_pylist() == [{"k": 1, "v": None, "l": None, "m": None, "last": 1}]
    (ours,) = catalog.table("db.t").scan().to_arrow().to_pylist()
    row = {"n": None}
    assert ours == {"k": 1, "v": row, "l": [row, None], "m": [("p", row)], "last": 1}


def test_java_gives_options_of_a_column_to_another_one(tmp_path: Path, java: JavaProcess) -> None:
    functions = {"merge-engine": "aggregation", "fields.m.aggregate-function": "merge_map"}
    _, theirs = made(java, tmp_path / "theirs", **functions)
    theirs.alter({"rename_columns": {"m.value.a": "l"}})
    options = wt.Table.open(theirs.path).schema.options
    assert "fields.m.aggregate-function" not in options
    assert options["fields.l.aggregate-function"] == "merge_map"
    with pytest.raises(wt.InvalidError, match="'merge_map' for the column 'l'"):
        wt.Table.open(theirs.path).scan().to_arrow()
    ours, _ = made(java, tmp_path / "ours", **functions)
    table = ours.alter_table("db.t", rename_columns={"m.value.a": "l"})
    assert table.schema.options["fields.m.aggregate-function"] == "merge_map"


def test_java_takes_any_word_for_what_is_in_a_list_or_map(
    tmp_path: Path, java: JavaProcess
) -> None:
    _, theirs = made(java, tmp_path)
    theirs.ask(
        "alter", changes=[["add", ["l", "any", "n"], "INT"], ["add", ["m", "key", "n"], "INT"]]
    )
    schema = wt.Table.open(theirs.path).arrow_schema
    assert schema.field("l").type.value_type.get_field_index("n") == 2
    assert schema.field("m").type.item_type.get_field_index("n") == 2


def test_java_refuses_a_whole_nested_type(tmp_path: Path, java: JavaProcess) -> None:
    _, theirs = made(java, tmp_path)
    wider = pa.struct([("a", pa.int64()), ("b", pa.string())])
    with pytest.raises(JavaRefused, match="cannot be converted"):
        theirs.alter({"change_types": {"v": wider}})
