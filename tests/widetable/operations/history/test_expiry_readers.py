"""Readers while snapshots expire: consumers and leases keep what is not read, others learn what happened."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.kept_rows import expire_all, leftovers, lived_in_table, rows
from widetable.commit.holds.read_lease import hold
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def ids(table: wt.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def paths(table: wt.Table) -> TablePaths:
    return TablePaths(table.path)


def test_consumers_keep_what_they_have_not_read(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path, {"changelog-producer": "input"})
    last = ids(table)[-1]
    IO.replace(paths(table).consumer("slow"), b'{"nextSnapshot": 4}')
    IO.replace(paths(table).consumer("fast"), json.dumps({"nextSnapshot": last + 1}).encode())
    assert table.consumers() == {"fast": last + 1, "slow": 4}
    changes = table.changes(3, last)
    assert expire_all(table).ids == (1, 2, 3)
    assert table.changes(3, last).equals(changes)
    assert table.delete_consumer("slow")
    assert not table.delete_consumer("slow")
    expire_all(table)
    assert ids(table) == [last]


def test_idle_consumers_are_forgotten(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path, {"consumer.expiration-time": "1 d"})
    IO.replace(paths(table).consumer("idle"), b'{"nextSnapshot": 1}')
    IO.replace(paths(table).consumer("busy"), b'{"nextSnapshot": 3}')
    day_before = time.time() - 86_500
    os.utime(paths(table).consumer("idle"), (day_before, day_before))
    reported = table.expire_snapshots(num_retained_min=1, time_retained_millis=0, dry_run=True)
    assert (reported.consumers, reported.ids) == (("idle",), (1, 2))
    assert table.consumers() == {"busy": 3, "idle": 1}
    result = expire_all(table)
    assert (result.consumers, result.ids) == (("idle",), (1, 2))
    assert (result.files, result.bytes) == (reported.files, reported.bytes)
    assert table.consumers() == {"busy": 3}


def test_consumers_are_not_forgotten_by_default(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    IO.replace(paths(table).consumer("idle"), b'{"nextSnapshot": 3}')
    os.utime(paths(table).consumer("idle"), (1.0, 1.0))
    assert expire_all(table).consumers == ()
    assert ids(table)[0] == 3


def test_a_reader_with_a_lease_reads_on(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    expected = rows(table, snapshot_id=2)
    lease = hold(IO, paths(table), 2, 60_000)
    reads = table.scan(snapshot_id=2).split_reads()
    expire_all(table)
    MANIFEST_CACHE.clear()
    found = pa.Table.from_batches([b for read in reads for b in read.to_batches()])
    assert len(found) == len(expected)
    assert rows(table, snapshot_id=2) == expected
    lease.move(4)
    assert expire_all(table).ids == (2, 3)
    lease.release()
    expire_all(table)
    assert len(ids(table)) == 1
    assert leftovers(table) == set()


def test_a_lease_that_ran_out_holds_nothing(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    lease = hold(IO, paths(table), 2, 0, renews=False)
    assert lease.is_ours
    expire_all(table)
    assert len(ids(table)) == 1
    assert not list(Path(table.path).glob("service/*lease*"))


def test_a_reader_without_one_is_shown_that_the_snapshot_expired(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    for name in table.tags():
        table.delete_tag(name)
    unplanned = table.scan(snapshot_id=2)
    planned = table.scan(snapshot_id=2).split_reads()
    expire_all(table)
    MANIFEST_CACHE.clear()
    with pytest.raises(wt.NotFoundError, match="expired"):
        unplanned.to_arrow()
    for read in planned:
        with pytest.raises(wt.NotFoundError, match="expired"):
            list(read.to_batches())
