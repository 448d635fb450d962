"""A late record that was compacted without the row that wins lay above it, and was taken for the row before."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.int64()), ("filling", pa.binary())])
OPTIONS = {
    "sequence.field": "s",
    "write-only": "true",
    "num-sorted-run.compaction-trigger": "2",
    "num-levels": "6",
    "compaction.max-size-amplification-percent": "1000000",
    "widetable.fsync": "false",
}


@pytest.mark.parametrize("strategy", ["scan", "lookup"])
@pytest.mark.parametrize("late_kind", ["+I", "-D"])
def test_the_row_before_is_the_one_that_wins(tmp_path: Path, strategy: str, late_kind: str) -> None:
    options = OPTIONS | {"widetable.lookup-strategy": strategy}
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)

    def write(k: int, s: int, filling: bytes = b"", kind: str = "+I") -> None:
        table.write(pa.table({"k": [k], "s": [s], "filling": [filling], "_row_kind": [kind]}))

    write(1, 5, os.urandom(30_000))
    table.compact(full=True)
    write(1, 3, kind=late_kind)
    write(2, 1)
    table.compact()
    levels = {file.level for split in table.scan().splits() for file in split.files}
    assert len(levels) == 2, levels
    lookup = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "50"}
    catalog.alter_table("db.t", set_options=lookup)
    start = table.snapshots()[-1].id
    write(1, 4)
    table.compact()
    emitted = table.changes(start, table.snapshots()[-1].id).to_pylist()
    assert [(row["_row_kind"], row["k"], row["s"]) for row in emitted] == [
        ("-U", 1, 5),
        ("+U", 1, 5),
    ]
    rows = table.scan().to_arrow().to_pylist()
    assert [(row["k"], row["s"]) for row in rows] == [(1, 5), (2, 1)]
