"""Leases of readers: what they hold, when they run out, and that they never hold what expiry chose."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from tests.support.faults.torn_bytes import torn
from widetable.commit.holds.read_lease import (
    LONGEST_MILLIS,
    ReadLease,
    forget_expired,
    held_snapshots,
    hold,
)
from widetable.commit.notes.process_identity import this_process
from widetable.errors import InvalidError, NotFoundError
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.millis = 1_000_000

    def now_nanos(self) -> int:
        return self.millis * 1_000_000

    def monotonic_millis(self) -> float:
        return self.millis

    def sleep_millis(self, millis: float) -> None:
        self.millis += int(millis)


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def paths(tmp_path: Path) -> TablePaths:
    """Of a table with the snapshots 3 to 6."""
    paths = TablePaths(str(tmp_path))
    for id in range(3, 7):
        IO.write_new(paths.snapshot(id), b"{}")
    return paths


def held(paths: TablePaths, clock: Hand) -> list[int]:
    return held_snapshots(IO, paths, clock)


def lease(paths: TablePaths, clock: Hand, snapshot_id: int) -> ReadLease:
    """Renewed by nobody but the test: its clock stands still."""
    return hold(IO, paths, snapshot_id, 1000, clock, renews=False)


def test_every_lease_holds_its_snapshot_until_it_is_released(
    paths: TablePaths, clock: Hand
) -> None:
    late, early = lease(paths, clock, 6), lease(paths, clock, 3)
    assert held(paths, clock) == [3, 6]
    early.release()
    early.release()
    assert held(paths, clock) == [6]
    late.release()
    assert held(paths, clock) == []
    assert IO.list(paths.service_dir) == []


def test_on_disk_it_is_a_file_of_its_own(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, 4)
    (entry,) = IO.list(paths.service_dir)
    assert entry.name.startswith("widetable-read-lease-")
    body = json.loads(IO.read(f"{paths.service_dir}/{entry.name}"))
    assert body == {
        "snapshot_id": 4,
        "expires_millis": 1_001_000,
        "process": this_process(),
    }
    assert mine.expires_millis == 1_001_000


def test_it_runs_out_unless_renewed(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, 4)
    clock.millis += 999
    assert mine.renew()
    clock.millis += 999
    assert held(paths, clock) == [4]
    clock.millis += 1
    assert held(paths, clock) == []
    assert not mine.renew()
    assert held(paths, clock) == [4]


def test_it_moves_forward_only(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, 4)
    clock.millis += 500
    assert mine.move(5)
    assert (mine.snapshot_id, mine.expires_millis) == (5, 1_001_500)
    assert held(paths, clock) == [5]
    with pytest.raises(InvalidError):
        mine.move(4)
    assert held(paths, clock) == [5]


def test_a_snapshot_that_is_to_come_can_be_held(paths: TablePaths, clock: Hand) -> None:
    assert lease(paths, clock, 7).snapshot_id == 7
    assert hold(IO, TablePaths(paths.root + "/new"), 1, 1000, clock).snapshot_id == 1


@pytest.mark.parametrize("snapshot_id", [1, 2])
def test_an_expired_one_cannot(paths: TablePaths, clock: Hand, snapshot_id: int) -> None:
    with pytest.raises(NotFoundError) as caught:
        lease(paths, clock, snapshot_id)
    assert caught.value.found == "an expired snapshot"
    assert "from 3 on" in caught.value.expected
    assert held(paths, clock) == []


@pytest.mark.parametrize("by", ["", "0af3"], ids=["an older note", "a note"])
def test_one_that_expiry_has_chosen_cannot(paths: TablePaths, clock: Hand, by: str) -> None:
    IO.write_new(paths.retired_snapshot(3, by), b"{}")
    with pytest.raises(NotFoundError):
        lease(paths, clock, 3)
    assert lease(paths, clock, 4).snapshot_id == 4


def test_the_lease_is_written_before_the_choice_of_expiry_is_looked_at(
    paths: TablePaths, clock: Hand
) -> None:
    seen: list[list[int]] = []
    faulty = FaultyFileIO(IO)
    faulty.run_before("list", lambda: seen.append(held(paths, clock)), "service")
    hold(faulty, paths, 4, 1000, clock)
    assert seen == [[4]]


def test_what_ran_out_is_forgotten_and_the_rest_stays(paths: TablePaths, clock: Hand) -> None:
    leases = [lease(paths, clock, 3)]
    clock.millis += 1500
    leases.append(lease(paths, clock, 4))
    IO.write_new(paths.lease, b"a lease of a compactor")
    assert forget_expired(IO, paths, 501, clock) == []
    assert len(forget_expired(IO, paths, 500, clock)) == 1
    assert held(paths, clock) == [4]
    assert IO.exists(paths.lease)


@pytest.mark.parametrize("content", torn(b'{"snapshot_id": 4, "expires_millis": 9999999999999}'))
def test_an_unreadable_one_holds_nothing_and_is_forgotten_by_its_age(
    paths: TablePaths, clock: Hand, content: bytes
) -> None:
    path = paths.read_lease("torn")
    IO.write_new(path, content)
    assert held(paths, clock) == []
    clock.millis = IO.list(paths.service_dir)[0].modified_millis + 10
    assert forget_expired(IO, paths, 11, clock) == []
    assert forget_expired(IO, paths, 10, clock) == [path]


# Processes


def test_a_killed_process_holds_nothing(paths: TablePaths) -> None:
    process = get_context("spawn").Process(target=_die_with_a_lease, args=(paths.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (entry,) = IO.list(paths.service_dir)
    body = json.loads(IO.read(f"{paths.service_dir}/{entry.name}"))
    assert body["expires_millis"] > time.time() * 1000
    assert held_snapshots(IO, paths) == []
    assert len(forget_expired(IO, paths, 0)) == 1


def _die_with_a_lease(root: str) -> None:
    lease = hold(IO, TablePaths(root), 4)
    assert held_snapshots(IO, TablePaths(root)) == [lease.snapshot_id]
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("process", [{}, {"process": None}, {"process": 7}, {"process": "?"}])
def test_a_lease_of_an_unknown_process_runs_out(
    paths: TablePaths, clock: Hand, process: dict[str, object]
) -> None:
    body = {"snapshot_id": 4, "expires_millis": clock.millis + 1, **process}
    IO.write_new(paths.read_lease("x"), json.dumps(body).encode())
    assert held(paths, clock) == [4]
    clock.millis += 1
    assert held(paths, clock) == []


def test_a_wrong_clock_holds_nothing_and_is_named(
    paths: TablePaths, clock: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to twice the longest duration may be clocks that disagree."""
    path = paths.read_lease("x")
    for ahead_millis, holds in ((2 * LONGEST_MILLIS, True), (2 * LONGEST_MILLIS + 1, False)):
        body = {"snapshot_id": 4, "expires_millis": clock.millis + ahead_millis}
        IO.replace(path, json.dumps(body).encode())
        assert held(paths, clock) == ([4] if holds else [])
        assert held(paths, clock) == ([4] if holds else [])
    (record,) = caplog.records
    assert path in record.getMessage()
    assert "clock" in record.getMessage()
    clock.millis = IO.list(paths.service_dir)[0].modified_millis
    assert forget_expired(IO, paths, 0, clock) == [path]


