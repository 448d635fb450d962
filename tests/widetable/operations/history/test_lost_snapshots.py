"""Snapshots that were there and are gone: nothing reads past them, begins anew or cleans up, until somebody accepts the
loss; and a table that never had one is not taken for such a table.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.killing_file_io import POINTS
from tests.kill.processes import start
from tests.kill.workload import batch as kill_batch
from tests.kill.workload import table_options, table_schema
from tests.support.faults.faults import WRITES, FaultyFileIO
from tests.support.models.kept_rows import (
    KeptRows,
    batch,
    create,
    expire_all,
    files_of,
    lived_in_table,
    rows,
)
from widetable.commit.snapshots import snapshot_store
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.lost_snapshots import accept_lost_snapshots
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)

USES: Mapping[str, Callable[[wt.Table], object]] = {
    "scan": rows,
    "scan at a time": lambda table: rows(table, timestamp=10**15),
    "lookup": lambda table: table.lookup([{"k": 1, "p": 1}]),
    "write": lambda table: table.write(batch(9)),
    "overwrite": lambda table: table.overwrite(batch(9)),
    "properties": lambda table: table.commit_append([], properties={"a": "b"}),
    "compact": lambda table: table.compact(full=True),
    "expire": expire_all,
    "orphans": lambda table: table.remove_orphan_files(older_than_millis=0),
    "follow": lambda table: list(table.follow(timeout=0)),
    "inspect": lambda table: table.inspect(),
    "audit": lambda table: table.audit(),
    "maintain": lambda table: table.maintain(once=True),
    "tag": lambda table: table.create_tag("new"),
}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "_PAUSE_SECONDS", 0)


def paths(table: wt.Table) -> TablePaths:
    return TablePaths(table.path)


def everything(table: wt.Table) -> dict[str, bytes]:
    """All that a use may not change; leases and turns come and go, and say nothing of rows."""
    root = Path(table.path)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "lease" not in path.name and not path.name.endswith("-turn")
    }


def lose_newest(table: wt.Table, count: int) -> list[int]:
    """Delete the newest snapshot files; their ids."""
    ids = [snapshot.id for snapshot in table.snapshots()][-count:]
    for id in ids:
        os.unlink(paths(table).snapshot(id))
    return ids


# LATEST names what is not there


@pytest.mark.parametrize("use", USES)
def test_a_lost_newest_snapshot_is_reported_by_every_use(tmp_path: Path, use: str) -> None:
    table = lived_in_table(tmp_path)
    (lost,) = lose_newest(table, 1)
    before = everything(table)
    with pytest.raises(wt.DamagedError, match=rf"snapshot-{lost}: .*accept_lost_snapshots"):
        USES[use](wt.Table.open(table.path))
    assert everything(table) == before


def test_older_snapshots_and_tags_can_be_read_meanwhile(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    lost = lose_newest(table, 2)
    for id, expected in kept.snapshots.items():
        if id not in lost:
            assert rows(table, snapshot_id=id) == expected
    assert rows(table, tag="late") == kept.tags["late"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_loss_that_is_accepted_lets_the_table_go_on(tmp_path: Path, count: int) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    newest = lose_newest(table, count)[0] - 1
    kept = KeptRows({id: kept.snapshots[id] for id in range(1, newest + 1)}, kept.tags)
    assert table.accept_lost_snapshots() == newest
    kept.check(table)
    assert rows(table) == kept.snapshots[newest]
    assert table.write(batch(9)).snapshot_id == newest + 1
    assert table.audit().ok
    expire_all(table)
    table.remove_orphan_files(older_than_millis=0)
    assert table.audit().ok
    kept.check(table)


def test_without_a_loss_nothing_is_done(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    for hint in (b"3", b"", b"x", None):
        IO.delete(paths(table).latest_hint)
        if hint is not None:
            IO.replace(paths(table).latest_hint, hint)
        before = everything(table)
        assert table.accept_lost_snapshots() == table.snapshots()[-1].id
        assert everything(table) == before


def test_a_tag_of_a_lost_snapshot_is_a_way_back(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    table.create_tag("newest")
    kept = KeptRows.of(table)
    (lost,) = lose_newest(table, 1)
    with pytest.raises(wt.InvalidError, match=r"newest.*copy the newest one"):
        table.accept_lost_snapshots()
    shutil.copy(paths(table).tag("newest"), paths(table).snapshot(lost))
    kept.check(table)
    assert rows(table) == kept.snapshots[lost]


def test_a_consumer_of_a_lost_snapshot_must_start_anew(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    newest = table.snapshots()[-1].id
    for name, next_snapshot in (("behind", 3), ("at the end", newest), ("ahead", newest + 1)):
        IO.replace(paths(table).consumer(name), b'{"nextSnapshot": %d}' % next_snapshot)
    lose_newest(table, 1)
    with pytest.raises(wt.InvalidError, match=r"consumers ahead of .*delete_consumer"):
        table.accept_lost_snapshots()
    table.delete_consumer("ahead")
    assert table.accept_lost_snapshots() == newest - 1
    assert table.consumers() == {"at the end": newest, "behind": 3}


@pytest.mark.parametrize("hint", [b"", b"1", b"x", b"-3", b"9" * 30])
def test_a_torn_hint_is_none(tmp_path: Path, hint: bytes) -> None:
    table = lived_in_table(tmp_path)
    expected = rows(table)
    IO.replace(paths(table).latest_hint, hint)
    assert rows(table) == expected


def test_a_rollback_of_another_client_that_writes_its_hint_last(tmp_path: Path) -> None:
    table = lived_in_table(tmp_path)
    kept = KeptRows.of(table)
    newest = lose_newest(table, 2)[0] - 1
    faulty = FaultyFileIO(IO)
    hint = paths(table).latest_hint
    faulty.run_before("read", lambda: IO.replace(hint, str(newest).encode()), "LATEST", skip=4)
    assert rows(wt.Table.open(table.path, file_io=faulty)) == kept.snapshots[newest]


def test_a_hint_whose_snapshot_comes_and_expires_meanwhile(tmp_path: Path) -> None:
    """The hint is read; then the snapshot that it names expires, and newer ones come."""
    table = lived_in_table(tmp_path)
    newest = table.snapshots()[-1].id
    faulty = FaultyFileIO(IO)

    def go_on() -> None:
        for _ in range(3):
            table.overwrite(batch(1))
        expire_all(table)

    faulty.run_before("exists", go_on, f"snapshot-{newest + 1}")
    assert SnapshotStore(faulty, paths(table)).latest_id() == newest + 3


# No snapshot at all


def lose_all(table: wt.Table) -> None:
    shutil.rmtree(paths(table).snapshot_dir)


def only(*kept: str) -> Callable[[wt.Table], None]:
    """Of all that shows snapshots, leave what matches."""

    def leave(table: wt.Table) -> None:
        root = Path(table.path)
        traces = ["snapshot/*", "tag/*", "consumer/*", "service/*", "changelog/*", "manifest/*"]
        keep = {path for pattern in kept for path in root.glob(pattern)}
        assert keep
        for path in (path for pattern in traces for path in root.glob(pattern)):
            if path not in keep:
                path.unlink()

    return leave


TRACES = {
    "LATEST": "snapshot/LATEST",
    "EARLIEST": "snapshot/EARLIEST",
    "a tag": "tag/tag-early",
    "a consumer": "consumer/consumer-c",
    "a note of expiry": "service/widetable-retired-snapshot-1",
    "commits of expired snapshots": "service/widetable-last-commits",
    "a changelog": "changelog/changelog-1",
    "the mark": "service/widetable-had-snapshots",
    "manifests": "manifest/*",
}


def table_with_every_trace(folder: Path) -> wt.Table:
    table = lived_in_table(folder)
    first = IO.read(paths(table).snapshot(1))
    IO.replace(paths(table).consumer("c"), b'{"nextSnapshot": 3}')
    for path in (
        paths(table).retired_snapshot(1),
        paths(table).last_commits,
        f"{table.path}/changelog/changelog-1",
    ):
        IO.replace(path, first)
    return table


@pytest.mark.parametrize("trace", TRACES)
def test_any_trace_of_snapshots_stops_every_use(tmp_path: Path, trace: str) -> None:
    table = table_with_every_trace(tmp_path)
    only(TRACES[trace])(table)
    before = everything(table)
    for name, use in USES.items():
        MANIFEST_CACHE.clear()
        with pytest.raises(wt.DamagedError, match=r"found no snapshot, but"):
            use(wt.Table.open(table.path))
        assert everything(table) == before, name
    with pytest.raises(wt.DamagedError):
        table.accept_lost_snapshots()
    assert everything(table) == before


def test_a_chain_of_one_snapshot_is_known_by_its_mark(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(batch(0))
    lose_all(table)
    with pytest.raises(wt.DamagedError, match="widetable-had-snapshots"):
        table.write(batch(1))


def test_the_mark_is_made_up_for_by_the_next_commit(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(batch(0))
    os.unlink(paths(table).had_snapshots_mark)
    wt.Table.open(table.path).write(batch(1))
    assert os.path.exists(paths(table).had_snapshots_mark)


def test_the_mark_of_another_life_of_the_table_shows_nothing(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.write(batch(0))
    mark = IO.read(paths(table).had_snapshots_mark)
    wt.Catalog(str(tmp_path)).drop_table("db.t")
    again = create(tmp_path)
    IO.replace(paths(again).had_snapshots_mark, mark)
    assert rows(again) == []
    assert again.write(batch(0)).snapshot_id == 1


def test_cleaning_deletes_nothing_without_a_snapshot(tmp_path: Path) -> None:
    """Even when nothing else is left that shows one: the files may be all that is left of a table."""
    table = lived_in_table(tmp_path)
    only("schema/*", "manifest/nothing", "p=*")(table)
    IO.write_new(f"{table.path}/snapshot/.snapshot-1.5c.tmp", b"x")
    before = everything(table)
    with pytest.raises(wt.DamagedError, match="no snapshot"):
        table.remove_orphan_files(older_than_millis=0)
    assert everything(table) == before
    for folder in Path(table.path).glob("p=*"):
        shutil.rmtree(folder)
    assert len(table.remove_orphan_files(older_than_millis=0).paths) == 1


# A table that never had one


def test_a_new_table_is_empty(tmp_path: Path) -> None:
    table = create(tmp_path)
    IO.replace(paths(table).consumer("c"), b'{"nextSnapshot": 1}')
    assert rows(table) == []
    assert table.audit().ok
    assert table.compact().committed is False
    assert expire_all(table).ids == ()
    assert table.remove_orphan_files(older_than_millis=0).paths == ()
    assert table.write(batch(0)).snapshot_id == 1


class Killed(BaseException):
    """The process is gone."""


class DyingFileIO(FaultyFileIO):
    """Dies at a change of the disk, once `left` were made, and at all later ones: nothing cleans up."""

    def __init__(self, left: int) -> None:
        super().__init__(IO)
        for operation in WRITES:
            self.run_before(operation, self._change, times=10**6)
        self._left = left

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


def test_writers_killed_in_their_first_commit_leave_a_table_that_can_be_written(
    tmp_path: Path,
) -> None:
    """At every operation in turn, two in a row: what one leaves must not look like a lost snapshot to the next."""
    at, is_through = 0, False
    while not is_through:
        table = create(tmp_path / str(at), {"changelog-producer": "input"})
        for way in (wt.Table.write, wt.Table.overwrite):
            faulty = DyingFileIO(at)
            try:
                way(wt.Table.open(table.path, file_io=faulty), batch(1))
                is_through = True
            except Killed:
                MANIFEST_CACHE.clear()
        if not table.snapshots():
            assert rows(table) == []
        table.write(batch(2))
        found = {row["v"] for row in table.scan().to_arrow().to_pylist()}
        assert set(batch(2)["v"].to_pylist()) <= found
        table.remove_orphan_files(older_than_millis=0)
        assert table.audit().ok
        at += 1
    assert at > 10


def test_a_writer_that_is_really_killed_in_its_first_commit(tmp_path: Path) -> None:
    for point in POINTS:
        table = wt.Catalog(str(tmp_path / point)).create_table(
            "db.t", table_schema(), primary_key=["k"], options=table_options()
        )
        arguments = [table.path, str(tmp_path / f"{point}.log"), "1", "0", "1", point, "0"]
        process = start("writer", arguments, tmp_path / "out.txt")
        process.join()
        assert process.exitcode in (-9, 0), (tmp_path / "out.txt").read_text()
        table.write(kill_batch(1, 0, 0), "writer-0", 0)
        assert table.scan().to_arrow().num_rows == kill_batch(1, 0, 0).num_rows
        table.remove_orphan_files(older_than_millis=0)
        assert table.audit(start=0).ok


def test_accepting_is_for_tables_only(tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError, match="no schema file"):
        accept_lost_snapshots(OpenTable(str(tmp_path), IO))
    assert files_of(create(tmp_path)) == {"schema/schema-0"}


AT_A_TIME: tuple[Callable[[wt.Table, int], object], ...] = (
    lambda table, millis: rows(table, timestamp=millis),
    lambda table, millis: list(
        table.follow(scan_mode="from-timestamp", timestamp=millis, timeout=0)
    ),
    lambda table, millis: table.rollback(timestamp=millis, dry_run=True),
)


def test_a_gap_in_the_middle_stops_neither_expiry_nor_reads_of_other_times(tmp_path: Path) -> None:
    table = create(tmp_path, options={"bucket": "1"})
    kept, times = {}, {}
    for number in range(10):
        table.write(batch(number))
        newest = table.snapshots()[-1]
        kept[newest.id], times[newest.id] = rows(table), newest.time_millis
        time.sleep(0.002)
    lost = range(list(kept)[3], list(kept)[6])  # those of compactions, too
    for id in lost:
        os.unlink(paths(table).snapshot(id))
    for id, expected in kept.items():
        if id not in lost:
            assert rows(table, timestamp=times[id]) == expected
        else:
            for use in AT_A_TIME:
                with pytest.raises(wt.DamagedError, match=f"snapshot-{lost[0]}: "):
                    use(table, times[id])
    expire_all(table)
    assert [snapshot.id for snapshot in table.snapshots()] == [list(kept)[-1]]
    assert rows(table) == kept[list(kept)[-1]]
