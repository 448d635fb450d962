"""What keeps the snapshots of a stream: for as long as its reader takes, and no longer than its process lives."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.faults.patience import wait_for
from tests.support.models.kept_rows import create, expire_all, write
from widetable.commit.holds.read_lease import held_snapshots
from widetable.operations.queries import stream_progress
from widetable.operations.queries.stream_progress import StreamProgress
from widetable.read.stream_plan import Offset
from widetable.storage.local import LocalFileIO


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Four snapshots; a full read gives two batches at least."""
    table = create(tmp_path)
    for number in range(4):
        write(table, number)
    return table


def leases(table: wt.Table) -> list[Path]:
    return list(Path(table.path, "service").glob("widetable-read-lease-*"))


def expires_millis(table: wt.Table) -> int:
    (lease,) = leases(table)
    return int(json.loads(lease.read_bytes())["expires_millis"])


@pytest.mark.parametrize("consumer_id", [None, "c"])
def test_a_first_full_read_keeps_its_snapshot_however_long_it_takes(
    table: wt.Table, consumer_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_progress, "LEASE_MILLIS", 600)
    expected = table.scan().to_arrow().num_rows
    with table.follow(consumer_id, timeout=0) as follower:
        rows = next(follower).num_rows
        first_millis = expires_millis(table)
        for number in range(4, 7):
            write(table, number)
        table.compact(full=True)
        wait_for(lambda: expires_millis(table) > first_millis + 600)
        expire_all(table)
        assert rows + sum(batch.num_rows for batch in follower) == expected
    assert leases(table) == []
    expire_all(table)
    newest = table.snapshots()[-1].id
    assert table.snapshots()[0].id == table.consumers().get("c", newest)


def test_a_killed_reader_keeps_nothing(table: wt.Table) -> None:
    process = get_context("spawn").Process(target=_read_and_die, args=(table.path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(leases(table)) == 1
    assert expire_all(table).ids == tuple(range(1, table.snapshots()[-1].id))
    assert leases(table) == []


def _read_and_die(path: str) -> None:
    table = wt.Table.open(path)
    follower = table.follow(
        scan_mode="from-snapshot", snapshot_id=1
    )  # it reads for as long as it is there
    next(follower)
    assert expire_all(table).ids == ()
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_forked_child_that_reads_on_has_a_lease_of_its_own(table: wt.Table) -> None:
    follower = table.follow(scan_mode="from-snapshot", snapshot_id=1, timeout=0)
    assert next(follower).num_rows
    before = leases(table)

    def read_on() -> None:
        assert next(follower).num_rows
        assert len(leases(table)) == 2
        follower.close()
        assert leases(table) == before

    assert os.waitpid(in_a_child(read_on), 0)[1] == 0
    assert leases(table) == before
    expire_all(table)
    assert sum(batch.num_rows for batch in follower)


def test_a_lease_that_could_not_be_moved_is_moved_at_the_next_step(
    table: wt.Table, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFileIO(LocalFileIO(fsync=False))
    progress = StreamProgress(replace(table._state(), file_io=files), None)
    progress.keep(Offset(1))
    files.fail("replace", Fault.BEFORE, "read-lease")
    progress.keep(Offset(2))
    assert held_snapshots(files, table._paths) == [1]
    assert "the read lease stays behind, so expiry keeps more snapshots" in caplog.text
    progress.keep(Offset(3))
    assert held_snapshots(files, table._paths) == [3]
    progress.close()
    assert leases(table) == []


def test_no_second_lease_is_tried_where_the_storage_gives_none(
    table: wt.Table, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFileIO(LocalFileIO(fsync=False))
    files.fail("replace", Fault.BEFORE, "read-lease")
    progress = StreamProgress(replace(table._state(), file_io=files), None)
    for next_snapshot in (1, 2):
        progress.keep(Offset(next_snapshot))
    assert caplog.text.count("no read lease, so expiry may overtake this stream") == 1
    assert leases(table) == []


def test_who_goes_back_and_is_refused_is_told_that_nothing_is_held(
    table: wt.Table, caplog: pytest.LogCaptureFixture
) -> None:
    files = FaultyFileIO(LocalFileIO(fsync=False))
    progress = StreamProgress(replace(table._state(), file_io=files), None)
    progress.keep(Offset(3))
    files.fail("delete", Fault.BEFORE, "read-lease")
    progress.keep(Offset(2))
    assert "no read lease, so expiry may overtake this stream" in caplog.text
