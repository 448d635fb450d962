"""Notes that somebody wants a compaction: who sees them, and when."""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.support.faults.torn_bytes import GARBAGE
from widetable.commit.notes.clock import SystemClock
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    return TablePaths(str(tmp_path))


class Later(SystemClock):
    """In an hour."""

    def now_nanos(self) -> int:
        return super().now_nanos() + 3600 * 10**9


def open_of(paths: TablePaths) -> list[str]:
    return CompactionRequests(IO, paths).open()


def test_a_wish_of_nobody_is_open_and_its_owners_are_not(paths: TablePaths) -> None:
    wishes = CompactionRequests(IO, paths)
    own, anybodys = wishes.add(is_own=True), wishes.add(is_own=False)
    assert open_of(paths) == [anybodys]
    assert CompactionRequests(IO, paths, Later()).open() == [anybodys], "its process lives"
    wishes.forget([own, anybodys])
    wishes.forget([own])
    assert IO.list(paths.service_dir) == []


def test_each_wish_is_a_note_of_its_own(paths: TablePaths) -> None:
    """Who answers those that it found leaves those that came meanwhile."""
    wishes = CompactionRequests(IO, paths)
    wishes.add(is_own=False)
    found = wishes.open()
    later = wishes.add(is_own=False)
    wishes.forget(found)
    assert wishes.open() == [later]


def test_what_a_killed_process_wanted_to_do_is_open(paths: TablePaths) -> None:
    process = get_context("spawn").Process(target=_wish_and_die, args=(paths.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(open_of(paths)) == 1


def _wish_and_die(root: str) -> None:
    wishes = CompactionRequests(IO, TablePaths(root))
    wishes.add(is_own=True)
    assert wishes.open() == []
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_another_machine_wanted_to_do_is_open_after_a_while(paths: TablePaths) -> None:
    path = paths.compaction_request("x")
    IO.write_new(path, json.dumps({"process": "another-boot/pid:[1]/7/8"}).encode())
    assert open_of(paths) == []
    assert CompactionRequests(IO, paths, Later()).open() == [path]


@pytest.mark.parametrize("content", [*GARBAGE, b'{"process": 7}', b'{"process": null}'])
def test_whatever_else_is_in_it_makes_it_anybodys(paths: TablePaths, content: bytes) -> None:
    """The notes of older versions are empty."""
    for path in (paths.compaction_request("x"), f"{paths.service_dir}/widetable-compaction-wanted"):
        IO.write_new(path, content)
    assert len(open_of(paths)) == 2
