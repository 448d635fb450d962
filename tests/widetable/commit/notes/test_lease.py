"""The compaction lease: one has it, it runs out or its process ends, it can be taken over."""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.faults.torn_bytes import torn
from widetable.commit.notes.lease import LONGEST_MILLIS, Lease, damaged_leases, holder, try_lease
from widetable.commit.notes.process_identity import this_process
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
    return TablePaths(str(tmp_path))


def lease(paths: TablePaths, clock: Hand, owner: str) -> Lease | None:
    return try_lease(IO, paths, owner, 1000, clock)


def test_one_has_it_until_it_gives_it_back(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, "a")
    assert mine is not None
    held = {"owner": "a", "expires_millis": 1_001_000, "process": this_process()}
    assert json.loads(IO.read(paths.lease)) == held
    assert lease(paths, clock, "b") is None
    mine.release()
    assert lease(paths, clock, "b") is not None


def test_it_runs_out_unless_renewed(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, "a")
    assert mine is not None
    clock.millis += 999
    assert mine.renew()
    clock.millis += 999
    assert lease(paths, clock, "b") is None
    clock.millis += 1
    theirs = lease(paths, clock, "b")
    assert theirs is not None
    # Too late: it is somebody else's, and giving it back does not take it from them.
    assert not mine.renew()
    mine.release()
    assert theirs.renew()


def test_a_late_owner_that_nobody_replaced_still_has_it(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, "a")
    assert mine is not None
    clock.millis += 5000
    assert mine.renew()
    assert lease(paths, clock, "b") is None


def test_asking_again_renews(paths: TablePaths, clock: Hand) -> None:
    assert lease(paths, clock, "a") is not None
    clock.millis += 900
    assert lease(paths, clock, "a") is not None
    clock.millis += 900
    assert lease(paths, clock, "b") is None


def test_a_killed_process_has_no_lease(paths: TablePaths, clock: Hand) -> None:
    process = get_context("spawn").Process(target=_die_with_the_lease, args=(paths.root,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert json.loads(IO.read(paths.lease))["owner"] == "killed"
    assert holder(IO, paths, clock) is None
    assert lease(paths, clock, "a") is not None
    assert holder(IO, paths, clock) == ("a", 1_001_000)
    assert lease(paths, clock, "b") is None


def _die_with_the_lease(path: str) -> None:
    assert try_lease(IO, TablePaths(path), "killed", 3_600_000) is not None
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("process", [{}, {"process": None}, {"process": 7}, {"process": "?"}])
def test_a_lease_of_an_unknown_process_runs_out(
    paths: TablePaths, clock: Hand, process: dict[str, object]
) -> None:
    held = {"owner": "x", "expires_millis": clock.millis + 1, **process}
    IO.write_new(paths.lease, json.dumps(held).encode())
    assert lease(paths, clock, "a") is None
    clock.millis += 1
    assert lease(paths, clock, "a") is not None


@pytest.mark.parametrize("garbage", torn(b'{"owner": "x", "expires_millis": 9999999999999}'))
def test_a_lease_that_cannot_be_read_protects_nobody(
    paths: TablePaths, clock: Hand, garbage: bytes
) -> None:
    IO.write_new(paths.lease, garbage)
    assert [damage.subject for damage in damaged_leases(IO, paths)] == [paths.lease]
    assert lease(paths, clock, "a") is not None
    assert lease(paths, clock, "b") is None
    assert damaged_leases(IO, paths) == []


def test_a_lease_of_a_wrong_clock_is_taken_over_and_named(
    paths: TablePaths, clock: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to twice the longest duration may be clocks that disagree."""
    for ahead_millis, holds in ((2 * LONGEST_MILLIS, True), (2 * LONGEST_MILLIS + 1, False)):
        held = {"owner": "x", "expires_millis": clock.millis + ahead_millis}
        IO.replace(paths.lease, json.dumps(held).encode())
        assert (holder(IO, paths, clock) is not None) is holds
        assert (lease(paths, clock, "a") is None) is holds
    (record,) = caplog.records
    assert paths.lease in record.getMessage()
    assert "clock" in record.getMessage()


def test_a_forked_child_neither_renews_nor_releases_it(paths: TablePaths, clock: Hand) -> None:
    mine = lease(paths, clock, "a")
    assert mine is not None
    clock.millis += 100

    def inherit() -> None:
        assert not mine.renew()
        mine.release()
        assert lease(paths, clock, "b") is None

    assert os.waitpid(in_a_child(inherit), 0)[1] == 0
    assert holder(IO, paths, clock) == ("a", 1_001_000)
    assert mine.renew()


def test_a_takeover_that_comes_second_gets_nothing(paths: TablePaths, clock: Hand) -> None:
    assert lease(paths, clock, "a") is not None
    clock.millis += 2000
    file_io = FaultyFileIO(IO)
    file_io.run_before("publish", lambda: lease(paths, clock, "b"), skip=1)
    assert try_lease(file_io, paths, "c", 1000, clock) is None
    assert json.loads(IO.read(paths.lease))["owner"] == "b"


def test_a_lease_released_between_the_tries(paths: TablePaths, clock: Hand) -> None:
    theirs = lease(paths, clock, "a")
    assert theirs is not None
    file_io = FaultyFileIO(IO)
    file_io.run_before("read", theirs.release)
    assert try_lease(file_io, paths, "b", 1000, clock) is not None
