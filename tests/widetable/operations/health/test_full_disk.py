"""A real disk that is full to the last byte: expiry and maintenance make room on it, and all goes on."""

from __future__ import annotations

import logging
import random
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.patience import wait_for
from tests.support.faults.small_disk import fill, free_bytes, is_full, small_disk
from tests.support.programs.command_line import run
from widetable.commit.holds.read_lease import hold
from widetable.format.human_units import size_text
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

__all__ = ["small_disk"]  # a fixture

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.binary())])
KEEP_ONE = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 ms",
}


def rows(number: int) -> pa.Table:
    """Values that do not compress."""
    values = [random.Random(f"{number} {key}").randbytes(30_000) for key in range(3)]
    return pa.table({"k": list(range(3)), "v": values}, SCHEMA)


@pytest.fixture
def table(small_disk: Path) -> wt.Table:
    """Full of snapshots, whose files newer ones have replaced; the disk has no byte left."""
    options = {"bucket": "1", "write-only": "true", "changelog-producer": "lookup"}
    table = wt.Catalog(str(small_disk)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=options
    )
    for number in range(6):
        table.write(rows(number), "stream", number)
        table.compact(full=True)
    fill(small_disk)
    with pytest.raises(wt.StorageError):
        table.write(rows(7), "stream", 7)
    assert is_full(small_disk)
    return table


def check_goes_on(table: wt.Table) -> None:
    """Writes, reads and compactions work again, and nothing was lost."""
    assert table.write(rows(8), "stream", 8).committed
    assert not table.write(rows(5), "stream", 5, replay=True).committed
    table.compact(full=True)
    assert table.scan().to_arrow().equals(rows(8))
    report = table.audit()
    assert report.ok, report.findings


def test_expiry_frees_it(table: wt.Table, small_disk: Path) -> None:
    newest = table.snapshots()[-1].id
    done = table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    assert done.ids == tuple(range(1, newest))
    assert free_bytes(small_disk) > done.bytes / 2 > 0
    check_goes_on(table)


def test_a_reader_keeps_its_snapshots_there(table: wt.Table, small_disk: Path) -> None:
    """Its lease was taken while there was room; one that is refused for lack of room says so."""
    held = rows(2)
    (small_disk / "filler").unlink()
    lease = hold(LocalFileIO(), TablePaths(table.path), 6, 600_000)
    assert lease.snapshot_id == 6
    fill(small_disk)
    with pytest.raises(wt.StorageError):
        hold(LocalFileIO(), TablePaths(table.path), 6, 600_000)
    assert table.expire_snapshots(num_retained_min=1, time_retained_millis=0).ids == (1, 2, 3, 4, 5)
    assert table.scan(snapshot_id=6).to_arrow().equals(held)
    lease.release()
    assert hold(LocalFileIO(), TablePaths(table.path), 7, 600_000).snapshot_id == 7
    check_goes_on(table)


def test_what_commits_remember_is_kept_without_room(table: wt.Table, small_disk: Path) -> None:
    """When only another client has committed since: its snapshots remember nothing of ours."""
    (small_disk / "filler").unlink()
    paths, file_io = TablePaths(table.path), LocalFileIO()
    newest = table.snapshots()[-1].id
    body = file_io.read(paths.snapshot(newest)).replace(b"widetable.", b"another.")
    file_io.replace(paths.snapshot(newest), body)
    fill(small_disk)
    table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    check_goes_on(table)


def let_the_options_expire(table: wt.Table, small_disk: Path) -> None:
    """And leave something to compact."""
    (small_disk / "filler").unlink()
    wt.Catalog(str(small_disk)).alter_table("db.t", set_options=KEEP_ONE)
    table.write(rows(6), "stream", 6)
    fill(small_disk)


def test_maintaining_once_makes_room_for_its_own_compaction(
    table: wt.Table, small_disk: Path
) -> None:
    let_the_options_expire(table, small_disk)
    ran = run("maintain", table.path, "--once")
    assert ran.exit_code == 0, ran.stderr
    assert "1 compaction" in ran.stdout
    check_goes_on(table)


def test_a_maintainer_makes_room_and_says_how_much(
    table: wt.Table, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    let_the_options_expire(table, small_disk)
    stop, seen = threading.Event(), list[MaintenanceResult]()
    with caplog.at_level(logging.INFO, logger="widetable"):
        thread = threading.Thread(
            target=table.maintain,
            kwargs={"interval_millis": 10, "stop": stop, "on_round": seen.append},
        )
        thread.start()
        try:
            wait_for(lambda: any(done.compactions for done in seen))
        finally:
            stop.set()
            thread.join()
    assert seen[0].failures == 1
    assert seen[0].freed_bytes > 100_000
    freed = size_text(seen[0].freed_bytes)
    assert f"{seen[0].freed_files} files of {freed} freed" in caplog.text
    check_goes_on(table)


PARTITIONED = pa.schema([pa.field("dt", pa.string(), nullable=False), *SCHEMA])


def test_partitions_and_tags_that_cannot_be_written_keep_no_snapshot(small_disk: Path) -> None:
    """Both come before snapshots go, and take room. What was refused is raised, and done once there is room."""
    table = wt.Catalog(str(small_disk)).create_table(
        "db.t",
        PARTITIONED,
        primary_key=["dt", "k"],
        partition_by=["dt"],
        options={"bucket": "1", "write-only": "true", **KEEP_ONE},
    )
    for number in range(6):
        table.write(rows(number).add_column(0, PARTITIONED.field(0), [["2020-01-01"] * 3]))
        table.compact(full=True)
    options = {"partition.expiration-time": "1 d", "tag.automatic-creation": "process-time"}
    table = wt.Catalog(str(small_disk)).alter_table("db.t", set_options=options)
    table.create_tag(f"{datetime.now() - timedelta(days=2):%Y-%m-%d}", snapshot_id=6)
    fill(small_disk)
    with pytest.raises(wt.StorageError):
        table.maintain(once=True)
    assert [snapshot.id for snapshot in table.snapshots()] == [
        7,
        8,
        9,
        10,
        11,
        12,
    ]  # 7 is to be tagged
    assert free_bytes(small_disk) > 100_000
    table.maintain(once=True)
    assert [snapshot.id for snapshot in table.tags().values()] == [6, 7]
    assert len(table.snapshots()) == 1
    assert table.scan().to_arrow().num_rows == 0
