"""Types as texts: what is read, in any case and depth, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.schema.type_text import text_of, type_from_text
from widetable.schema.types import MAX_NESTED, arrow_type, parse_type
from widetable.schema.types_from_arrow import type_from_arrow

NESTED = [
    ("array<string>", pa.list_(pa.string())),
    ("ARRAY< ARRAY<INT NOT NULL> >", pa.list_(pa.list_(pa.int32()))),
    ("Map<Int, Decimal(10, 2)>", pa.map_(pa.int32(), pa.decimal128(10, 2))),
    ("ROW<Aa INT, `b c` STRING NOT NULL>", pa.struct({"Aa": pa.int32(), "b c": pa.string()})),
    (
        "STRUCT<a: BIGINT, b: ROW<c DATE>>",
        pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.date32()})}),
    ),
    ("timestamp(3)  with local  time zone", pa.timestamp("ms", "UTC")),
]


@pytest.mark.parametrize(("text", "kind"), NESTED, ids=[text for text, _ in NESTED])
def test_texts_of_types_are_read(text: str, kind: pa.DataType) -> None:
    found = arrow_type(type_from_text(text))
    assert _plain(found) == _plain(kind)
    assert type_from_text(text).nullable
    assert not type_from_text(f"{text} not null").nullable
    for each in (text, f"{text} not null"):
        assert type_from_text(text_of(type_from_text(each))) == type_from_text(each)


def _plain(kind: pa.DataType) -> str:
    return str(kind).replace(" not null", "").replace("element", "item")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NO",
        "ARRAY",
        "ARRAY<>",
        "ARRAY<INT",
        "ARRAY<INT, INT>",
        "MAP<INT>",
        "ROW<a>",
        "ROW<>",
        "ROW<a INT, a INT>",
        "STRUCT<a: INT, `a`: STRING>",
        "ARRAY<ROW<a INT, b INT, a INT>>",
        "INT<INT>",
        "INT(3)",
        "INT NOT NULL NULL",
        "INT NULL NOT NULL",
        "INT WITH LOCAL TIME ZONE",
        "STRING WITHOUT TIME ZONE",
        "DATE WITHOUT TIME ZONE",
        "TIME WITH TIME ZONE",
        "TIME(3) WITH LOCAL TIME ZONE",
        "TIMESTAMP WITH TIME ZONE",
        "TIMESTAMP(3) WITHOUT LOCAL TIME ZONE",
        "TIMESTAMP_LTZ(3) WITHOUT TIME ZONE",
        "TIMESTAMP_LTZ WITH LOCAL TIME ZONE",
    ],
)
def test_texts_that_are_no_types_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match="type"):
        type_from_text(text)
    with pytest.raises(wt.InvalidError, match="type"):
        wt.Catalog(tmp_path).create_table("db.t", {"k": "INT", "v": text}, primary_key=["k"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("TIMESTAMP WITHOUT TIME ZONE", "TIMESTAMP(6)"),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        ),
        ("TIMESTAMP_LTZ(9) NULL", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        ("TIME WITHOUT TIME ZONE", "TIME(0)"),
        ("TIME(3) WITHOUT TIME ZONE NULL", "TIME(3)"),
        ("INT NULL", "INT"),
    ],
)
def test_zones_and_nulls_stand_where_paimon_has_them(text: str, kind: str) -> None:
    assert str(type_from_text(text)) == str(parse_type(text)) == kind
    assert parse_type(kind) == type_from_text(text)


@pytest.mark.parametrize("root", ["ARRAY", "MULTISET", "MAP", "ROW"])
def test_behind_a_nested_root_of_a_schema_file_stands_whether_it_is_nullable(root: str) -> None:
    """A damaged word would make a column nullable that is not."""
    parts = {"element": "INT", "key": "INT", "value": "INT", "fields": []}
    found = {
        behind: parse_type({"type": root + behind, **parts}).nullable
        for behind in ("", " NOT NULL")
    }
    assert list(found.values()) == [True, False]
    for behind in (" NOT", " NOT NULX", " NOT NULL NULL", "<INT>", " INT"):
        with pytest.raises(wt.InvalidError, match=root):
            parse_type({"type": root + behind, **parts})


@pytest.mark.parametrize("outer", ["ARRAY<{}>", "MULTISET<{}>", "MAP<INT, {}>", "ROW<a {}>"])
def test_texts_are_read_as_deep_as_arrow_types_and_no_deeper(outer: str, tmp_path: Path) -> None:
    text, kind = "INT", pa.int32()
    for _ in range(MAX_NESTED):
        text, kind = outer.format(text), pa.list_(kind)
    found = type_from_text(text)
    assert type_from_text(text_of(found)) == found
    assert type_from_arrow(arrow_type(found)).root == found.root.replace("MULTISET", "MAP")
    for deeper in (outer.format(text), outer.format(outer.format(text)), pa.list_(kind)):
        with pytest.raises(wt.UnsupportedError, match="32 nested types"):
            wt.Catalog(tmp_path).create_table("db.t", {"k": "INT", "v": deeper}, primary_key=["k"])


# What both Arrow and SQL know; in another case, the same.
ALIASES = ["bool", "INT8", "int32", "Float", "DOUBLE", "string", "BINARY", "date32", "time32[ms]"]


@pytest.mark.parametrize("alias", [*ALIASES, "timestamp[us]", "large_string"])
def test_a_name_of_arrow_is_the_same_type_with_and_without_not_null(
    alias: str, tmp_path: Path
) -> None:
    texts = {
        "a": alias,
        "b": f" {alias}  null ",
        "c": f"{alias} NOT NULL",
        "d": f"{alias} not\tnull",
    }
    columns = {"k": "INT", **texts}
    made = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    kind = type_from_arrow(pa.type_for_alias(alias))
    found = [field.type for field in made.schema.fields[1:]]
    assert found == [kind, kind, kind.not_null(), kind.not_null()]


def test_a_length_makes_bytes_those_of_sql(tmp_path: Path) -> None:
    columns = {"k": "INT", "a": "BINARY(3) NOT NULL", "b": "VARBINARY", "c": "ARRAY<BINARY>"}
    made = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    kinds = [text_of(field.type) for field in made.schema.fields[1:]]
    assert kinds == ["BINARY(3) NOT NULL", "VARBINARY(1)", "ARRAY<BINARY(1)>"]


def test_lengths_and_nulls_of_texts_are_kept_in_the_table(tmp_path: Path) -> None:
    columns = {"k": "int32", "a": "CHAR(3) NOT NULL", "m": "MAP<STRING, ROW<x INT NOT NULL>>"}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    kinds = [str(field.type) for field in table.schema.fields]
    assert kinds[:2] == ["INT NOT NULL", "CHAR(3) NOT NULL"]
    value = table.schema.field("m").type.value
    assert value is not None
    assert [field.type.nullable for field in value.fields] == [False]
    with pytest.raises(wt.InvalidError, match="VARCHAR"):
        wt.Catalog(tmp_path).alter_table("db.t", add_columns={"v": "VARCHAR(x)"})
