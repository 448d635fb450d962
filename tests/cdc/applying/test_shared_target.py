"""A truncate of one source leaves the rows of others alone, which have another constant in the key of their target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.cdc.applying.test_target import FORM, insert, round_of
from tests.cdc.applying.written_changes import Change
from widetable import Catalog
from widetable_cdc.applying.target import PlainTarget
from widetable_cdc.columns.target_columns import ColumnSection, TargetColumns, target_columns
from widetable_cdc.log.changes import Kind
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.source_type import SourceType
from widetable_cdc.values.wished_type import TypeWishes

COLUMNS = {"shard": "STRING", "id": "BIGINT", "name": "STRING", "big": "STRING"}
TEXT = SourceType(25, "text")
SOURCE = SourceTable(
    1,
    "public",
    "t",
    1,
    "d",
    ("id",),
    (
        SourceColumn("id", 1, SourceType(20, "int8"), is_nullable=False),
        SourceColumn("name", 2, TEXT, is_nullable=True),
        SourceColumn("big", 3, TEXT, is_nullable=True),
    ),
)


def columns(shard: str) -> TargetColumns:
    section = ColumnSection(key=("shard", "id"), computed={"shard": f"'{shard}'"})
    return target_columns(section, SOURCE, TypeWishes(), "shop")


def test_a_truncate_deletes_the_rows_of_its_own_source(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create_table("db.t", COLUMNS, primary_key=["shard", "id"])
    for lsn, (shard, name) in enumerate((("eu", "a"), ("us", "b")), 100):
        target = PlainTarget(catalog.table("db.t"), f"cdc/{shard}")
        made = round_of(catalog, [insert(1, name, lsn=lsn), insert(2, lsn=lsn)], lsn)
        target.apply(replace(made, columns=columns(shard), types=columns(shard).types))
    target = PlainTarget(catalog.table("db.t"), "cdc/eu")
    truncate = Change(FORM, Kind.TRUNCATE, end_lsn=200)
    made = round_of(catalog, [truncate, insert(3, "c", lsn=200)], 200)
    target.apply(replace(made, columns=columns("eu"), types=columns("eu").types))
    rows = target.table.scan(columns=["shard", "id", "name"]).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows if row["name"]) == [
        ("eu", 3, "c"),
        ("us", 1, "b"),
    ]
    assert len(rows) == 3
