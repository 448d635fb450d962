"""However a process ends, no append stays without its changelog: it finishes, or the next one does it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.ending_process import KEYS, KILLED, WAYS, WORK, path_of, rows
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for each way, with the tables that its process left."""
    folder = tmp_path_factory.mktemp("ended")
    command = [sys.executable, "-m", "tests.support.faults.ending_process", str(folder)]
    subprocess.run(command, cwd=ROOT, timeout=PATIENCE_SECONDS, check=True)
    return folder


def waiting_files(table: wt.Table) -> int:
    return table.inspect().backlog.files


def check_whole(table: wt.Table) -> None:
    """Every append has its changelog, which gives the table's rows when it is folded."""
    assert waiting_files(table) == 0
    emitted = table.changes(0, table.snapshots()[-1].id).to_pylist()
    state: dict[int, int] = {}
    for change in emitted:
        if change["_row_kind"] == "-U":
            assert state.pop(change["k"]) == change["a"]
        else:
            assert change["k"] not in state
            state[change["k"]] = change["a"]
    assert state == {row["k"]: row["a"] for row in table.scan().to_arrow().to_pylist()}
    assert len(state) == KEYS
    report = table.audit(start=0)
    assert report.ok, report.findings
    assert list(Path(table.path, "service").glob("*wanted*")) == []


@pytest.mark.parametrize("way", [way for way in WAYS if way not in KILLED])
def test_a_process_that_ends_finishes_what_it_compacts(ended: Path, way: str) -> None:
    said = (ended / way / "said").read_text()
    assert (ended / way / "status").read_text() == ("1" if way == "an error" else "0"), said
    assert ("ZeroDivisionError" in said) is (way == "an error")
    assert "shutdown" not in said
    for work in WORK:
        table = wt.Table.open(path_of(str(ended / way), work))
        check_whole(table)
        compactions = [s for s in table.snapshots() if s.commit_kind == "COMPACT"]
        is_done = any(not s.changelog_record_count for s in compactions)
        assert is_done or work != "old-levels"


@pytest.mark.parametrize("way", KILLED)
@pytest.mark.parametrize("after", ["a write elsewhere", "the batch again", "a maintainer"])
def test_what_a_killed_process_had_to_do_is_done_by_the_next(
    ended: Path, tmp_path: Path, way: str, after: str
) -> None:
    assert (ended / way / "status").read_text() == str(int(KILLED[way]))
    shutil.copytree(ended / way, tmp_path, dirs_exist_ok=True)
    table = wt.Table.open(path_of(str(tmp_path), "changelog"))
    assert waiting_files(table) > 4, "it is in all buckets"
    assert CompactionRequests(LocalFileIO(), TablePaths(table.path)).open()
    if after == "a write elsewhere":
        one_key = rows(50).slice(0, 1)
        assert table.write(one_key, "other", 0).committed
    elif after == "the batch again":
        last = max(s.commit_identifier for s in table.snapshots() if s.commit_user == "job")
        assert not table.write(rows(last), "job", last).committed
    else:
        table.maintain(once=True)
    table.wait_for_compactions()
    check_whole(table)


@pytest.mark.parametrize("way", KILLED)
def test_old_levels_of_a_killed_process_are_left_to_the_next(ended: Path, way: str) -> None:
    table = wt.Table.open(path_of(str(ended / way), "old-levels"))
    check_whole(table)
    for number in range(50, 54):
        table.write(rows(number), "other", number)
        table.wait_for_compactions()
    check_whole(table)
    assert all(len(split.files) <= 4 for split in table.scan().splits())
