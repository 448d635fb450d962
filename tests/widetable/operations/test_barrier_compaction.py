"""Compactions of tables under barriers behind the commits that complete them."""

from __future__ import annotations

import threading
from pathlib import Path

import widetable as wt
from tests.barrier_tables import NAME, new_table, rows_of
from tests.faults import FaultyFileIO
from widetable.storage.local import LocalFileIO

APPENDS = 6


def levels(table: wt.Table) -> list[int]:
    return sorted(row["level"] for row in table.inspect.files().to_pylist())


def test_a_commit_does_not_wait_for_the_files_of_a_whole_barrier(tmp_path: Path) -> None:
    new_table(tmp_path, widetable__inline_compaction_size="0 b")
    go_on, files = threading.Event(), FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=files)
    table, writer = catalog.table(NAME), catalog.writer(NAME, "w")
    # The first file that a compaction writes comes behind those of the appends.
    files.run_before("open_output", lambda: go_on.wait(60), "/bucket-0/data-", skip=APPENDS)
    for at in range(APPENDS):
        is_last = at == APPENDS - 1
        writer.write({"id": [at], "a": [at]}, barrier=10, complete=is_last)
    assert levels(table) == [0] * APPENDS, "the commit waited"
    go_on.set()
    table.wait_for_compactions()
    assert 0 not in levels(table)
    assert rows_of(table.scan(barrier=10)) == [(at, at, None, None) for at in range(APPENDS)]


def test_little_is_compacted_before_the_commit_returns(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    writer = wt.Catalog(tmp_path).writer(NAME, "w")
    for at in range(APPENDS):
        writer.write({"id": [at]}, barrier=10, complete=at == APPENDS - 1)
    assert 0 not in levels(table)
