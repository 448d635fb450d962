"""Alterations of columns and of fields within them: what they are called, which ids they have, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.operations.ddl.column_path import parsed, printed
from widetable.schema.type_text import text_of
from widetable.schema.types import DataType

COLUMNS = {
    "k": "INT NOT NULL",
    "v": "ROW<a INT, b STRING, deep ROW<x INT>>",
    "l": "ARRAY<ROW<a INT, b STRING>>",
    "m": "MAP<STRING, ROW<a INT, b STRING>>",
    "ints": "ARRAY<INT>",
    "x.y": "INT",
}
ALLOWED = {"alter-column-null-to-not-null.disabled": "false"}


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(str(tmp_path))


def create(catalog: wt.Catalog, **options: str) -> wt.Table:
    return catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)


def texts(catalog: wt.Catalog, **change: Any) -> dict[str, str]:
    """Column -> its type, after the change."""
    fields = catalog.alter_table("db.t", **change).schema.fields
    return {field.name: text_of(field.type) for field in fields}


def ids(kind: DataType, outer: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for field in kind.fields:
        found[outer + field.name] = field.id
        found |= ids(field.type, f"{outer}{field.name}.")
    for name, part in (("element", kind.element), ("value", kind.value)):
        if part is not None:
            found |= ids(part, f"{outer}{name}.")
    return found


def ids_of(table: wt.Table) -> dict[str, int]:
    return ids(DataType("ROW", fields=table.schema.fields))


def field(name: str, kind: pa.DataType | None = None) -> pa.Field:
    return pa.field(name, kind or pa.int64())


# Paths


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`", ("a.b",)),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``.c`", ("a", "b`.c")),
        ("a`b", ("a`b",)),
        ("a b.ü", ("a b", "ü")),
        ("", ("",)),
    ],
)
def test_a_path_is_names_joined_by_dots(text: str, path: tuple[str, ...]) -> None:
    assert parsed(text) == path
    assert parsed(printed(path)) == path


@pytest.mark.parametrize("text", [".", "a..b", "a.", "`a", "`a`b", "a.`b", "a.``"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(wt.InvalidError, match=r"found (a backtick|an empty name)"):
        parsed(text)


# What becomes of the schema


def test_fields_are_added_with_new_ids_at_any_depth(catalog: wt.Catalog) -> None:
    before = create(catalog).schema.highest_field_id
    table = catalog.alter_table(
        "db.t",
        add_columns=[
            field("v.c"),
            field("v.deep.y", pa.struct([("p", pa.int8()), ("q", pa.int8())])),
            field("l.element.c"),
            field("m.value.c"),
            field("top"),
        ],
    )
    found = ids_of(table)
    added = ["v.c", "v.deep.y", "v.deep.y.p", "v.deep.y.q", "l.element.c", "m.value.c", "top"]
    assert [found[name] for name in added] == list(range(before + 1, before + 8))
    assert table.schema.highest_field_id == before + 7


def test_renamed_moved_and_widened_fields_keep_their_ids(catalog: wt.Catalog) -> None:
    before = ids_of(create(catalog))
    table = catalog.alter_table(
        "db.t",
        rename_columns={"v": "w", "v.a": "b", "v.b": "a", "l.element.a": "n"},
        change_types={"m.value.a": pa.int64(), "v.deep.x": pa.int64(), "ints.element": pa.int64()},
        move_columns={"v.deep": "first", "m.value.b": "before a", "l": "after k"},
    )
    types = {each.name: text_of(each.type) for each in table.schema.fields}
    assert list(types) == ["k", "l", "w", "m", "ints", "x.y"]
    assert types["w"] == "ROW<`deep` ROW<`x` BIGINT>, `b` INT, `a` STRING>"
    assert types["l"] == "ARRAY<ROW<`n` INT, `b` STRING>>"
    assert types["m"] == "MAP<STRING NOT NULL, ROW<`b` STRING, `a` BIGINT>>"
    assert types["ints"] == "ARRAY<BIGINT>"
    after = ids_of(table)
    assert (after["w.b"], after["w.a"]) == (before["v.a"], before["v.b"])
    assert after["l.element.n"] == before["l.element.a"]
    assert after["m.value.a"] == before["m.value.a"]
    assert table.schema.highest_field_id == max(before.values())


def test_a_field_that_is_dropped_and_made_again_is_another_one(catalog: wt.Catalog) -> None:
    before = ids_of(create(catalog))
    catalog.alter_table("db.t", drop_columns=["v.a", "m.value.b"])
    again = catalog.alter_table("db.t", add_columns=[field("v.a"), field("m.value.b")])
    found = ids_of(again)
    assert found["v.a"] > max(before.values())
    assert found["m.value.b"] > max(before.values())
    in_one_step = catalog.alter_table("db.t", drop_columns=["v.a"], add_columns=[field("v.a")])
    assert ids_of(in_one_step)["v.a"] > max(found.values())


def test_a_nested_type_keeps_its_fields_by_name(catalog: wt.Catalog) -> None:
    before = ids_of(create(catalog))
    rows = pa.struct([("b", pa.string()), ("new", pa.int8()), ("a", pa.int64())])
    types = {"v": rows, "l": pa.list_(rows), "m": pa.map_(pa.string(), rows)}
    table = catalog.alter_table("db.t", change_types=types)
    after = ids_of(table)
    for outer in ("v", "l.element", "m.value"):
        assert after[f"{outer}.a"] == before[f"{outer}.a"]
        assert after[f"{outer}.b"] == before[f"{outer}.b"]
        assert after[f"{outer}.new"] > max(before.values())
    assert "v.deep" not in after
    fields = "`b` STRING, `new` TINYINT, `a` BIGINT"
    assert text_of(table.schema.field("v").type) == f"ROW<{fields}>"
    assert text_of(table.schema.field("l").type) == f"ARRAY<ROW<{fields}>>"


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("first", "acbd"),
        ("LAST", "cbda"),
        ("after c", "cabd"),
        ("After  `d`", "cbda"),
        ("before b", "cabd"),
        ("before r.d", "cbad"),
    ],
)
def test_a_field_moves_to_its_place(catalog: wt.Catalog, place: str, wanted: str) -> None:
    rows = pa.struct([(name, pa.int8()) for name in "cbad"])
    catalog.create_table("db.t", {"k": "INT", "r": rows}, primary_key=["k"])
    table = catalog.alter_table("db.t", move_columns={"r.a": place})
    assert "".join(each.name for each in table.schema.field("r").type.fields) == wanted


def test_columns_are_added_at_a_place(catalog: wt.Catalog) -> None:
    create(catalog)
    table = catalog.alter_table(
        "db.t",
        add_columns=[field("first"), field("second"), field("v.z")],
        move_columns={"first": "first", "second": "after first", "v.z": "before deep", "k": "last"},
        drop_columns=["l", "m", "ints"],
    )
    assert table.schema.names == ("first", "second", "v", "x.y", "k")
    assert [each.name for each in table.schema.field("v").type.fields] == ["a", "b", "z", "deep"]


def test_comments_come_and_go(catalog: wt.Catalog) -> None:
    create(catalog)
    table = catalog.alter_table(
        "db.t",
        add_columns=[field("v.c")],
        change_comments={"k": "the key", "v.c": "new", "v.a": "old", "l.element.a": "in a list"},
    )
    rows = {each.name: each for each in table.schema.field("v").type.fields}
    assert (rows["a"].description, rows["c"].description) == ("old", "new")
    assert table.schema.field("k").description == "the key"
    table = catalog.alter_table("db.t", change_comments={"v.a": None})
    rows = {each.name: each for each in table.schema.field("v").type.fields}
    assert (rows["a"].description, rows["c"].description) == (None, "new")


def test_names_with_dots_stand_in_backticks_where_they_could_be_paths(catalog: wt.Catalog) -> None:
    create(catalog)
    types = texts(
        catalog, add_columns=[field("`v.a`"), field("v.`p.q`")], rename_columns={"x.y": "x.z"}
    )
    assert types["v.a"] == "BIGINT"
    assert types["x.z"] == "INT"
    assert types["v"].endswith("`p.q` BIGINT>")
    # A whole name is a column; the field is the path that is no name.
    types = texts(catalog, drop_columns=["v.a"], rename_columns={"`v`.a": "old", "v.`p.q`": "p"})
    assert "v.a" not in types
    assert types["v"].startswith("ROW<`old` INT")
    assert types["v"].endswith("`p` BIGINT>")


def test_nullability_changes_where_it_is_allowed(catalog: wt.Catalog) -> None:
    create(catalog, **ALLOWED)
    to_not_null = dict.fromkeys(["v", "v.a", "l.element", "m.value.b", "x.y"], False)
    types = texts(catalog, change_nullability={**to_not_null, "k": False})
    assert types["v"].startswith("ROW<`a` INT NOT NULL, `b` STRING,")
    assert types["v"].endswith(" NOT NULL")
    assert types["l"] == "ARRAY<ROW<`a` INT, `b` STRING> NOT NULL>"
    assert types["m"].endswith("`b` STRING NOT NULL>>")
    assert types["x.y"] == "INT NOT NULL"
    assert types["k"] == "INT NOT NULL"
    catalog.alter_table("db.t", remove_options=list(ALLOWED))
    back = texts(catalog, change_nullability=dict.fromkeys(to_not_null, True))
    assert not any(text.count("NOT NULL") for name, text in back.items() if name not in "km")


def test_a_wider_type_keeps_a_column_not_null(catalog: wt.Catalog) -> None:
    create(catalog, **ALLOWED)
    catalog.alter_table("db.t", change_nullability={"x.y": False})
    assert texts(catalog, change_types={"x.y": pa.int64()})["x.y"] == "BIGINT NOT NULL"


def test_a_type_given_as_text_keeps_its_length_and_its_nullability(
    tmp_path: Path, catalog: wt.Catalog
) -> None:
    columns = {"k": "INT", "a": "VARCHAR(3)", "b": "VARCHAR(3) NOT NULL", "l": "ARRAY<BINARY(2)>"}
    table = catalog.create_table(
        "db.t", {**columns, "r": "ROW<x VARCHAR(3), y INT>"}, primary_key=["k"], options=ALLOWED
    )
    row = {"k": 1, "a": "abc", "b": "abc", "l": [b"ab"], "r": {"x": "abc", "y": 1}}
    table.write([row])
    wider = {"a": "VARCHAR(4)", "b": "VARCHAR(5)", "l.element": "VARBINARY(6)"}
    types = texts(catalog, change_types={**wider, "r": "ROW<x VARCHAR(7), y BIGINT>"})
    assert types == {
        "k": "INT NOT NULL",
        "a": "VARCHAR(4)",
        "b": "VARCHAR(5) NOT NULL",
        "l": "ARRAY<VARBINARY(6)>",
        "r": "ROW<`x` VARCHAR(7), `y` BIGINT>",
    }
    assert texts(catalog, change_types={"a": "VARCHAR(8) NOT NULL"})["a"] == "VARCHAR(8) NOT NULL"
    table = catalog.table("db.t")
    assert table.scan().to_arrow().to_pylist() == [row]
    with pytest.raises(wt.InvalidError, match=r"'b'.*6 characters.*VARCHAR"):
        table.write([{**row, "b": "abcdef"}])
    with pytest.raises(wt.InvalidError, match="'a'"):
        table.write([{**row, "a": None}])


# What is refused


REFUSED: list[tuple[dict[str, Any], type[wt.WidetableError], str]] = [
    ({"drop_columns": ["v.zz"]}, wt.NotFoundError, "'v.zz'.*one of a, b, deep"),
    ({"rename_columns": {"q.a": "b"}}, wt.NotFoundError, "'q'.*no such column"),
    ({"add_columns": [field("q.a")]}, wt.NotFoundError, "'q'.*backticks"),
    ({"drop_columns": ["l.a"]}, wt.InvalidError, "path through 'l.element'"),
    ({"drop_columns": ["m.key.a"]}, wt.InvalidError, "path through 'm.value'"),
    ({"add_columns": [field("l.c")]}, wt.InvalidError, "a ROW, such as 'l.element'"),
    ({"add_columns": [field("k.c")]}, wt.InvalidError, "'k' of the type INT"),
    ({"add_columns": [field("v.a")]}, wt.InvalidError, "'v'.*'a' twice"),
    ({"add_columns": [pa.field("v.c", pa.int8(), False)]}, wt.InvalidError, "'v.c'.*NOT NULL"),
    ({"rename_columns": {"v.a": "b"}}, wt.InvalidError, "'v'.*'b' twice"),
    ({"rename_columns": {"v.a": "v.c"}}, wt.InvalidError, "'v.a'.*one name"),
    ({"rename_columns": {"l.element": "e"}}, wt.InvalidError, "the element of 'l'"),
    ({"change_comments": {"m.value": "e"}}, wt.InvalidError, "the value of 'm'"),
    ({"drop_columns": ["v.deep.x"]}, wt.InvalidError, "'v.deep'.*no field"),
    ({"drop_columns": ["v"], "rename_columns": {"v.a": "c"}}, wt.InvalidError, "'v'.*a drop and"),
    ({"drop_columns": ["v", "v.a"]}, wt.InvalidError, "'v'.*a drop and"),
    ({"drop_columns": ["v.a"], "change_types": {"v.a": pa.int64()}}, wt.InvalidError, "a drop and"),
    ({"drop_columns": ["v.a", "v.`a`"]}, wt.InvalidError, "'v.a' twice"),
    (
        {"change_types": {"v": pa.struct([("a", pa.int32())])}, "rename_columns": {"v.a": "c"}},
        wt.InvalidError,
        "'v'.*another type",
    ),
    ({"change_types": {"v.a": "TINYINT"}}, wt.UnsupportedError, "'v.a'.*INT.*TINYINT"),
    ({"change_types": {"v.b": "VARCHAR(9)"}}, wt.UnsupportedError, "'v.b'.*STRING.*VARCHAR"),
    ({"change_types": {"x.y": "BIGINT NOT NULL"}}, wt.InvalidError, "x.y.*to NOT NULL"),
    ({"change_types": {"x.y": "NO_TYPE"}}, wt.InvalidError, "'NO_TYPE'"),
    ({"change_types": {"x.y": "BIGINT NULL"}}, wt.InvalidError, "x.y.*'BIGINT NULL'"),
    ({"change_types": {"x.y": "int64 null "}}, wt.InvalidError, "x.y.*'int64 null '"),
    (
        {"change_types": {"x.y": "BIGINT NOT NULL"}, "change_nullability": {"x.y": True}},
        wt.InvalidError,
        "x.y.*NOT NULL type and a change to nullable",
    ),
    ({"change_types": {"x.y": 1}}, wt.InvalidError, "change_types"),
    ({"change_types": {"v.a": pa.int8()}}, wt.UnsupportedError, "'v.a'.*INT.*TINYINT"),
    ({"change_types": {"ints.element": pa.int8()}}, wt.UnsupportedError, "'ints.element'"),
    ({"change_types": {"v": pa.int32()}}, wt.InvalidError, "'v'.*nested type of the same kind"),
    ({"change_types": {"v": pa.list_(pa.int32())}}, wt.InvalidError, "'v'.*same kind"),
    ({"change_types": {"v": pa.struct([pa.field("n", pa.int8(), False)])}}, wt.InvalidError, "v.n"),
    ({"change_types": {"m": pa.map_(pa.int32(), pa.int32())}}, wt.InvalidError, "'m'.*different key types"),
    ({"change_nullability": {"v.a": False}}, wt.InvalidError, "alter-column-null-to-not-null"),
    ({"change_nullability": {"x.y": False}}, wt.InvalidError, "alter-column-null-to-not-null"),
    (
        {"change_types": {"l": pa.list_(pa.field("e", pa.struct([("a", pa.int32())]), False))}},
        wt.InvalidError,
        "'l.element'.*NOT NULL",
    ),
    ({"change_nullability": {"k": True}}, wt.InvalidError, "'k'.*key column"),
    ({"move_columns": {"v.a": "up"}}, wt.InvalidError, "place of column 'v.a'.*'up'"),
    ({"move_columns": {"v.a": "after a"}}, wt.InvalidError, "'v.a'.*itself"),
    ({"move_columns": {"v.a": "after k"}}, wt.NotFoundError, "no 'k' beside it"),
    ({"move_columns": {"v.a": "after l.b"}}, wt.InvalidError, "lies elsewhere"),
    ({"move_columns": {"zz": "first"}}, wt.NotFoundError, "'zz'"),
    (
        {"rename_columns": {"x.y": "z"}, "add_columns": [field("`x.y`")], "move_columns": {"x.y": "first"}},
        wt.InvalidError,
        "'`x.y`'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error", "says"), REFUSED, ids=[str(i) for i in range(len(REFUSED))]
)
def test_a_change_that_cannot_be_is_refused_by_name(
    catalog: wt.Catalog, change: dict[str, Any], error: type[wt.WidetableError], says: str
) -> None:
    table = create(catalog)
    with pytest.raises(error, match=says):
        catalog.alter_table("db.t", **change)
    assert table.schema.id == 0


def test_fields_whose_ids_another_client_gave_twice_stay(catalog: wt.Catalog) -> None:
    """Nobody would know which one values of before are of."""
    path = Path(create(catalog).path, "schema/schema-0")
    schema = json.loads(path.read_bytes())
    for each in schema["fields"][1]["type"]["fields"]:
        each["id"] = 0
    path.write_text(json.dumps(schema))
    with pytest.raises(wt.UnsupportedError, match=r"column 'v'.*duplicate ids"):
        catalog.alter_table("db.t", rename_columns={"v.a": "c"})
    assert texts(catalog, rename_columns={"l.element.a": "c"})["l"].startswith("ARRAY<ROW<`c`")


def test_nulls_are_refused_from_not_null_on_and_back(catalog: wt.Catalog) -> None:
    catalog.create_table(
        "db.t", {"k": "INT", "v": "ROW<a INT>", "n": "INT"}, primary_key=["k"], options=ALLOWED
    )
    table = catalog.table("db.t")
    table.write([{"k": 1, "v": {"a": 1}, "n": 1}, {"k": 2, "v": None, "n": 2}])
    table = catalog.alter_table("db.t", change_nullability={"v.a": False, "n": False})
    rows = table.scan().to_arrow().to_pylist()
    assert rows == [{"k": 1, "v": {"a": 1}, "n": 1}, {"k": 2, "v": None, "n": 2}]
    for row in ({"k": 3, "v": {"a": None}, "n": 3}, {"k": 3, "v": {"a": 1}, "n": None}, {"k": 3}):
        with pytest.raises(wt.InvalidError, match=r"NOT NULL|'n'"):
            table.write([row])
    catalog.alter_table("db.t", change_nullability={"v.a": True, "n": True})
    table.write([{"k": 3, "v": {"a": None}, "n": None}])
    table = catalog.alter_table("db.t", change_nullability={"n": False})
    with pytest.raises(wt.UnsupportedError, match=r"'n' of .*became NOT NULL"):
        table.scan().to_arrow()
    assert table.scan(["k", "v"]).to_arrow().num_rows == 3
    table = catalog.alter_table("db.t", change_nullability={"n": True})
    assert table.scan(["n"]).to_arrow().column("n").to_pylist() == [1, 2, None]


def test_all_fields_are_renamed_in_one_step(catalog: wt.Catalog) -> None:
    before = ids_of(create(catalog))
    new = {path: f"n{at}" for at, path in enumerate(before) if path not in ("k", "x.y")}
    after = ids_of(catalog.alter_table("db.t", rename_columns=new))
    wanted = {before[path]: name for path, name in new.items()}
    found = {field_id: path.rpartition(".")[2] for path, field_id in after.items()}
    assert {field_id: found[field_id] for field_id in wanted} == wanted
