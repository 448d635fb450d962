"""Functions of columns whose elements or values are rows, while the fields of these rows change: records of before and
after meet in one merge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt

ROWS = "ROW<id INT, n INT, s STRING>"
COLUMNS = {"k": "INT", "l": f"ARRAY<{ROWS}>", "m": f"MAP<STRING, {ROWS}>"}
FUNCTIONS = {
    "merge-engine": "aggregation",
    "write-only": "true",
    "widetable.fsync": "false",
    "fields.l.aggregate-function": "nested_update",
    "fields.l.nested-key": "id",
    "fields.l.nested-sequence-field": "n",
    "fields.m.aggregate-function": "merge_map_with_keytime",
}
Row = dict[str, Any]


class Tables:
    def __init__(self, folder: Path) -> None:
        self.catalog = wt.Catalog(str(folder))

    def create(self, **options: str) -> wt.Table:
        return self.catalog.create_table(
            "db.t", COLUMNS, primary_key=["k"], options={**FUNCTIONS, **options}
        )

    def alter(self, **change: Any) -> wt.Table:
        return self.catalog.alter_table("db.t", **change)

    def write(self, **values: Any) -> None:
        """One row of the key 1."""
        table = self.catalog.table("db.t")
        fields = [table.arrow_schema.field(name) for name in ("k", *values)]
        columns = [[1], *([value] for value in values.values())]
        arrays = [pa.array(v, f.type) for v, f in zip(columns, fields, strict=True)]
        table.write(pa.table(arrays, schema=pa.schema(fields)))

    def row(self, *, compacts: bool = False) -> Row:
        table = self.catalog.table("db.t")
        if compacts:
            table.compact(full=True)
        (found,) = table.scan().to_arrow().to_pylist()
        assert table.lookup([1]).to_pylist() == [found]
        return dict(found)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def row(**values: Any) -> Row:
    return values


@pytest.mark.parametrize("compacts", [False, True])
def test_nested_update_goes_on_by_the_renamed_key(tables: Tables, compacts: bool) -> None:
    tables.create()
    tables.write(l=[row(id=1, n=1, s="a"), row(id=2, n=5, s="b"), row(id=3, n=1, s="c")])
    table = tables.alter(
        rename_columns={"l.element.id": "key", "l.element.n": "order"},
        add_columns=[pa.field("l.element.new", pa.string())],
        change_types={"l.element.id": pa.int64(), "l.element.n": pa.int64()},
    )
    assert table.schema.options["fields.l.nested-key"] == "key"
    assert table.schema.options["fields.l.nested-sequence-field"] == "order"
    tables.write(l=[row(key=1, order=2, s="A", new="x"), row(key=2, order=4, s="late", new="y")])
    tables.alter(drop_columns=["l.element.s"], move_columns={"l.element.new": "first"})
    tables.write(l=[row(new="z", key=2**40, order=1)])
    found = sorted(tables.row(compacts=compacts)["l"], key=lambda each: each["key"])
    assert found == [
        row(new="x", key=1, order=2),
        row(new=None, key=2, order=5),
        row(new=None, key=3, order=1),
        row(new="z", key=2**40, order=1),
    ]


@pytest.mark.parametrize("compacts", [False, True])
def test_nested_partial_update_patches_rows_of_before(tables: Tables, compacts: bool) -> None:
    tables.create(**{"fields.l.aggregate-function": "nested_partial_update"})
    tables.write(l=[row(id=1, n=1, s="a"), row(id=2, n=2, s="b")])
    tables.alter(drop_columns=["l.element.s"])
    tables.alter(
        add_columns=[pa.field("l.element.s", pa.string())], rename_columns={"l.element.id": "key"}
    )
    tables.write(l=[row(key=1, n=None, s="A"), row(key=3, n=3, s=None)])
    assert sorted(tables.row(compacts=compacts)["l"], key=lambda each: each["key"]) == [
        row(key=1, n=1, s="A"),
        row(key=2, n=2, s=None),
        row(key=3, n=3, s=None),
    ]


@pytest.mark.parametrize("compacts", [False, True])
def test_merge_map_merges_values_of_before_and_after(tables: Tables, compacts: bool) -> None:
    tables.create(**{"fields.m.aggregate-function": "merge_map"})
    tables.write(m=[("a", row(id=1, n=1, s="a")), ("b", row(id=2, n=2, s="b"))])
    tables.alter(
        drop_columns=["m.value.s"],
        rename_columns={"m.value.n": "id", "m.value.id": "n"},
        change_types={"m.value.n": pa.int64()},
    )
    tables.alter(add_columns=[pa.field("m.value.s", pa.string())])
    tables.write(m=[("b", row(n=7, id=8, s="B")), ("c", None)])
    found = sorted(tables.row(compacts=compacts)["m"])
    assert found == [
        ("a", row(n=1, id=1, s=None)),
        ("b", row(n=7, id=8, s="B")),
        ("c", None),
    ]


@pytest.mark.parametrize("compacts", [False, True])
def test_the_time_of_an_entry_stays_the_time(tables: Tables, compacts: bool) -> None:
    """The last field, whatever it is called."""
    tables.create()
    tables.write(m=[("a", row(id=1, n=1, s="2")), ("b", row(id=2, n=2, s="2"))])
    tables.alter(
        rename_columns={"m.value.s": "time"},
        add_columns=[pa.field("m.value.new", pa.int8())],
        move_columns={"m.value.new": "first"},
    )
    tables.write(m=[("a", row(new=1, id=3, n=3, time="1")), ("b", row(new=2, id=4, n=4, time="3"))])
    assert sorted(tables.row(compacts=compacts)["m"]) == [
        ("a", row(new=None, id=1, n=1, time="2")),
        ("b", row(new=2, id=4, n=4, time="3")),
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"drop_columns": ["l.element.id"]}, "'l'.*the field 'id' in its options"),
    ({"drop_columns": ["l.element.n"]}, "'l'.*the field 'n' in its options"),
    (
        {"drop_columns": ["l.element.id"], "add_columns": [pa.field("l.element.id", pa.int32())]},
        "'l'.*a change of the function",
    ),
    ({"set_options": {"fields.l.nested-key": "s"}}, "'l'.*a change of the function"),
    ({"rename_columns": {"l.element.id": "n", "l.element.n": "id"},
      "set_options": {"fields.l.nested-key": "id", "fields.l.nested-sequence-field": "n"}},
     "'l'.*a change of the function"),
    ({"change_types": {"l.element.id": pa.string()}}, "'l'.*INT to STRING of 'id'"),
    ({"change_types": {"l.element.n": pa.float64()}}, "'l'.*INT to DOUBLE of 'n'"),
    ({"add_columns": [pa.field("m.value.new", pa.string())]}, "'m'.*a change of the function"),
    ({"add_columns": [pa.field("m.value.new", pa.int8())]}, "'m'.*the time field 'new'"),
    ({"move_columns": {"m.value.s": "first"}}, "'m'.*the time field 'n'"),
    ({"drop_columns": ["m.value.s"]}, "'m'.*the time field 'n'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_a_function_goes_by_stays(tables: Tables, change: dict[str, Any], says: str) -> None:
    tables.create()
    with pytest.raises(wt.InvalidError, match=says):
        tables.alter(**change)


def test_a_time_field_that_an_option_names_leaves_the_last_place_free(tables: Tables) -> None:
    tables.create(**{"fields.m.ts-field": "s"})
    table = tables.alter(
        add_columns=[pa.field("m.value.new", pa.int8())], rename_columns={"m.value.s": "t"}
    )
    assert table.schema.options["fields.m.ts-field"] == "t"


DISTINCT = {"fields.l.aggregate-function": "collect", "fields.l.distinct": "true"}


@pytest.fixture
def distinct(tmp_path: Path) -> Tables:
    options = {key: text for key, text in FUNCTIONS.items() if not key.startswith("fields.l.")}
    tables = Tables(tmp_path)
    tables.catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options | DISTINCT)
    return tables


@pytest.mark.parametrize(
    "change",
    [
        {"drop_columns": ["l.element.s"]},
        {"drop_columns": ["l.element.s"], "add_columns": [pa.field("l.element.s", pa.string())]},
        {"change_types": {"l.element.n": pa.float64()}},
        {"change_types": {"l": pa.list_(pa.struct([("id", pa.int32())]))}},
    ],
    ids=str,
)
def test_distinct_elements_stay_apart(distinct: Tables, change: dict[str, Any]) -> None:
    """Else a retraction would find one or two of them, by what was compacted."""
    with pytest.raises(wt.InvalidError, match=r"'l'.*different elements equal"):
        distinct.alter(**change)


@pytest.mark.parametrize("compacts", [False, True])
def test_distinct_elements_gain_fields(distinct: Tables, compacts: bool) -> None:
    distinct.write(l=[row(id=1, n=1, s="a"), row(id=1, n=2, s="a")])
    distinct.alter(
        add_columns=[pa.field("l.element.new", pa.int8())],
        rename_columns={"l.element.id": "n", "l.element.n": "id"},
        change_types={"l.element.n": pa.int64()},
    )
    old = [row(n=1, id=1, s="a", new=None), row(n=1, id=2, s="a", new=None)]
    distinct.write(l=[old[1], row(n=1, id=2, s="a", new=1)])
    assert distinct.row(compacts=compacts)["l"] == [*old, row(n=1, id=2, s="a", new=1)]
