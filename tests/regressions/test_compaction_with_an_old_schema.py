"""A compaction that began before a column was added once wrote that column's newer rows without it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from widetable.storage.local import LocalFileIO


def test_a_compaction_keeps_columns_that_it_does_not_know(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.t",
        pa.schema([("k", pa.int64()), ("v", pa.int64())]),
        primary_key=["k"],
        options={"merge-engine": "partial-update", "write-only": "true"},
    )
    table.write(pa.table({"k": [1], "v": [1]}))

    def add_and_write() -> None:
        catalog.alter_table("db.t", add_columns=[pa.field("new", pa.int64())])
        table.write(pa.table({"k": [1], "new": [7]}))

    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    file_io.run_before("publish", add_and_write, "lease")
    wt.Table.open(table.path, file_io=file_io).compact(full=True)
    assert file_io.count("publish", "lease") == 1
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1, "new": 7}]
    assert table.compact(full=True).committed
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1, "new": 7}]
