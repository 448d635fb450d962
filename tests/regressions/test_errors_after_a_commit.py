"""A commit was once reported as failed when, after it, the schema could not be read to compact what it touched."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.support.faults.faults import READS, Fault, FaultyFileIO
from widetable.storage.local import LocalFileIO


def test_a_storage_that_reads_nothing_after_the_commit_does_not_fail_it(tmp_path: Path) -> None:
    path = (
        wt.Catalog(str(tmp_path))
        .create_table("db.t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), primary_key=["k"])
        .path
    )
    file_io = FaultyFileIO(LocalFileIO(fsync=False))
    table = wt.Table.open(path, file_io=file_io)

    def break_down() -> None:
        for operation in READS:
            file_io.fail(operation, Fault.BEFORE, times=1000)

    # The last thing that the commit itself does.
    file_io.run_before("replace", break_down, "LATEST")
    assert table.write(pa.table({"k": [1], "v": [1]})).committed
    file_io.heal()
    assert table.scan().to_arrow().num_rows == 1
