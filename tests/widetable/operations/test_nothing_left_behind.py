"""Whatever makes data files removes those that it made when the disk is full before all are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.faults import Fault, FaultyFileIO
from tests.widetable.operations.damaged_table import create, live, path_of, rows, spoil_group
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


@pytest.mark.parametrize("producer", ["none", "lookup"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fills_up_keeps_no_file_of_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, producer: str
) -> None:
    made = create(tmp_path, monkeypatch, **{"changelog-producer": producer, "bucket": "3"})
    made.write(rows("a"), "stream", 1)
    made.compact(full=True)
    for number in range(2, 5):
        made.write(rows("b", range(number * 10, 100)), "stream", number)
    if name == "repair":
        for entry in live(made):
            spoil_group(path_of(made, entry), 0)
    before, newest = data_files(made), made.snapshots()[-1].id
    files = 0
    while made.snapshots()[-1].id == newest:
        storage = FaultyFileIO(LocalFileIO(fsync=False))
        for operation in MAKES_FILES:
            storage.fail(operation, Fault.FULL, "/bucket-", skip=files)
        try:
            OPERATIONS[name](wt.Table(made.path, storage))
        except wt.StorageError:
            assert data_files(made) == before, f"file {files}"
            files += 1
    assert files >= 3, "in each bucket"
