"""Going back to older rows by a commit that goes forward."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.faults import WRITES, Fault, FaultyFileIO
from tests.widetable.operations.health.damaged_table import create, live, path_of, rows, values
from tests.widetable.operations.health.table_surgery import Surgery
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.format.manifest_entry import ManifestEntry
from widetable.storage.local import LocalFileIO


@pytest.fixture(params=["none", "lookup"])
def table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> wt.Table:
    made = create(tmp_path, monkeypatch, **{"changelog-producer": request.param})
    made.write(rows("a"), "stream", 1)
    made.write(rows("b", range(30)), "stream", 2)
    made.compact(full=True)
    made.write(rows("c", range(50, 120)), "stream", 3)
    return made


@pytest.mark.parametrize("target", [1, 2, 3])
def test_the_rows_of_an_older_snapshot_are_back(table: wt.Table, target: int) -> None:
    then = table.scan(snapshot_id=target).to_arrow().to_pydict()
    done = table.rollback(target)
    assert (done.target_id, done.latest_id, done.snapshot_id) == (target, 4, 5)
    assert table.scan().to_arrow().to_pydict() == then
    undone = [(c.snapshot_id, c.user, c.identifier) for c in done.undone]
    assert undone == [(id, "stream", id - (id == 4)) for id in (2, 4) if id > target]
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4, 5]
    assert table.scan(snapshot_id=4).to_arrow().num_rows == 120
    table.write(rows("d", range(10)))
    table.compact(full=True)
    assert {k: v for k, v in values(table).items() if k >= 10} == {
        k: v for k, v in zip(then["k"], then["a"], strict=True) if k >= 10
    }
    report = table.audit()
    assert report.ok, report.findings


def test_a_dry_run_says_what_it_would_do(table: wt.Table) -> None:
    before = sorted(Path(table.path).rglob("*"))
    reported = table.rollback(2, dry_run=True)
    assert reported.snapshot_id is None
    assert sorted(Path(table.path).rglob("*")) == before
    done = table.rollback(2)
    assert (done.restored_files, done.removed_files) == (
        reported.restored_files,
        reported.removed_files,
    )


def test_what_came_back_survives_the_expiry_of_what_replaced_it(table: wt.Table) -> None:
    """An expiry deletes by name the files that the snapshots in between replaced."""
    then = table.scan(snapshot_id=2).to_arrow()
    table.rollback(2)
    for left in (4, 3, 2, 1):
        table.expire_snapshots(num_retained_min=left, num_retained_max=left, time_retained_millis=0)
        assert table.snapshots()[0].id == 6 - left
        assert table.scan().to_arrow() == then
    assert table.doctor(deep=True).ok
    assert table.remove_orphan_files(0, dry_run=True).paths == ()


def test_a_rollback_can_be_rolled_back(table: wt.Table) -> None:
    newest = table.scan().to_arrow()
    table.rollback(1)
    table.rollback(4)
    assert table.scan().to_arrow() == newest


def test_a_batch_that_is_undone_does_not_come_back(table: wt.Table) -> None:
    table.rollback(2)
    assert not table.write(rows("c", range(50, 120)), "stream", 3).committed
    assert table.write(rows("e", range(5)), "stream", 4).committed


def test_a_tag_of_an_expired_snapshot_and_a_time_are_targets(table: wt.Table) -> None:
    table.create_tag("good", 2)
    then = table.scan(tag="good").to_arrow()
    millis = table.snapshots()[2].time_millis
    assert table.rollback(timestamp=millis, dry_run=True).target_id == 3
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    assert table.rollback(tag="good").snapshot_id == 5
    assert table.scan().to_arrow() == then


def test_a_snapshot_whose_files_are_gone_is_refused(table: wt.Table) -> None:
    entries = table._committer.live_files.live_entries(table.snapshots()[0])
    path = path_of(table, entries[0])
    path.write_bytes(path.read_bytes()[:-1])
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(wt.DamagedError, match="another snapshot") as raised:
        table.rollback(1)
    assert raised.value.subject == str(path)
    assert sorted(Path(table.path).rglob("*")) == before


def test_it_takes_a_table_out_of_damage(table: wt.Table) -> None:
    """The files of the newest snapshot are gone, those of an older one are there."""
    then = table.scan(snapshot_id=3).to_arrow()
    old = {e.file.file_name for e in table._committer.live_files.live_entries(table.snapshots()[2])}
    for entry in live(table):
        if entry.file.file_name not in old:
            path_of(table, entry).unlink()
    assert not table.doctor().ok
    table.rollback(3)
    assert table.scan().to_arrow() == then
    assert table.doctor().ok


def test_rows_that_are_written_meanwhile_are_gone_too(table: wt.Table) -> None:
    """After a rollback the table has the rows of its target, whatever raced it."""
    then = table.scan(snapshot_id=2).to_arrow()
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    other = wt.Table(table.path, LocalFileIO(fsync=False))
    storage.run_before("publish", lambda: other.write(rows("z", range(7))), "snapshot-5")
    done = wt.Table(table.path, storage).rollback(2)
    assert done.snapshot_id == 6
    assert table.scan().to_arrow() == then


def test_wrong_targets_are_refused(table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="none of them"):
        table.rollback()
    with pytest.raises(wt.InvalidError, match="more than one"):
        table.rollback(1, tag="x")
    with pytest.raises(wt.NotFoundError, match="snapshot 9"):
        table.rollback(9)
    assert table.rollback(4).snapshot_id is None


@pytest.mark.parametrize(
    "alter",
    [
        lambda entry: entry._replace(file=entry.file._replace(extra_files=("beside.index",))),
        lambda entry: entry._replace(file=entry.file._replace(external_path="file:///elsewhere")),
    ],
    ids=["extra files", "external path"],
)
def test_files_that_cannot_come_back_are_refused(
    table: wt.Table, tmp_path: Path, alter: Callable[[ManifestEntry], ManifestEntry]
) -> None:
    copy = shutil.copytree(table.path, tmp_path / "copy")
    surgery = Surgery(copy)
    for id in range(1, 5):
        for which in ("base", "delta"):
            surgery.alter_entries(id, which, lambda entries: [alter(entry) for entry in entries])
    before = sorted(copy.rglob("*"))
    with pytest.raises(wt.UnsupportedError, match=r"an external path|the extra file"):
        wt.Table.open(copy).rollback(2)
    assert sorted(copy.rglob("*")) == before


def test_a_newest_snapshot_without_its_manifests_is_given_up_by_moving_it_away(
    table: wt.Table,
) -> None:
    then = table.scan(snapshot_id=3).to_arrow()
    newest = table.snapshots()[-1]
    Path(table.path, "manifest", newest.delta_manifest_list).unlink()
    MANIFEST_CACHE.clear()
    with pytest.raises(wt.DamagedError):
        table.rollback(3)
    Path(table.path, "snapshot", f"snapshot-{newest.id}").rename(Path(table.path, "moved"))
    assert table.accept_lost_snapshots() == 3
    assert table.scan().to_arrow() == then


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.FULL])
@pytest.mark.parametrize("operation", WRITES)
def test_whatever_fails_the_rows_are_those_before_or_those_of_the_target(
    table: wt.Table, operation: str, fault: Fault
) -> None:
    rows_of = [table.scan(snapshot_id=id).to_arrow() for id in (4, 1)]
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail(operation, fault)
    with contextlib.suppress(wt.StorageError):
        wt.Table(table.path, storage).rollback(1)
    assert table.scan().to_arrow() in rows_of
    table.rollback(1)
    assert table.scan().to_arrow() == rows_of[1]
    assert table.doctor(deep=True).ok


@pytest.mark.parametrize("linked", range(4))
def test_what_was_linked_goes_when_the_next_file_cannot_be(table: wt.Table, linked: int) -> None:
    before = sorted(Path(table.path).glob("bucket-*/*"))
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("link", Fault.FULL, "/bucket-", skip=linked)
    with pytest.raises(wt.StorageError):
        wt.Table(table.path, storage).rollback(2)
    assert sorted(Path(table.path).glob("bucket-*/*")) == before


def test_tags_are_asked_once_per_bucket_whatever_is_missing(table: wt.Table) -> None:
    table.create_tag("good", 2)
    files = [
        path_of(table, e) for e in table._committer.live_files.live_entries(table.snapshots()[1])
    ]
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    asked = []
    for path in sorted(files):
        path.unlink()
        storage = FaultyFileIO(LocalFileIO(fsync=False))
        with pytest.raises(wt.DamagedError):
            wt.Table(table.path, storage).rollback(tag="good")
        asked.append(storage.count("read", "/tag/"))
    assert [path.parent.name for path in sorted(files)] == ["bucket-0"] * 2 + ["bucket-1"] * 2
    assert asked[0] == asked[1] < asked[2] == asked[3]


def test_a_tag_whose_snapshot_has_expired_and_whose_file_is_missing_is_damage(
    table: wt.Table,
) -> None:
    table.create_tag("good", 2)
    (lost, *_) = table._committer.live_files.live_entries(table._committer.snapshots.load(2))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)
    path_of(table, lost).unlink()
    newest = table.snapshots()[-1].id
    with pytest.raises(wt.DamagedError, match=lost.file.file_name):
        table.rollback(tag="good")
    assert table.snapshots()[-1].id == newest


@pytest.mark.parametrize("gone", [1, 2])
def test_missing_hashes_of_dynamic_buckets_do_not_hold_it_up(tmp_path: Path, gone: int) -> None:
    """The next writer makes them anew of the data files: each key stays in one bucket."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.dynamic",
        {"p": "INT", "k": "BIGINT", "v": "BIGINT"},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": "-1", "widetable.fsync": "false"},
    )
    table.write({"p": [1, 2], "k": [1, 2], "v": [1, 1]})
    then = table.snapshots()[-1]
    table.write({"p": [1, 2], "k": [1, 3], "v": [2, 2]})
    for entry in table._committer.live_files.index(then)[:gone]:
        Path(table._paths.index(entry.file_name)).unlink()
    table = wt.Table.open(table.path)
    table.rollback(then.id)
    table.write({"p": [1, 2], "k": [1, 2], "v": [5, 6]})
    found = table.scan().to_arrow().to_pylist()
    assert [(row["p"], row["k"], row["v"]) for row in found] == [(1, 1, 5), (2, 2, 6)]
    assert len(table._committer.live_files.index(table.snapshots()[-1])) == 2