def test_it_renews_itself_for_as_long_as_somebody_has_it(paths: TablePaths) -> None:
    mine = hold(IO, paths, 4, 600)
    (entry,) = IO.list(paths.service_dir)
    path, first = f"{paths.service_dir}/{entry.name}", mine.expires_millis
    wait_for(lambda: json.loads(IO.read(path))["expires_millis"] >= first + 600)
    assert held_snapshots(IO, paths) == [4]
    del mine
    gc.collect()
    assert IO.list(paths.service_dir) == []


def test_it_ends_with_its_process(paths: TablePaths) -> None:
    code = f"""
from widetable.commit.holds.read_lease import hold
from widetable.storage.paths import TablePaths
from widetable.storage.local import LocalFileIO
import os
lease = hold(LocalFileIO(), TablePaths({paths.root!r}), 4)
assert os.listdir({paths.service_dir!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_SECONDS)
    assert IO.list(paths.service_dir) == []


def test_a_forked_child_neither_renews_nor_releases_it(paths: TablePaths) -> None:
    mine = hold(IO, paths, 4)
    (entry,) = IO.list(paths.service_dir)
    before = IO.read(f"{paths.service_dir}/{entry.name}")

    def inherit() -> None:
        assert not mine.is_ours
        assert not mine.move(5)
        assert not mine.renew()
        own = hold(IO, paths, 6, 600)
        wait_for(lambda: own.expires_millis > time.time() * 1000 + 500)
        mine.release()
        own.release()

    assert os.waitpid(in_a_child(inherit), 0)[1] == 0
    assert [e.name for e in IO.list(paths.service_dir)] == [entry.name]
    assert IO.read(f"{paths.service_dir}/{entry.name}") == before
    assert mine.renew()


@pytest.mark.parametrize("snapshot_id", [True, 4.0, "4", None, 0, -1])
def test_what_is_no_snapshot_is_refused_and_leaves_nothing(
    paths: TablePaths, snapshot_id: object
) -> None:
    with pytest.raises(InvalidError):
        hold(IO, paths, snapshot_id)  # type: ignore[arg-type]
    assert IO.list(paths.service_dir) == []


def test_integers_of_numpy_are_integers(paths: TablePaths) -> None:
    lease = hold(IO, paths, np.int64(4))  # type: ignore[arg-type]
    assert lease.snapshot_id == 4
    assert held_snapshots(IO, paths) == [4]
