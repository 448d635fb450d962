"""Runs on disk come back; what ended processes left is removed, and nothing else."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.faults.forked import in_a_child
from widetable.write.spill_space import SpillSpace


@pytest.fixture
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which spill spaces are made."""
    path = tmp_path / "spills"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def spilled() -> tuple[SpillSpace, Path]:
    """A space with a file, and its directory."""
    space = SpillSpace()
    with space.new_file() as file:
        file.write([pa.RecordBatch.from_pydict({"x": [1]})])
    assert space.directory is not None
    return space, Path(space.directory)


def left_by_a_killed_process(spills: Path) -> Path:
    before = set(spills.iterdir())

    def end() -> None:
        kept = spilled()
        os.kill(os.getpid(), signal.SIGKILL)
        del kept

    _, status = os.waitpid(in_a_child(end), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (left,) = set(spills.iterdir()) - before
    return left


def test_a_spill_space_reads_its_runs_back(spills: Path) -> None:
    space = SpillSpace()
    assert space.directory is None
    batches = [pa.RecordBatch.from_pydict({"x": list(range(i, i + 3))}) for i in range(4)]
    with space.new_file() as file:
        runs = [file.write(batches[:1]), file.write(batches[1:])]
    assert [list(run.batches()) for run in runs] == [batches[:1], batches[1:]]
    space.remove()
    assert space.directory is None
    assert list(spills.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_space(spills: Path) -> None:
    left = left_by_a_killed_process(spills)
    assert list(left.iterdir()) != []
    space, directory = spilled()
    assert list(spills.iterdir()) == [directory]
    space.remove()
    assert list(spills.iterdir()) == []


def test_what_a_process_may_use_stays(spills: Path) -> None:
    mine, directory = spilled()
    (is_there, says), (is_done, tells) = os.pipe(), os.pipe()

    def use() -> None:
        os.close(tells)
        theirs, _ = spilled()
        os.write(says, b".")
        os.read(is_done, 1)
        assert theirs.directory is not None
        assert list(Path(theirs.directory).iterdir()) != []

    child = in_a_child(use)
    os.close(says)
    os.read(is_there, 1)
    next_space, _ = spilled()
    os.close(tells)
    assert os.waitpid(child, 0)[1] == 0
    assert list(directory.iterdir()) != []
    for space in (mine, next_space):
        space.remove()


def test_what_a_forked_child_has_of_a_space_is_not_its_own(spills: Path) -> None:
    space, directory = spilled()
    assert os.waitpid(in_a_child(space.remove), 0)[1] == 0
    assert list(directory.iterdir()) != []
    space.remove()
    assert list(spills.iterdir()) == []


def test_nothing_else_is_removed(spills: Path, tmp_path: Path) -> None:
    name = left_by_a_killed_process(spills).name
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (spills / f"{name}1").symlink_to(elsewhere)
    (spills / f"{name}2").touch()
    (spills / name).rename(elsewhere / name)
    for other in ("widetable-spill-another.host-abc", f"{name}-1", "widetable-new-spill-abc"):
        (spills / other).mkdir()
    before = set(spills.iterdir())
    space, _ = spilled()
    space.remove()
    assert set(spills.iterdir()) == before
    assert (elsewhere / "file").exists()
    assert (elsewhere / name).exists()


def test_what_another_user_left_stays(spills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_killed_process(spills)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    spilled()
    assert list(left.iterdir()) != []
