"""A table of one key and one column whose changelog comes by lookup, and what tests ask of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import widetable as wt

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("a", pa.int64())])
LOOKUP = {
    "widetable.fsync": "false",
    "changelog-producer": "lookup",
    "merge-engine": "partial-update",
}


def make(path: Path, **options: str) -> wt.Table:
    catalog = wt.Catalog(str(path))
    return catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=LOOKUP | options)


def rows(*keys: int, a: int = 1) -> pa.Table:
    return pa.table({"k": list(keys), "a": [a] * len(keys)})


def kinds(table: wt.Table, start: int = 0) -> list[str]:
    end = table.snapshots()[-1].id
    return list(table.changes(start, end)["_row_kind"].to_pylist())


def level0_files(table: wt.Table) -> int:
    splits = table.scan().splits()
    return sum(file.level == 0 for split in splits for file in split.files)
