"""What a lookup table does about its old levels: behind commits, beside them, and never twice."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from tests.support.tables.lookup_changelog_table import kinds, level0_files, make, rows
from widetable.commit.notes.lease import try_lease
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths


class PausingFileIO(LocalFileIO):
    """Holds back what the thread of the old levels commits, until `go` is set. at: set when it comes so far."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.at, self.go = threading.Event(), threading.Event()

    def turn(self, path: str) -> AbstractContextManager[bool]:
        is_behind = threading.current_thread().name.startswith("widetable-old-levels")
        if is_behind and path.endswith("commit-turn"):
            self.at.set()
            assert self.go.wait(PATIENCE_SECONDS)
        return super().turn(path)


def behind_commits(path: Path, file_io: LocalFileIO | None = None) -> wt.Table:
    """A table whose old levels are always compacted behind commits, as soon as there are two of them."""
    options = {
        "widetable.inline-compaction-size": "0 b",
        "num-sorted-run.compaction-trigger": "3",
    }
    return wt.Table.open(make(path, **options).path, file_io=file_io)


def is_behind_commits() -> bool:
    """Whether old levels are being compacted."""
    return any(t.name.startswith("widetable-old-levels") for t in threading.enumerate())


def held_behind_commits(path: Path) -> tuple[wt.Table, PausingFileIO]:
    """Such a table, whose first compaction of old levels is about to publish its snapshot."""
    file_io = PausingFileIO()
    table = behind_commits(path, file_io)
    for number in range(10):
        table.write(rows(*range(20), a=number))
        wait_for(lambda: file_io.at.is_set() or not is_behind_commits())
        if file_io.at.is_set():
            break
    assert file_io.at.is_set()
    return table, file_io


def levels_of(table: wt.Table) -> list[int]:
    return sorted(file.level for split in table.scan().splits() for file in split.files)


def test_old_levels_are_compacted_behind_a_commit(tmp_path: Path) -> None:
    table = behind_commits(tmp_path)
    for number in range(6):
        table.write(rows(*range(20), a=number))
        assert level0_files(table) == 0
        assert kinds(table, table.snapshots()[-1].id - 1)[:2] != []
        table.wait_for_compactions()
        assert len(levels_of(table)) <= 3
    snapshots = table.snapshots()
    behind = [s for s in snapshots if s.commit_kind == "COMPACT" and not s.changelog_record_count]
    assert behind
    assert len(kinds(table)) == 20 + 5 * 40
    assert table.audit(start=0).ok


def test_commits_go_on_while_old_levels_are_compacted(tmp_path: Path) -> None:
    table, file_io = held_behind_commits(tmp_path)
    assert levels_of(table) == [5, 6, 7]
    table.write(rows(*range(10, 30), a=77))
    assert level0_files(table) == 0
    assert levels_of(table) == [3, 5, 6, 7]
    file_io.go.set()
    table.wait_for_compactions()
    assert levels_of(table) == [3, 7]
    assert {row["a"] for row in table.scan().to_arrow().to_pylist() if row["k"] >= 10} == {77}
    assert table.audit(start=0).ok


def test_runs_that_commits_left_move_down_as_they_are(tmp_path: Path) -> None:
    table, file_io = held_behind_commits(tmp_path)
    for number in range(2):
        table.write(rows(*range(10, 30 + number), a=77 + number))
    assert levels_of(table) == [2, 3, 5, 6, 7]
    file_io.go.set()
    table.wait_for_compactions()
    left = {file.file_name: file.level for split in table.scan().splits() for file in split.files}
    assert sorted(left.values()) == [2, 3, 7]
    table.write(rows(5, a=79))
    now = {file.file_name: file.level for split in table.scan().splits() for file in split.files}
    assert {now[name] for name in left} == {5, 6, 7}
    assert sorted(now.values()) == [4, 5, 6, 7]
    assert kinds(table, table.snapshots()[-1].id - 1) == ["-U", "+U"]
    assert kinds(table, 0).count("+I") == 31
    table.wait_for_compactions()
    assert table.audit(start=0).ok


def test_a_commit_waits_for_old_levels_when_level_1_is_full(tmp_path: Path) -> None:
    table, file_io = held_behind_commits(tmp_path)
    for number in range(3):
        table.write(rows(1, a=77 + number))
    assert levels_of(table) == [1, 2, 3, 5, 6, 7]
    waiting = threading.Thread(target=table.write, args=(rows(1, a=78),))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    file_io.go.set()
    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()
    table.wait_for_compactions()
    assert level0_files(table) == 0
    assert table.audit(start=0).ok


def test_another_process_is_at_the_old_levels(tmp_path: Path) -> None:
    """Who does not get their lease leaves them: no changelog waits for it."""
    table = behind_commits(tmp_path)
    paths = TablePaths(table.path)
    assert try_lease(LocalFileIO(), paths, "somebody", 60_000, path=paths.old_levels_lease)
    for number in range(4):
        table.write(rows(*range(20), a=number))
        table.wait_for_compactions()
        assert level0_files(table) == 0
    assert len(kinds(table)) == 20 + 3 * 40


def test_a_table_is_dropped_after_what_is_compacted_behind_commits(tmp_path: Path) -> None:
    table, file_io = held_behind_commits(tmp_path)
    dropping = threading.Thread(target=wt.Catalog(str(tmp_path)).drop_table, args=("db.t",))
    dropping.start()
    dropping.join(0.3)
    assert dropping.is_alive()
    file_io.go.set()
    dropping.join(PATIENCE_SECONDS)
    table.wait_for_compactions()
    assert not Path(table.path).exists()
