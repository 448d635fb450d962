"""A process that is killed while it makes or drops a branch: main goes on, and the branch is made or dropped again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.branched import create, expire_all, opened, put, rows_of
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
MOST_STEPS = 60
Order = Callable[[list[str]], list[str]]


class KilledError(BaseException):
    """No code behind it runs."""


class DyingFileIO(FaultyFileIO):
    """From one write on nothing is done any more, cleaning up neither."""

    def __init__(self, writes: int, order: Order = sorted) -> None:
        super().__init__(IO)
        self.left = writes
        self.order = order

    def publish(self, path: str, data: bytes) -> bool:
        self._step()
        return super().publish(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._step()
        super().replace(path, data, durable=durable)

    def delete(self, path: str) -> bool:
        self._step()
        return super().delete(path)

    def delete_dir(self, path: str) -> bool:
        """File by file, in the order that was chosen."""
        for file in self.order([str(each) for each in Path(path).rglob("*") if each.is_file()]):
            self.delete(file)
        self._step()
        return super().delete_dir(path)

    def _step(self) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1


def mark_first(files: list[str]) -> list[str]:
    return sorted(files, key=lambda file: (not file.endswith("widetable-branch"), file))


def newest_snapshot_first(files: list[str]) -> list[str]:
    """What would look like an older branch, and then the mark."""
    return sorted(files, key=lambda file: ("/snapshot/" in file, "/service/" in file, file))[::-1]


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path)
    put(made, {1: "a"})
    made.create_tag("first")
    put(made, {2: "b"})
    return made


def is_killed(work: Callable[[], None]) -> bool:
    try:
        work()
    except KilledError:
        return True
    return False


def check_main_goes_on(table: wt.Table, rows: dict[int, str | None]) -> None:
    put(table, {9: "new"})
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(table) == {**rows, 9: "new"}
    assert rows_of(table, tag="first") == {1: "a"}


def test_a_killed_creation_leaves_main_as_it_is(table: wt.Table) -> None:
    killed = 0
    for writes in range(MOST_STEPS):
        dying = wt.Table.open(table.path, file_io=DyingFileIO(writes))
        if not is_killed(lambda dying=dying: dying.create_branch("b", tag="first")):  # type: ignore[misc]
            break
        killed += 1
        check_main_goes_on(table, {1: "a", 2: "b"})
        if writes:  # what there is of it is dropped
            table.drop_branch("b")
    assert killed > 4
    assert rows_of(opened(table, "b")) == {1: "a"}


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("operation", ["publish", "replace"])
def test_a_creation_that_a_storage_refuses_is_done_again(
    table: wt.Table, operation: str, fault: Fault
) -> None:
    """Wherever it fails: the name is free, or the branch is there."""
    for skip in range(MOST_STEPS):
        faulty = FaultyFileIO(IO)
        faulty.fail(operation, fault, "/branch/", skip=skip)
        refused = wt.Table.open(table.path, file_io=faulty)
        try:
            refused.create_branch("b", tag="first")
        except wt.StorageError:
            assert table.branches() == []
            table.create_branch("b", tag="first")
        assert rows_of(opened(table, "b")) == {1: "a"}
        put(opened(table, "b"), {2: "branch"})
        table.drop_branch("b")
        if faulty.count(operation, "/branch/") <= skip:
            break
    assert 0 < skip < MOST_STEPS - 1


def test_a_killed_drop_leaves_no_older_branch(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its files are gone, in the order in which the file system has them."""
    unlink = os.unlink
    killed = 0
    for deletes in range(MOST_STEPS):
        table.create_branch("b", tag="first")
        branch = opened(table, "b")
        for number in range(3):
            put(branch, {10 + number: "branch"})
        left = [deletes]

        def dying_unlink(*where: object, left: list[int] = left, **how: object) -> None:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            unlink(*where, **how)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", dying_unlink)
            is_done = not is_killed(lambda: table.drop_branch("b"))
        if is_done:
            break
        killed += 1
        assert table.branches() == []
        with pytest.raises(wt.NotFoundError):
            opened(table, "b").scan().to_arrow()
        check_main_goes_on(table, {1: "a", 2: "b"})
        table.drop_branch("b", dry_run=True)
        table.drop_branch("b")
        with pytest.raises(wt.NotFoundError):
            table.drop_branch("b", dry_run=True)
    assert killed > 4
    assert table.branches() == []


@pytest.mark.parametrize("schemas", [1, 3])
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("order", [sorted, mark_first, newest_snapshot_first])
def test_a_killed_drop_leaves_no_branch_in_whatever_order_files_go(
    tmp_path: Path, order: Order, is_marked: bool, schemas: int
) -> None:
    """is_marked: not a branch of another client."""
    table = create(tmp_path)
    put(table, {1: "a"})
    for number in range(1, schemas):
        table.alter_options({"target-file-size": f"{number} mb"})
        put(table, {1: "a"})
    table.create_tag("first")
    killed = 0
    for writes in range(MOST_STEPS):
        table.create_branch("b", tag="first")
        branch = opened(table, "b")
        for number in range(3):
            put(branch, {10 + number: "branch"})
        if not is_marked:
            IO.delete_dir(branch._paths.service_dir)
        dying = wt.Table.open(table.path, file_io=DyingFileIO(writes, order))
        if not is_killed(lambda dying=dying: dying.drop_branch("b")):  # type: ignore[misc]
            break
        killed += 1
        if writes:  # the first of which is the mark
            assert table.branches() == []
            with pytest.raises(wt.NotFoundError):
                opened(table, "b").scan().to_arrow()
            with pytest.raises(wt.NotFoundError):
                table.fast_forward("b", replace=True)
        else:
            assert len(rows_of(opened(table, "b"))) == 4
        expire_all(table)
        table.remove_orphan_files(older_than_millis=0)
        assert rows_of(table) == rows_of(table, tag="first") == {1: "a"}
        table.drop_branch("b")
    assert killed > 8
    assert not Path(table.path, "branch/branch-b").exists()
