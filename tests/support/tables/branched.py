"""Small tables with branches, and what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt

OPTIONS = {
    "widetable.fsync": "false",
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "3",
}
Rows = dict[int, str | None]


def create(folder: Path, **options: str) -> wt.Table:
    return wt.Catalog(folder).create_table(
        "db.t",
        {"k": "BIGINT", "v": "STRING"},
        primary_key=["k"],
        options={**OPTIONS, **options},
    )


def put(table: wt.Table, rows: Rows) -> None:
    table.write(pa.table({"k": pa.array(rows, pa.int64()), "v": list(rows.values())}))


def rows_of(table: wt.Table, **choice: Any) -> Rows:
    found = table.scan(**choice).to_arrow().select(["k", "v"]).to_pylist()
    return {row["k"]: row["v"] for row in found}


def opened(table: wt.Table, branch: str) -> wt.Table:
    return wt.Table.open(table.path, branch=branch)


def expire_all(table: wt.Table) -> wt.ExpiryResult:
    return table.expire_snapshots(1, 1, 0)
