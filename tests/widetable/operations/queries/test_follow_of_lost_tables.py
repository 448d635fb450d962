"""Followers of a table that is dropped, made again or rolled back: an error, never another table's rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths


def create(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())]),
        primary_key=["k"],
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
    )


def put(table: wt.Table, keys: Sequence[int] | range, a: int) -> None:
    table.write(pa.table({"k": pa.array(list(keys), pa.int64()), "a": [a] * len(keys)}))


@pytest.fixture
def three(tmp_path: Path) -> wt.Table:
    """Three commits, of the keys 1, 2 and 3."""
    table = create(tmp_path)
    for k in (1, 2, 3):
        put(table, [k], a=10 * k)
    return table


def drop(table: wt.Table) -> None:
    wt.Catalog(str(Path(table.path).parent.parent)).drop_table("db.t")


@pytest.mark.parametrize("consumer", [None, "c"])
@pytest.mark.parametrize("commits", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("when", ["idle", "within a snapshot", "between snapshots"])
def test_a_follower_never_goes_on_in_another_table(
    tmp_path: Path, consumer: str | None, commits: int, when: str
) -> None:
    """However many snapshots the new one has: fewer than were read, as many, or more."""
    options = {"bucket": "4"}
    table = create(tmp_path, options)
    for k in (1, 2, 3):
        put(table, range(10), a=k)
    follower = table.follow(consumer, snapshot_id=1, timeout=0.001, poll_interval=0)
    read = {"idle": 12, "within a snapshot": 10, "between snapshots": 8}[when]
    found = list(itertools.islice(follower, read))
    if when == "idle":
        assert len(found) == read
    drop(table)
    again = create(tmp_path, options)
    for k in range(commits):
        put(again, [1], a=100 + k)
    with pytest.raises(wt.InvalidError, match="dropped and made again"):
        found += follower
    assert max(max(batch["a"].to_pylist()) for batch in found) <= 3
    assert again.consumers() == {}
    assert [batch["a"].to_pylist() for batch in again.follow(timeout=0)] == [[99 + commits]][
        :commits
    ]


def test_a_table_that_is_made_again_while_a_step_is_planned(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, [1], a=1)
    faulty = FaultyFileIO(LocalFileIO(fsync=False))
    follower = wt.Table.open(table.path, file_io=faulty).follow(
        "c", scan_mode="latest", timeout=0.001, poll_interval=0
    )
    put(table, [2], a=2)

    def make_again() -> None:
        drop(table)
        again = create(tmp_path)
        for k in range(3):
            put(again, [1], a=100 + k)

    faulty.run_before("read", make_again, "/snapshot/snapshot-2")
    with pytest.raises(wt.InvalidError, match="dropped and made again"):
        next(follower)
    assert wt.Table.open(table.path).consumers() == {}


def test_a_follower_of_a_dropped_table_ends(three: wt.Table) -> None:
    follower = three.follow(poll_interval=0)
    list(itertools.islice(follower, 1))
    drop(three)
    with pytest.raises(wt.NotFoundError):
        next(follower)


def test_what_a_follower_has_read_must_be_there(three: wt.Table) -> None:
    """Another client has rolled the table back."""
    follower = three.follow(snapshot_id=1, timeout=0.001, poll_interval=0)
    three.follow("c", scan_mode="latest", timeout=0).close()
    assert len(list(itertools.islice(follower, 3))) == 3
    paths = TablePaths(three.path)
    Path(paths.latest_hint).write_text("2")
    Path(paths.snapshot(3)).unlink()
    message = r"snapshot 4 of .*an offset past the newest snapshot, 2.*Restore"
    with pytest.raises(wt.InvalidError, match=message):
        next(follower)
    with pytest.raises(wt.InvalidError, match=message):
        three.follow("c")


def test_a_start_that_is_yet_to_come_is_no_progress(three: wt.Table) -> None:
    with three.follow("c", snapshot_id=6, timeout=0.001, poll_interval=0) as follower:
        assert list(follower) == []
        assert three.consumers() == {}
    follower = three.follow("c", snapshot_id=6, timeout=0.001, poll_interval=0)
    for k in (4, 5, 6, 7):
        put(three, [k], a=10 * k)
    assert [batch["k"].to_pylist() for batch in follower] == [[6], [7]]
    assert three.consumers() == {"c": 8}
