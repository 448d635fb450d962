"""A process that is killed while it makes or drops a branch: main goes on, and the branch is made or dropped again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.branched import create, expire_all, opened, put, rows_of
from tests.faults import FaultyFileIO
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)
MOST_STEPS = 40


class KilledError(BaseException):
    """No code behind it runs."""


class DyingFileIO(FaultyFileIO):
    """From one write on nothing is done any more, cleaning up neither."""

    def __init__(self, writes: int) -> None:
        super().__init__(IO)
        self.left = writes

    def publish(self, path: str, data: bytes) -> bool:
        self._step()
        return super().publish(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._step()
        super().replace(path, data, durable=durable)

    def delete_dir(self, path: str) -> bool:
        self._step()
        return super().delete_dir(path)

    def _step(self) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1


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
        table.drop_branch("b")
    assert killed > 4
    assert table.branches() == []
