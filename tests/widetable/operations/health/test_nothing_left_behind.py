"""Whatever makes data files removes those that it made when the disk is full before all are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.barrier_tables import NAME, new_table
from tests.widetable.operations.health.damaged_table import create, live, path_of, rows, spoil_group
from widetable.commit.transaction.committer import Committer
from widetable.operations.barriers.revision import go_back
from widetable.operations.health import repair
from widetable.storage.local import LocalFileIO

OPERATIONS: dict[str, Callable[[wt.Table], object]] = {
    "write": lambda table: table.write(rows("z")),
    "overwrite": lambda table: table.overwrite(rows("z")),
    "compact": lambda table: table.compact(full=True),
    "repair": lambda table: table.repair(),
    "rollback": lambda table: table.rollback(1),
}
MAKES_FILES = ("open_output", "link")


def data_files(table: wt.Table) -> list[Path]:
    return sorted(Path(table.path).glob("bucket-*/*"))


def prepared(root: Path, monkeypatch: pytest.MonkeyPatch, name: str, producer: str) -> wt.Table:
    """A table in which the operation has something to do in each of three buckets."""
    made = create(root, monkeypatch, **{"changelog-producer": producer, "bucket": "3"})
    made.write(rows("a"), "stream", 1)
    made.compact(full=True)
    for number in range(2, 5):
        made.write(rows("b", range(number * 10, 100)), "stream", number)
    if name == "repair":
        for entry in live(made):
            spoil_group(path_of(made, entry), 0)
    return made


def full_after(files: int) -> FaultyFileIO:
    """A storage that has room for so many data files more."""
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    for operation in MAKES_FILES:
        storage.fail(operation, Fault.FULL, "/bucket-", skip=files)
    return storage


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fills_up_keeps_no_file_of_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, producer: str
) -> None:
    made = prepared(tmp_path, monkeypatch, name, producer)
    before, newest = data_files(made), made.snapshots()[-1].id
    files = 0
    while made.snapshots()[-1].id == newest:
        try:
            OPERATIONS[name](wt.Table(made.path, full_after(files)))
        except wt.StorageError:
            assert data_files(made) == before, f"file {files}"
            files += 1
    assert files >= 3, "in each bucket"


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_file_that_cannot_be_deleted_hides_neither_the_error_nor_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    producer: str,
) -> None:
    made = prepared(tmp_path, monkeypatch, name, producer)
    before = set(data_files(made))
    with pytest.raises(wt.StorageError) as expected:
        OPERATIONS[name](wt.Table(made.path, full_after(2)))
    storage = full_after(2)
    storage.fail("delete", Fault.BEFORE, "/bucket-")
    with pytest.raises(wt.StorageError) as raised:
        OPERATIONS[name](wt.Table(made.path, storage))
    assert raised.value.found == expected.value.found
    (left,) = set(data_files(made)) - before
    assert str(left) in caplog.text
    assert made.remove_orphan_files(0).paths == (str(left),)


@pytest.mark.parametrize("kind", [wt.ConflictError, wt.InvalidError])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "compact"])
def test_a_commit_that_is_refused_keeps_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: type[wt.ConflictError | wt.InvalidError],
) -> None:
    made = prepared(tmp_path, monkeypatch, name, "none")
    before = data_files(made)
    monkeypatch.setattr(Committer, "_commit", refusing(kind))
    with pytest.raises(kind):
        OPERATIONS[name](made)
    assert data_files(made) == before


@pytest.mark.parametrize("kind", [wt.ConflictError, wt.InvalidError])
def test_a_revision_that_is_refused_keeps_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[wt.ConflictError | wt.InvalidError]
) -> None:
    table = new_table(tmp_path)
    writer = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    for barrier in (10, 20):
        writer.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    before = data_files(table)
    monkeypatch.setattr(Committer, "_commit", refusing(kind))
    with pytest.raises(kind):
        go_back(table, 1, 10, None)
    assert data_files(table) == before


def test_a_repair_that_cannot_say_who_wrote_the_rows_keeps_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepared(tmp_path, monkeypatch, "repair", "none")
    before = data_files(made)
    monkeypatch.setattr(repair, "origins", refusing(wt.DamagedError))
    with pytest.raises(wt.DamagedError):
        made.repair()
    assert data_files(made) == before


def refusing(kind: type[wt.WidetableError]) -> Callable[..., object]:
    def refuse(*given: object) -> object:
        raise kind("it", found="x", expected="y", action="Z.")

    return refuse
