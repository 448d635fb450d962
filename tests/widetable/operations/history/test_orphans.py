"""Cleaning of orphans: everything that nobody names is found, nothing else is touched, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import fastavro
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.kept_rows import (
    KeptRows,
    age,
    batch,
    expire_all,
    files_of,
    leftovers,
    lived_in_table,
    rows,
)
from widetable.commit.holds.read_lease import hold
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.commit.transaction.committer import Committer
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)
DAY_SECONDS = 86_400


def paths(table: wt.Table) -> TablePaths:
    return TablePaths(table.path)


def relative(table: wt.Table, found: wt.OrphanResult) -> set[str]:
    return {os.path.relpath(path, table.path) for path in found.paths}


def put(table: wt.Table, names: list[str]) -> None:
    for name in names:
        IO.write_new(f"{table.path}/{name}", b"12345")


ORPHANS = [
    "p=0/bucket-0/data-0.parquet",
    "p=1/bucket-1/changelog-0.parquet",
    "p=0/bucket-7/data-of-another-number-of-buckets.parquet",
    "p=77/bucket-0/data-of-a-partition-without-rows.parquet",
    "p=0/bucket-postpone/data-0.parquet",
    "p=0/bucket-0/anything",
    "manifest/manifest-0",
    "manifest/manifest-list-0",
    "manifest/index-manifest-0",
    "manifest/.manifest-1.tmp",
    "index/index-0",
    "statistics/stat-0",
    "snapshot/.snapshot-77.5c.tmp",
    "schema/.schema-1.5c.tmp",
    "tag/.tag-x.5c.tmp",
    "changelog/.changelog-1.5c.tmp",
    "consumer/.consumer-x.5c.tmp",
    "service/.widetable-compaction-lease.5c.tmp",
]
STRANGERS = [
    "README",
    "p=0/README",
    "_SUCCESS",
    "notes/data-0.parquet",
    "bucket-0/data-0.parquet",  # the table has partitions
    "q=1/bucket-0/data-0.parquet",
    "p=0/bucket-x/data-0.parquet",
    "p=0/bucket-0/deeper/data-0.parquet",
    "snapshot/snapshot-1.backup",
    "schema/notes",
    "service/other",
    "branch/notes",
]


def test_all_that_nobody_names_is_found_and_nothing_else(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    IO.replace(paths(table).consumer("c"), b'{"nextSnapshot": 3}')
    before = files_of(table)
    put(table, ORPHANS + STRANGERS)
    age(table, 2 * DAY_SECONDS)
    reported = table.remove_orphan_files(dry_run=True)
    assert relative(table, reported) == set(ORPHANS)
    assert reported.bytes == 5 * len(ORPHANS)
    assert files_of(table) == before | set(ORPHANS) | set(STRANGERS), "a dry run deletes nothing"
    done = table.remove_orphan_files()
    assert (done.paths, done.bytes) == (reported.paths, reported.bytes)
    assert files_of(table) == before | set(STRANGERS)
    kept.check(table)
    assert table.consumers() == {"c": 3}
    assert table.remove_orphan_files() == wt.OrphanResult((), 0)


def test_young_files_stay(tmp_path: Path) -> None:
    """They may belong to a commit that is under way."""
    table = lived_in_table(tmp_path)
    put(table, ["p=0/bucket-0/old.parquet"])
    age(table, DAY_SECONDS + 60)
    put(table, ["p=0/bucket-0/young.parquet"])
    assert relative(table, table.remove_orphan_files()) == {"p=0/bucket-0/old.parquet"}
    age(table, 500)
    assert table.remove_orphan_files(older_than_millis=600_000).paths == ()
    found = table.remove_orphan_files(older_than_millis=400_000)
    assert relative(table, found) == {"p=0/bucket-0/young.parquet"}


def test_a_commit_under_way_is_committed_afterwards(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    writer = table.new_writer(batch(0).column_names)
    writer.write(batch(9))
    messages = writer.finish()
    table.remove_orphan_files()
    assert table.commit_append(messages).committed
    found = {row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert set(batch(9)["v"].to_pylist()) <= found


# Where orphans come from


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TORN])
@pytest.mark.parametrize("point", ["write_new", "publish", "open_output", "sync"])
def test_files_of_tries_that_failed(tmp_path: Path, fault: Fault, point: str) -> None:
    table = lived_in_table(tmp_path)
    kept, before = KeptRows.of(table), files_of(table)
    faulty = FaultyFileIO(IO)
    failing = wt.Table.open(table.path, file_io=faulty)
    faulty.fail(point, Fault.BEFORE if point in ("publish", "sync") else fault, times=100)
    faulty.fail("delete", Fault.BEFORE, times=100)
    with pytest.raises(wt.StorageError):
        failing.write(batch(8))
    left = files_of(table) - before
    assert leftovers(table) == left
    assert left or point == "open_output"
    table.remove_orphan_files(older_than_millis=0)
    assert files_of(table) == before
    kept.check(table)


def test_files_of_writers_that_never_committed(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    before = files_of(table)
    writer = table.new_writer(batch(0).column_names)
    writer.write(batch(9))
    messages = writer.finish()
    written = {file.file_name for message in messages for file in message.new_files}
    assert {os.path.basename(name) for name in leftovers(table)} == written
    table.remove_orphan_files(older_than_millis=0)
    assert files_of(table) == before


def test_files_of_expiries_that_did_not_end(tmp_path: Path) -> None:
    """And of which nothing is left that would show the next one."""
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    faulty = FaultyFileIO(IO)
    faulty.fail("delete", Fault.BEFORE, "/bucket-")
    with pytest.raises(wt.StorageError):
        expire_all(wt.Table.open(table.path, file_io=faulty))
    for note in Path(table.path).glob("service/widetable-retired-*"):
        note.unlink()
    assert leftovers(table)
    table.remove_orphan_files(older_than_millis=0)
    assert leftovers(table) == set()
    kept.check(table)
    same = lived_in_table(tmp_path / "same")
    expire_all(same)
    assert len(files_of(table)) == len(files_of(same))


def test_leases_that_ran_out_are_forgotten(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    over = hold(IO, paths(table), 3, 0, renews=False)
    assert over.snapshot_id == 3
    live = hold(IO, paths(table), 3, 60_000)
    table.remove_orphan_files()

    def leases() -> int:
        return len(list(Path(table.path).glob("service/*lease*")))

    assert leases() == 2, "it is not a day ago"
    table.remove_orphan_files(older_than_millis=0, dry_run=True)
    assert leases() == 2
    table.remove_orphan_files(older_than_millis=0)
    assert leases() == 1
    live.release()


# Empty directories


def test_empty_directories_that_are_old_go(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    put(table, ["p=5/bucket-0/data-0.parquet", "p=6/bucket-0/data-0.parquet"])
    for name in ("p=7/bucket-1", "p=8", "p=0/bucket-9", "q=1/bucket-0", "p=6/bucket-1"):
        os.makedirs(f"{table.path}/{name}")
    IO.delete(f"{table.path}/p=5/bucket-0/data-0.parquet")
    age(table, 2 * DAY_SECONDS)
    os.makedirs(f"{table.path}/p=9/bucket-0")
    assert table.remove_orphan_files(dry_run=True).directories == ()
    found = table.remove_orphan_files()
    gone = {os.path.relpath(path, table.path) for path in found.directories}
    empty = {"p=5/bucket-0", "p=5", "p=7/bucket-1", "p=7", "p=8", "p=0/bucket-9"}
    assert gone == empty | {"p=6/bucket-0", "p=6/bucket-1", "p=6"}
    for name in ("q=1/bucket-0", "p=9/bucket-0", "p=0", "p=0/bucket-0"):
        assert os.path.isdir(f"{table.path}/{name}")
    assert rows(table)


# What else names files


def test_branches_keep_their_files(tmp_path: Path) -> None:
    """Made as other clients do: from a tag, its snapshot and the schemas."""
    table = lived_in_table(tmp_path)
    branch = paths(table).of_branch("b")
    snapshot = table.tags()["early"]
    IO.write_new(branch.snapshot(snapshot.id), snapshot.to_json().encode())
    IO.write_new(branch.tag("old"), table.tags()["late"].to_json().encode())
    IO.write_new(branch.schema(0), IO.read(paths(table).schema(0)))
    for name in ("early", "late"):
        table.delete_tag(name)
    named = files_named_by(table, snapshot) | files_named_by(table, table_tag(branch, "old"))
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    assert named <= files_of(table)
    shutil.rmtree(branch.root)
    table.remove_orphan_files(older_than_millis=0)
    assert not named <= files_of(table)


def table_tag(branch: TablePaths, name: str) -> Snapshot:
    return snapshot_from_json(IO.read(branch.tag(name)), name)


def files_named_by(table: wt.Table, snapshot: Snapshot) -> set[str]:
    """Live data files of a snapshot, relative to the table."""
    reads = table.scan(snapshot_id=snapshot.id).split_reads()
    return {
        f"p={read.split.bucket.partition[12]}/bucket-{read.split.bucket.number}/{file.file_name}"
        for read in reads
        for file in read.split.files
    }


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changelogs_that_other_clients_keep_longer(tmp_path: Path, producer: str) -> None:
    """A copy of an expired snapshot in changelog/: its changelog files stay, or what it added."""
    table = lived_in_table(tmp_path, {"changelog-producer": producer})
    for name in table.tags():
        table.delete_tag(name)
    copied = f"{table.path}/changelog/changelog-2"
    IO.write_new(copied, IO.read(paths(table).snapshot(2)))
    snapshot = snapshot_from_json(IO.read(copied), copied)
    listed = snapshot.changelog_manifest_list or snapshot.delta_manifest_list
    live_files = Committer(IO, paths(table)).live_files
    emitted = live_files.changelog_entries(snapshot) or live_files.delta_entries(snapshot)
    emitted_names = {entry.file.file_name for entry in emitted}
    assert emitted_names
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    assert IO.exists(paths(table).manifest(listed))
    assert emitted_names <= {os.path.basename(name) for name in files_of(table)}
    IO.delete(copied)
    table.remove_orphan_files(older_than_millis=0)
    assert not IO.exists(paths(table).manifest(listed))
    assert not emitted_names & {os.path.basename(name) for name in files_of(table)}


def test_index_and_statistics_files_of_kept_snapshots_stay(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    second = table.snapshots()[1]
    schema = {
        "type": "record",
        "name": "IndexManifestEntry",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_ROW_COUNT", "type": "long"},
        ],
    }
    out = BytesIO()
    record = {"_VERSION": 1, "_KIND": 0, "_FILE_NAME": "index-1", "_ROW_COUNT": 3}
    fastavro.writer(out, schema, [record])
    IO.write_new(paths(table).manifest("index-manifest-1"), out.getvalue())
    put(table, ["index/index-1", "index/index-2", "statistics/stat-1", "statistics/stat-2"])
    named = {"indexManifest": "index-manifest-1", "statistics": "stat-1"}
    body = json.loads(second.to_json()) | named
    IO.replace(paths(table).snapshot(second.id), json.dumps(body).encode())
    assert leftovers(table) == {"index/index-2", "statistics/stat-2"}
    table.remove_orphan_files(older_than_millis=0)
    theirs = {"index/index-1", "statistics/stat-1", "manifest/index-manifest-1"}
    assert theirs <= files_of(table)
    expire_all(table)
    assert not theirs & files_of(table)
    assert leftovers(table) == set()


# When it is not known


def lose(pattern: str) -> Callable[[wt.Table], None]:
    def damage(table: wt.Table) -> None:
        os.unlink(min(Path(table.path).glob(pattern)))

    return damage


def lose_snapshots(table: wt.Table) -> None:
    for path in Path(table.path).glob("snapshot/snapshot-*"):
        path.unlink()


def lose_manifest(table: wt.Table) -> None:
    os.unlink(paths(table).manifest(table.snapshots()[-1].delta_manifest_list))


DAMAGES: Mapping[str, Callable[[wt.Table], None]] = {
    "a gap between snapshots": lose("snapshot/snapshot-3"),
    "no snapshot at all": lose_snapshots,
    "a snapshot without its list": lose_manifest,
    "a torn snapshot": lambda table: IO.replace(paths(table).snapshot(4), b"{"),
    "a torn changelog": lambda table: IO.write_new(f"{table.path}/changelog/changelog-1", b"{"),
    "a torn tag": lambda table: IO.replace(paths(table).tag("late"), b"{"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_nothing_is_deleted_when_it_is_not_known_what_is_named(tmp_path: Path, damage: str) -> None:
    table = lived_in_table(tmp_path)
    put(table, ORPHANS)
    DAMAGES[damage](table)
    MANIFEST_CACHE.clear()
    before = files_of(table)
    with pytest.raises(wt.DamagedError):
        table.remove_orphan_files(older_than_millis=0)
    assert files_of(table) == before


def test_wrong_arguments(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    with pytest.raises(wt.InvalidError, match="older_than_millis"):
        table.remove_orphan_files(older_than_millis=-1)
