"""Streams of a table that went back to an older state, and on: snapshots have numbers that others had before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import widetable as wt
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.snapshot_mark import mark_of
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.read.stream_plan import Limits, Offset, advance, offset_from_json
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

Restore = Callable[[], wt.Table]


def put(table: wt.Table, first: int, last: int) -> None:
    for key in range(first, last + 1):
        table.write([{"k": key, "v": key}])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """At snapshot 5, of which there is a backup."""
    options = {"bucket": "1", "write-only": "true", "widetable.fsync": "false"}
    columns = {"k": "INT", "v": "INT"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["k"], options=options
    )
    put(made, 1, 5)
    shutil.copytree(made.path, tmp_path / "backup")
    return made


def restored(table: wt.Table) -> wt.Table:
    """From the backup; consumers stay, as a job's checkpoint does."""
    backup, path = Path(table.path).parent.parent / "backup", Path(table.path)
    consumers = path / "consumer"
    if consumers.exists():
        shutil.copytree(consumers, backup / "consumer", dirs_exist_ok=True)
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    return wt.Table.open(path)


def ids(follower: Iterator[object]) -> list[int]:
    return [int(b.schema.metadata[b"widetable.snapshot-id"]) for b in follower]  # type: ignore[attr-defined]


def test_a_consumer_ahead_is_refused_when_others_have_its_numbers(table: wt.Table) -> None:
    put(table, 6, 9)
    assert ids(table.follow("c", "from-snapshot", 1, timeout=0)) == list(range(1, 10))
    back = restored(table)
    put(back, 101, 108)
    with pytest.raises(wt.InvalidError, match="another snapshot 9 "):
        back.follow("c", timeout=0)
    assert ids(back.follow("d", "from-snapshot", 1, timeout=0)) == list(range(1, 14))


def test_a_consumer_of_what_is_still_there_goes_on(table: wt.Table) -> None:
    assert ids(table.follow("c", "from-snapshot", 1, timeout=0)) == list(range(1, 6))
    put(table, 6, 9)
    back = restored(table)
    put(back, 101, 103)
    assert ids(back.follow("c", timeout=0)) == [6, 7, 8]


def test_a_running_follower_is_told(table: wt.Table) -> None:
    follower = table.follow(scan_mode="from-snapshot", snapshot_id=4, timeout=5)
    put(table, 6, 6)
    assert [ids(iter([next(follower)])) for _ in range(3)] == [[4], [5], [6]]
    put(restored(table), 101, 104)
    with pytest.raises(wt.InvalidError, match="another snapshot 6"):
        next(follower)


def test_an_offset_of_a_checkpoint_is_refused(table: wt.Table) -> None:
    put(table, 6, 9)
    source = table.change_source()
    offset = offset_from_json(source.end(9).to_json())
    source.check(offset, 9)
    back = restored(table)
    put(back, 101, 108)
    with pytest.raises(wt.InvalidError, match="another snapshot 9 "):
        back.change_source().check(offset, 13)


def test_an_offset_inside_a_snapshot_names_that_one(tmp_path: Path) -> None:
    options = {"bucket": "3", "write-only": "true", "widetable.fsync": "false"}
    columns = {"k": "INT", "v": "INT"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["k"], options=options
    )
    put(made, 1, 1)
    shutil.copytree(made.path, tmp_path / "backup")
    made.write([{"k": key, "v": 0} for key in range(20)])
    source = made.change_source()
    start = Offset(2, table=source.identity, last_read=source.mark(1))
    inside = advance(start, source.step, 2, Limits(files=1)).offset
    assert (inside.next_snapshot, inside.position) == (2, 1)
    source.check(offset_from_json(inside.to_json()), 2)
    assert advance(inside, source.step, 2, Limits()).offset == source.end(2)
    back = restored(made)
    back.write([{"k": key, "v": 9} for key in range(20)])
    with pytest.raises(wt.InvalidError, match="another snapshot 2 "):
        back.change_source().check(inside, 2)


def test_what_older_versions_wrote_is_still_read(table: wt.Table) -> None:
    body = {"version": 2, "next_snapshot": 4, "is_full": False, "position": 0, "table": "t"}
    assert offset_from_json(body).to_json() == body
    store = ConsumerStore(LocalFileIO(), TablePaths(table.path))
    store.record("old", 4)
    path = Path(table.path, "consumer/consumer-old")
    assert json.loads(path.read_text()) == {"nextSnapshot": 4}
    assert ids(table.follow("old", timeout=0)) == [4, 5]
    found = json.loads(path.read_text())
    mark = mark_of(SnapshotStore(LocalFileIO(), TablePaths(table.path)).load(5))
    assert found == {"nextSnapshot": 6, "widetable.last-read": mark}
    store.renew("old")
    assert json.loads(path.read_text()) == found


def test_snapshots_of_clients_without_a_uuid_have_marks_too(table: wt.Table) -> None:
    store = SnapshotStore(LocalFileIO(), TablePaths(table.path))
    for id in (4, 5):
        path = Path(table.path, f"snapshot/snapshot-{id}")
        body = json.loads(path.read_text())
        body.pop("uuid")
        path.write_text(json.dumps(body))
    marks = [mark_of(store.load(id)) for id in (3, 4, 5)]
    assert len(set(marks)) == 3
    assert mark_of(store.load(4)) == marks[1]
