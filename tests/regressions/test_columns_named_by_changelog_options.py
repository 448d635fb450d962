"""A column that `changelog-producer.row-deduplicate-ignore-fields` named could be renamed or dropped, and a producer's
table given a `sequence.field`: the alter went through, and no write after it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

IGNORE_FIELDS = "changelog-producer.row-deduplicate-ignore-fields"


def a_table(path: Path, engine: str) -> wt.Table:
    return wt.Catalog(str(path)).create_table(
        "db.t",
        pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]),
        primary_key=["k"],
        options={
            "merge-engine": engine,
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
            IGNORE_FIELDS: "a",
        },
    )


def test_ignored_fields_follow_a_rename(tmp_path: Path) -> None:
    a_table(tmp_path, "deduplicate")
    table = wt.Catalog(str(tmp_path)).alter_table("db.t", rename_columns={"a": "A"})
    assert table.schema.options[IGNORE_FIELDS] == "A"
    table.check_write_columns(table.arrow_schema)


def test_an_ignored_field_is_not_dropped(tmp_path: Path) -> None:
    table = a_table(tmp_path, "deduplicate")
    with pytest.raises(wt.InvalidError, match="'a', which is not a column"):
        wt.Catalog(str(tmp_path)).alter_table("db.t", drop_columns=["a"])
    table.check_write_columns(table.arrow_schema)


def test_a_sequence_field_does_not_come_to_a_changelog_that_cannot_have_it(tmp_path: Path) -> None:
    table = a_table(tmp_path, "partial-update")
    with pytest.raises(wt.UnsupportedError, match=r"sequence\.field"):
        wt.Catalog(str(tmp_path)).alter_table("db.t", set_options={"sequence.field": "b"})
    table.check_write_columns(table.arrow_schema)
