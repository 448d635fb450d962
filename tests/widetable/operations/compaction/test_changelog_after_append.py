"""What an append to a lookup table does about its changelog: at once, later, or by somebody else; never at its cost."""

from __future__ import annotations

import logging
import signal
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.lookup_changelog_table import COLUMNS, kinds, level0_files, make, rows
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.commit.notes.lease import try_lease
from widetable.commit.transaction.committer import Committer
from widetable.format.bucket_id import BucketId
from widetable.operations.compaction import compaction_after_commit
from widetable.operations.compaction.compaction import Newest, newest_entries
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths


def commit_kinds(table: wt.Table) -> list[str]:
    return [snapshot.commit_kind for snapshot in table.snapshots()]


def wishes(table: wt.Table) -> list[str]:
    return CompactionRequests(LocalFileIO(), TablePaths(table.path)).open()


def test_the_changelog_comes_right_after_the_append(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2))
    table.write(rows(2, a=5))
    assert commit_kinds(table) == ["APPEND", "COMPACT", "APPEND", "COMPACT"]
    assert [s.changelog_record_count for s in table.snapshots()] == [None, 2, None, 2]
    assert kinds(table) == ["+I", "+I", "-U", "+U"]
    assert level0_files(table) == 0


def test_a_write_only_table_leaves_it_to_a_compaction(tmp_path: Path) -> None:
    table = make(tmp_path, **{"write-only": "true"})
    table.write(rows(1))
    table.write(rows(1, a=2))
    assert kinds(table) == []
    table.compact()
    assert commit_kinds(table) == ["APPEND", "APPEND", "COMPACT"]
    assert kinds(table) == ["+I"]


