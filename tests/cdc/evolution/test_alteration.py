"""Schemas of targets after actions, on real tables, and after actions that are repeated as behind a crash."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from widetable import Catalog, Table
from widetable_cdc.evolution.actions import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaAction,
    WidenType,
)
from widetable_cdc.evolution.alteration import alter_target, field_ids, filled_rows
from widetable_cdc.evolution.widening import is_wider
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

INT4, INT8, TEXT = SourceType(23, "int4"), SourceType(20, "int8"), SourceType(25, "text")
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING", "count": "INT"}
ATTNUMS = {1: "id", 2: "name", 3: "count"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path)
    options = {"changelog-producer": "lookup", "widetable.barrier-interval": "1 ms"}
    table = catalog.create_table("db.t", COLUMNS, primary_key=["id"], options=options)
    catalog.writer("db.t", "cdc/shop").write(
        [{"id": 1, "name": "a", "count": 5}, {"id": 2, "name": "b", "count": 6}], barrier=1
    )
    assert table.scan().to_arrow().num_rows == 2
    return catalog


def target_of(_column: str, kind: SourceType) -> str:
    return column_type(kind).target


def altered(
    catalog: Catalog,
    *actions: SchemaAction,
    drops: bool = False,
    fields: dict[int, int] | None = None,
) -> tuple[Table, dict[int, int]]:
    """The actions twice: the second time finds nothing to do."""
    before = fields or field_ids(catalog.table("db.t"), ATTNUMS)
    alter_target(catalog, "db.t", actions, before, target_of, drops=drops)
    schema = catalog.table("db.t").schema
    again = alter_target(catalog, "db.t", actions, before, target_of, drops=drops)
    fields_of = [(each.id, each.name, each.type) for each in schema.fields]
    assert [(each.id, each.name, each.type) for each in again[0].schema.fields] == fields_of
    return again


def shown(table: Table) -> list[tuple[int, str]]:
    return [(each.id, each.name) for each in table.schema.fields]


def rows(table: Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_a_rename_keeps_the_field_and_its_values(catalog: Catalog) -> None:
    table, fields = altered(catalog, RenameColumn(2, "name", "label"))
    assert shown(table) == [(0, "id"), (1, "label"), (2, "count")]
    assert fields == {1: 0, 2: 1, 3: 2}
    assert rows(table)[0] == {"id": 1, "label": "a", "count": 5}


def test_two_swapped_names_are_not_swapped_back(catalog: Catalog) -> None:
    table, _ = altered(catalog, RenameColumn(2, "name", "count"), RenameColumn(3, "count", "name"))
    assert shown(table) == [(0, "id"), (1, "count"), (2, "name")]
    assert rows(table)[0] == {"id": 1, "count": "a", "name": 5}


def test_a_dropped_column_stays_unless_it_is_wished_gone(catalog: Catalog) -> None:
    table, _ = altered(catalog, DropColumn(2, "name"))
    assert shown(table) == [(0, "id"), (1, "name"), (2, "count")]
    table, fields = altered(catalog, DropColumn(2, "name"), drops=True)
    assert shown(table) == [(0, "id"), (2, "count")]
    assert fields == {1: 0, 2: 1, 3: 2}, "its number is remembered"


def test_a_name_that_is_used_again_is_a_new_field(catalog: Catalog) -> None:
    """Case 9: dropped and added in one transaction."""
    table, fields = altered(catalog, DropColumn(2, "name"), AddColumn(4, "name", INT4))
    assert shown(table) == [(0, "id"), (2, "count"), (3, "name")]
    assert fields == {1: 0, 2: 1, 3: 2, 4: 3}
    assert rows(table)[0] == {"id": 1, "count": 5, "name": None}


def test_a_name_of_a_column_that_stayed_is_taken_later(catalog: Catalog) -> None:
    _, fields = altered(catalog, DropColumn(2, "name"))
    table, _ = altered(catalog, RenameColumn(3, "count", "name"), fields=fields)
    assert shown(table) == [(0, "id"), (2, "name")]
    assert rows(table)[0] == {"id": 1, "name": 5}


def test_a_renamed_column_leaves_its_name_to_a_new_one(catalog: Catalog) -> None:
    table, _ = altered(catalog, RenameColumn(2, "name", "label"), AddColumn(4, "name", INT4))
    assert shown(table) == [(0, "id"), (1, "label"), (2, "count"), (3, "name")]
    assert rows(table)[0] == {"id": 1, "label": "a", "count": 5, "name": None}


def test_a_type_is_widened_under_its_new_name(catalog: Catalog) -> None:
    table, _ = altered(catalog, RenameColumn(3, "count", "total"), WidenType(3, "total", INT8))
    assert table.arrow_schema.field("total").type == pa.int64()
    assert rows(table)[1] == {"id": 2, "name": "b", "total": 6}


def test_old_rows_get_the_value_of_a_new_column_once(catalog: Catalog) -> None:
    """Case 6: each row is changed, and a repeat finds none."""
    table, _ = altered(catalog, AddColumn(4, "extra", INT4, "7"), AddColumn(5, "more", TEXT))
    writer = catalog.writer("db.t", "cdc/shop")
    fills = {"extra": column_type(INT4).from_texts(pa.array(["7"], pa.large_string())).values}
    writer.complete(10)
    result = writer.write(filled_rows(table, fills), barrier=20, complete=True)
    assert result.rows == 2
    expected = {"name": "a", "count": 5, "extra": 7, "more": None}
    assert rows(table)[0] == {"id": 1, **expected}
    table.wait_for_compactions()
    changes = table.changes(10, 20, mode="barrier").to_pylist()
    assert sorted((row["_row_kind"], row["id"]) for row in changes) == [
        ("+U", 1),
        ("+U", 2),
        ("-U", 1),
        ("-U", 2),
    ]
    assert list(filled_rows(table, fills)) == []
    assert list(filled_rows(table, {})) == []


def test_a_group_is_filled_with_its_own_columns(tmp_path: Path) -> None:
    columns = {"id": "BIGINT NOT NULL", "a": "INT", "extra": "INT", "lsn": "BIGINT", "b": "INT"}
    options = {"merge-engine": "partial-update", "fields.lsn.sequence-group": "a,extra"}
    table = Catalog(tmp_path).create_table("db.w", columns, primary_key=["id"], options=options)
    table.write(
        [{"id": 1, "a": 1, "extra": None, "lsn": 5}, {"id": 2, "a": 2, "extra": 3, "lsn": 6}]
    )
    fills = {"extra": pa.array([7])}
    table.write(filled_rows(table, fills, ["id", "a", "extra", "lsn"]))
    table.write([{"id": 1, "b": 1}])
    assert rows(table) == [
        {"id": 1, "a": 1, "extra": 7, "lsn": 5, "b": 1},
        {"id": 2, "a": 2, "extra": 3, "lsn": 6, "b": None},
    ]


WIDENINGS: Sequence[tuple[str, str, object]] = [
    ("SMALLINT", "INT", 7),
    ("SMALLINT", "BIGINT", 7),
    ("INT", "BIGINT", 7),
    ("FLOAT", "DOUBLE", 0.5),
    ("DECIMAL(10, 2)", "DECIMAL(12, 2)", Decimal("1.50")),
    ("DECIMAL(10, 2)", "DECIMAL(14, 4)", Decimal("1.50")),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", datetime(2026, 1, 2, 3, 4, 5)),
    ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", datetime(2026, 1, 2, tzinfo=timezone.utc)),
    ("TIME(0)", "TIME(3)", time(3, 4, 5)),
    ("ARRAY<INT>", "ARRAY<BIGINT>", [1, None]),
]


@pytest.mark.parametrize(("old", "new", "value"), WIDENINGS)
def test_each_widening_is_one_that_the_engine_makes(
    tmp_path: Path, old: str, new: str, value: object
) -> None:
    """Old rows are read with the new type, and have their values."""
    assert is_wider(old, new)
    assert not is_wider(new, old)
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", {"id": "BIGINT NOT NULL", "v": old}, primary_key=["id"])
    array = pa.array([value], table.arrow_schema.field("v").type)
    table.write(pa.table({"id": [1], "v": array}))
    table = catalog.alter_table("db.t", change_types={"v": new})
    read = table.scan().to_arrow()["v"]
    assert read.type == table.arrow_schema.field("v").type
    assert read.to_pylist() == [value]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("INT", "DOUBLE"),
        ("INT", "STRING"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 1)"),
        ("DECIMAL(10, 2)", "STRING"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
        ("DATE", "TIMESTAMP(3)"),
        ("ARRAY<INT>", "ARRAY<STRING>"),
        ("ARRAY<INT>", "STRING"),
        ("STRING", "BYTES"),
    ],
)
def test_types_whose_values_print_or_round_in_another_way_are_not_wider(old: str, new: str) -> None:
    assert not is_wider(old, new)
