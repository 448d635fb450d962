"""Compactions of tables under barriers behind the commits that complete them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.support.tables.barrier_tables import NAME, new_table, rows_of
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


def test_changes_of_a_whole_barrier_are_made_behind_its_commit(tmp_path: Path) -> None:
    """And of the next one behind them; who asks for changes waits for what this process makes."""
    new_table(tmp_path, widetable__inline_compaction_size="0 b", changelog_producer="lookup")
    go_on, files = threading.Event(), FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=files)
    table, writer = catalog.table(NAME), catalog.writer(NAME, "w")
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(60)

    files.run_before("open_output", hold, "/bucket-0/changelog-")
    writer.write({"id": [1], "a": [1]}, barrier=10)
    writer.write({"id": [1], "b": [1]}, barrier=10, complete=True)
    assert begun.wait(60)
    writer.write({"id": [1], "a": [2]}, barrier=20)
    writer.complete(20)
    assert levels(table) == [0] * 3, "a commit waited"
    found: list[dict[str, object]] = []
    asked = threading.Thread(
        target=lambda: found.extend(table.changes(0, 20, ["a", "b"], mode="barrier").to_pylist())
    )
    asked.start()
    asked.join(0.2)
    assert asked.is_alive(), "it did not wait"
    go_on.set()
    asked.join()
    assert 0 not in levels(table)
    assert [(row["_row_kind"], row["a"], row["b"]) for row in found] == [
        ("+I", 1, 1),
        ("-U", 1, 1),
        ("+U", 2, 1),
    ]
    assert not table.audit().findings


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_appends_go_on_at_the_pace_of_what_is_compacted_behind_them(
    tmp_path: Path, producer: str
) -> None:
    new_table(tmp_path, widetable__inline_compaction_size="0 b", changelog_producer=producer)
    go_on, files = threading.Event(), FaultyFileIO(LocalFileIO(fsync=False))
    catalog = wt.Catalog(tmp_path, file_io=files)
    table, writer = catalog.table(NAME), catalog.writer(NAME, "w")
    files.run_before("publish", lambda: go_on.wait(60), "compaction-lease")
    for at in range(APPENDS):
        writer.write({"id": [at], "a": [at]}, barrier=10, complete=at == APPENDS - 1)
    writer.write({"id": [0], "a": [APPENDS]}, barrier=20)
    ahead = threading.Thread(target=lambda: writer.write({"id": [1], "b": [1]}, barrier=20))
    ahead.start()
    ahead.join(0.2)
    assert ahead.is_alive(), "it did not wait"
    go_on.set()
    ahead.join()
    table.wait_for_compactions()
    assert [level for level in levels(table) if not level] == [0, 0]
    assert not table.audit().findings


def test_a_commit_that_completes_nothing_does_not_read_what_others_have_committed(
    tmp_path: Path,
) -> None:
    new_table(tmp_path)
    files = FaultyFileIO(LocalFileIO(fsync=False))
    other = wt.Catalog(tmp_path).writer(NAME, "other", ["a"])
    writer = wt.Catalog(tmp_path, file_io=files).writer(NAME, "w", ["b"])
    asked = []
    for others in (0, 3, 30):
        for at in range(others):
            other.write({"id": [at], "a": [at]}, barrier=10)
        before = len(files.log)
        writer.write({"id": [1], "b": [others]}, barrier=10)
        asked.append(len(files.log) - before)
    assert asked[1] == asked[2]


def test_little_is_compacted_before_the_commit_returns(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    writer = wt.Catalog(tmp_path).writer(NAME, "w")
    for at in range(APPENDS):
        writer.write({"id": [at]}, barrier=10, complete=at == APPENDS - 1)
    assert 0 not in levels(table)