@pytest.mark.parametrize("sends", ["write", "commit_append"])
def test_a_batch_that_comes_again_gets_the_changelog_its_killed_writer_left_out(
    tmp_path: Path, sends: str
) -> None:
    table = make(tmp_path, bucket="2")
    process = get_context("spawn").Process(target=_write_and_die, args=(table.path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert commit_kinds(table) == ["APPEND"]
    assert kinds(table) == []
    if sends == "write":
        result = table.write(rows(1, 2, 3), "job", 7)
    else:
        with table.new_writer(["k", "a"]) as writer:
            writer.write([rows(1, 2, 3).to_batches()[0]])
            result = table.commit_append(writer.finish(), "job", 7)
    assert not result.committed
    assert commit_kinds(table) == ["APPEND", "COMPACT"]
    assert kinds(table) == ["+I", "+I", "+I"]
    assert level0_files(table) == 0


def _write_and_die(path: str) -> None:
    """The snapshot of the append is there, and nothing that follows it."""
    table = wt.Table.open(path, file_io=KillingFileIO("after_publish", 0))
    table.write(rows(1, 2, 3), "job", 7)


@pytest.mark.parametrize("options", [{"write-only": "true"}, {"changelog-producer": "none"}])
def test_a_batch_that_comes_again_compacts_nothing_else(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = make(tmp_path, **options)
    for _ in range(2):
        table.write(rows(1), "job", 7)
    assert commit_kinds(table) == ["APPEND"]


def test_who_does_not_get_the_lease_is_served_by_its_holder(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="4")
    paths = TablePaths(table.path)
    lease = try_lease(LocalFileIO(), paths, "somebody", 60_000)
    assert lease is not None
    table.write(rows(*range(100)))
    assert commit_kinds(table) == ["APPEND"]
    assert len(wishes(table)) == 1
    lease.release()
    table.write(rows(7))
    assert wishes(table) == []
    assert level0_files(table) == 0
    assert len(kinds(table)) == 100


def test_a_write_that_returns_has_its_changelog_whoever_made_it(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="2")
    missing: list[int] = []

    def write(writer: int) -> None:
        mine = wt.Table.open(table.path)
        for number in range(4):
            key = writer * 100 + number
            mine.write(rows(key))
            emitted = mine.changes(0, mine.snapshots()[-1].id)["k"].to_pylist()
            if key not in emitted:
                missing.append(key)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    table.wait_for_compactions()
    assert wishes(table) == []
    assert len(kinds(table)) == 24
    assert table.audit(start=0).ok


class AskingFileIO(LocalFileIO):
    """Another machine asks for a changelog whenever a compaction here was published, five times.

    by: the threads that published compactions.
    """

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.by: list[str] = []

    def publish(self, path: str, data: bytes) -> bool:
        is_in = super().publish(path, data)
        if is_in and "/snapshot/" in path and b'"COMPACT"' in data:
            self.by.append(threading.current_thread().name)
            if len(self.by) <= 5:
                other = make_append(path.partition("/snapshot/")[0], len(self.by))
                CompactionRequests(self, TablePaths(other.path)).add(is_own=False)
        return is_in


def make_append(root: str, key: int) -> wt.Table:
    """As a writer that does not compact."""
    table = wt.Table.open(root, file_io=FaultyFileIO(LocalFileIO(fsync=False)))
    with table.new_writer(["k", "a"]) as writer:
        writer.write([rows(1000 + key).to_batches()[0]])
        table._committer.append(writer.finish())
    return table


def test_a_thread_answers_those_that_ask_while_it_works(tmp_path: Path) -> None:
    """Without another write: nobody may come for hours."""
    file_io = AskingFileIO()
    path = make(tmp_path, **{"lookup-wait": "false"}).path
    table = wt.Table.open(path, file_io=file_io)
    table.write(rows(1))
    table.wait_for_compactions()
    assert len(file_io.by) == 6
    assert wishes(table) == []
    assert level0_files(table) == 0


def test_nobody_waits_for_changelogs_that_others_ask_for(tmp_path: Path) -> None:
    file_io = AskingFileIO()
    table = wt.Table.open(make(tmp_path).path, file_io=file_io)
    table.write(rows(1))
    own = threading.current_thread().name
    table.wait_for_compactions()
    assert file_io.by.count(own) == 1, "its own changelog"
    assert len(file_io.by) == 6
    assert wishes(table) == []
    assert level0_files(table) == 0


def test_many_writers_leave_no_append_without_its_changelog(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="2")

    def write(writer: int) -> None:
        mine = wt.Table.open(table.path)
        for number in range(5):
            mine.write(rows(*range(writer, 60, 4), a=number))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert level0_files(table) == 0
    emitted = table.changes(0, table.snapshots()[-1].id).to_pylist()
    state: dict[int, int] = {}
    for change in emitted:
        if change["_row_kind"] in ("-U", "-D"):
            assert state.pop(change["k"]) == change["a"]
        else:
            assert change["k"] not in state
            state[change["k"]] = change["a"]
    assert state == {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}


def test_without_waiting_a_thread_makes_it(tmp_path: Path) -> None:
    table = make(tmp_path, **{"lookup-wait": "false"})
    table.write(rows(1, 2))
    table.wait_for_compactions()
    assert commit_kinds(table) == ["APPEND", "COMPACT"]
    assert kinds(table) == ["+I", "+I"]


@pytest.mark.parametrize("waits", ["true", "false"])
def test_a_commit_that_nobody_waits_beside_looks_at_its_own_buckets(
    waits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, **{"lookup-wait": waits, "bucket": "8"})
    table.write(rows(*range(100)))
    table.wait_for_compactions()
    asked: list[frozenset[BucketId] | None] = []

    def seen(committer: Committer, touched: frozenset[BucketId] | None = None) -> Newest:
        asked.append(touched)
        return newest_entries(committer, touched)

    monkeypatch.setattr(compaction_after_commit, "newest_entries", seen)
    table.write(rows(1))
    table.wait_for_compactions()
    assert asked
    assert all(touched is not None and len(touched) == 1 for touched in asked)


def test_a_failing_changelog_does_not_fail_the_append(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = make(tmp_path).path
    faulty = FaultyFileIO(LocalFileIO(fsync=False))
    table = wt.Table.open(path, file_io=faulty)
    faulty.fail("open_output", Fault.BEFORE, "changelog-", times=100)
    with caplog.at_level(logging.WARNING, logger="widetable"):
        assert table.write(rows(1)).committed
    assert "after an append failed" in caplog.text
    assert "the append is committed" in caplog.text
    assert "nothing was committed" not in caplog.text
    assert "Traceback" not in caplog.text
    assert level0_files(table) == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    faulty.heal()
    faulty._points.clear()
    table.write(rows(2))
    assert kinds(table) == ["+I", "+I"]


def test_who_lost_drops_its_changelog(tmp_path: Path) -> None:
    """Another compaction commits in between: nothing is emitted twice, and no file of the loser stays."""
    path = make(tmp_path, **{"write-only": "true"}).path
    faulty = FaultyFileIO(LocalFileIO(fsync=False))
    table, other = wt.Table.open(path, file_io=faulty), wt.Table.open(path)
    table.write(rows(1, 2))
    faulty.run_before("publish", lambda: other.compact(), "snapshot-2")
    table.compact()
    assert commit_kinds(other) == ["APPEND", "COMPACT"]
    assert kinds(other) == ["+I", "+I"]
    assert len(list(tmp_path.rglob("changelog-*.parquet"))) == 1
    assert len(list(tmp_path.rglob("data-*.parquet"))) == 2


def test_a_table_that_gains_lookup_is_repaired_once_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = wt.Catalog(str(tmp_path))
    options = {"widetable.fsync": "false", "merge-engine": "partial-update"}
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options=options)
    for number in range(9):
        table.write(rows(*range(3000 if number == 0 else 3), a=number))
    levels = {file.level for split in table.scan().splits() for file in split.files}
    assert any(0 < level < 5 for level in levels), levels
    catalog.alter_table("db.t", set_options={"changelog-producer": "lookup"})
    before = {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}
    start = table.snapshots()[-1].id
    with caplog.at_level(logging.INFO, logger="widetable"):
        table.write(rows(1, 5000, a=77))
        table.write(rows(1, a=78))
    assert caplog.text.count("compacted without a lookup changelog") == 1
    emitted = table.changes(start, table.snapshots()[-1].id).to_pylist()
    state = dict(before)
    for change in emitted:
        if change["_row_kind"] in ("-U", "-D"):
            assert state.pop(change["k"]) == change["a"]
        else:
            state[change["k"]] = change["a"]
    assert state == {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}
