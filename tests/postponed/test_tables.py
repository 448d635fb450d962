"""Tables with postponed buckets beside the rest: what is refused, changelogs, maintainers, other compactors, damage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.transaction.committer import Committer
from widetable.lsm import moved_rows
from widetable.operations.compaction import postponed_rows

COLUMNS = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "STRING"}


def made(folder: Path, options: dict[str, str] | None = None, **how: Any) -> wt.Table:
    given = {"bucket": "-2", "widetable.fsync": "false", **(options or {})}
    keys = {"primary_key": ["p", "k"], "partition_by": ["p"], **how}
    return wt.Catalog(str(folder)).create_table("db.t", COLUMNS, options=given, **keys)


def rows(count: int, text: str, first: int = 0) -> list[dict[str, Any]]:
    return [{"p": k % 2, "k": k, "v": text} for k in range(first, first + count)]


def waiting(table: wt.Table) -> int:
    return sum(row["rows"] for row in table.inspect.buckets().to_pylist() if row["bucket"] == -2)


@pytest.mark.parametrize(
    ("options", "how", "named"),
    [
        ({"changelog-producer": "input"}, {}, "changelog-producer"),
        ({"widetable.barrier-interval": "1 s"}, {}, "bucket"),
        ({}, {"primary_key": None}, "bucket"),
        ({"bucket": "-3"}, {}, "bucket"),
        ({"postpone.default-bucket-num": "0"}, {}, "default-bucket-num"),
        ({"postpone.target-row-num-per-bucket": "0"}, {}, "target-row-num"),
        ({"postpone.batch-write-fixed-bucket": "true"}, {}, "batch-write-fixed-bucket"),
        ({"postpone.merge-on-read": "true"}, {}, "merge-on-read"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], how: dict[str, Any], named: str
) -> None:
    with pytest.raises(wt.WidetableError, match=named):
        made(tmp_path, options, **how)


def test_uses_that_need_buckets_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(4, "a"))
    with pytest.raises(wt.UnsupportedError, match="bucket"):
        table.rescale(4)
    with pytest.raises(wt.InvalidError, match="bucket"):
        wt.Catalog(str(tmp_path)).alter_table("db.t", set_options={"bucket": "4"})
    with pytest.raises(wt.UnsupportedError, match="wait for their bucket"):
        wt.Catalog(str(tmp_path)).copy_table("db.t", "db.copy")
    table.compact()
    wt.Catalog(str(tmp_path)).copy_table("db.t", "db.copy")
    assert wt.Table.open(tmp_path / "db.db/copy").scan().count() == 4


@pytest.mark.parametrize("mode", ["auto", "delta"])
def test_records_as_they_were_written_are_no_changes(tmp_path: Path, mode: str) -> None:
    """A reader that begins between a write and its compaction would see neither."""
    table = made(tmp_path, {} if mode == "auto" else {"changelog-producer": "lookup"})
    table.write(rows(4, "a"))
    with pytest.raises(wt.UnsupportedError, match="changelog-producer"):
        table.changes(0, 1, mode=mode)
    if mode == "auto":
        with pytest.raises(wt.UnsupportedError, match="changelog-producer"):
            next(iter(table.follow(timeout=5)))


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_changelog_has_each_row_when_it_has_a_bucket(tmp_path: Path, producer: str) -> None:
    table = made(tmp_path, {"changelog-producer": producer})
    table.write(rows(4, "a"))
    table.write(rows(2, "b"))
    assert table.changes(0, 2).num_rows == 0
    table.compact(full=True)
    table.write(rows(1, "c"))
    table.compact(full=True)
    changes = table.changes(0, table.snapshots()[-1].id).to_pylist()
    seen = [(row["_row_kind"], row["k"], row["v"]) for row in changes]
    assert sorted(seen[:4]) == [("+I", k, "b" if k < 2 else "a") for k in range(4)]
    assert seen[4:] == [("-U", 0, "b"), ("+U", 0, "c")]


def test_a_maintainer_brings_rows_into_buckets(tmp_path: Path) -> None:
    table = made(tmp_path, {"changelog-producer": "lookup", "postpone.default-bucket-num": "2"})
    for number in range(3):
        table.write(rows(6, f"v{number}"))
        assert (table.scan().count(), waiting(table)) == (0 if not number else 6, 6)
        table.maintain(once=True)
        assert (table.scan().count(), waiting(table)) == (6, 0)
        assert {row["v"] for row in table.scan().to_arrow().to_pylist()} == {f"v{number}"}
    buckets = {row["total_buckets"] for row in table.inspect.buckets().to_pylist()}
    assert buckets == {2}


def test_two_compactors_place_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one, without the lease, is faster between the plan and the commit of the first."""
    table = made(tmp_path, {"merge-engine": "first-row", "changelog-producer": "lookup"})
    table.write(rows(8, "a"))
    other = wt.Table.open(table.path)
    real, done = moved_rows.placed_at_last, threading.Event()

    def beaten(*arguments: Any) -> Any:
        written = real(*arguments)
        if not done.is_set():
            done.set()
            postponed_rows.placed_rows(other._state(), Committer(other._file_io, other._paths))
        return written

    monkeypatch.setattr(postponed_rows, "placed_at_last", beaten)
    table.compact()
    assert table.scan().count() == 8
    assert waiting(table) == 0
    named = {*live(table)}
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    on_disk = {path.name for path in Path(table.path).rglob("bucket-[0-9]*/data-*.parquet")}
    assert on_disk == named
    assert table.audit().findings == ()


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"add_columns": {"b": "INT"}}, {"v": "a", "b": 22}),
        ({"change_types": {"n": "BIGINT"}}, {"v": "a", "n": 2**40}),
        ({"rename_columns": {"v": "w"}}, {"w": "a"}),
    ],
)
def test_rows_of_a_newer_schema_wait_for_who_has_read_it(
    tmp_path: Path, change: dict[str, Any], values: dict[str, Any]
) -> None:
    """A compactor that began before the columns changed would write files without the new ones."""
    catalog = wt.Catalog(str(tmp_path))
    columns = COLUMNS | {"n": "INT"}
    table = catalog.create_table(
        "db.t", columns, primary_key=["p", "k"], partition_by=["p"], options={"bucket": "-2"}
    )
    table.write([{"p": 0, "k": 0}, {"p": 1, "k": 1}])
    state = table._state()
    catalog.alter_table("db.t", **change)
    changed = catalog.table("db.t")
    changed.write([{"p": 1, "k": 2, **values}])
    placed = postponed_rows.placed_rows(state, table._committer)
    assert placed.damage == []
    assert [row["k"] for row in changed.scan().to_arrow().to_pylist()] == [0]
    changed.compact(full=True)
    [row] = changed.scan(filter="k = 2").to_arrow().to_pylist()
    assert {name: row[name] for name in values} == values
    assert changed.scan().count() == 3


@pytest.mark.parametrize("most", [1, 2, 99])
def test_partitions_are_committed_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(postponed_rows, "_GROUP_PARTITIONS", most)
    table = made(tmp_path)
    data = [{"p": p, "k": p, "v": "a"} for p in range(5)]
    table.write(data)
    placed = postponed_rows.placed_rows(table._state(), table._committer)
    assert len(placed.commits) == -(-5 // most)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["p"]) == data


def test_a_full_disk_leaves_no_file_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, real = made(tmp_path), moved_rows.placed_at_last
    table.write(rows(8, "a"))
    calls: list[object] = []

    def full(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise wt.StorageError("disk", found="no space", expected="space", action="Make space.")
        return real(*arguments)

    monkeypatch.setattr(postponed_rows, "placed_at_last", full)
    with pytest.raises(wt.StorageError):
        table.compact()
    assert list(Path(table.path).rglob("bucket-[0-9]*/data-*.parquet")) == []
    table.compact()
    assert (table.scan().count(), waiting(table)) == (8, 0)


def live(table: wt.Table) -> Iterator[str]:
    for split in table.scan().splits():
        yield from (file.file_name for file in split.files)


def test_damage_of_a_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(8, "a"))
    (path,) = Path(table.path, "p=1/bucket-postpone").glob("*.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    with pytest.raises(wt.DamagedError, match=path.name):
        table.compact()
    assert [row["k"] for row in table.scan(filter="p = 0").to_arrow().to_pylist()] == [0, 2, 4, 6]
    assert waiting(table) == 4
    path.write_bytes(whole)
    table.compact()
    assert table.scan().count() == 8


def test_rows_that_spill_are_placed_as_well(tmp_path: Path) -> None:
    table = made(tmp_path, {"write-buffer-size": "200 kb", "postpone.default-bucket-num": "3"})
    for number in range(3):
        keys = range(0, 30_000, number + 1)
        table.write(
            {"p": [0] * len(keys), "k": list(keys), "v": [f"{number}-{key}" for key in keys]}
        )
    table.compact(full=True)
    newest = {key: number for number in range(3) for key in range(0, 30_000, number + 1)}
    actual = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert actual == {key: f"{number}-{key}" for key, number in newest.items()}
    assert table.audit().findings == ()


def test_columns_of_their_own_meet_when_they_are_placed(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"k": "BIGINT", "a": "INT", "b": "INT"},
        primary_key=["k"],
        options={"bucket": "-2", "merge-engine": "partial-update", "widetable.fsync": "false"},
    )
    table.write([{"k": 1, "a": 1}, {"k": 2, "a": 2}])
    table.write([{"k": 2, "b": 3}])
    wt.Catalog(str(tmp_path)).alter_table("db.t", add_columns={"c": pa.int32()})
    table = wt.Table.open(table.path)
    table.write([{"k": 1, "c": 4}])
    table.compact()
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "a": 1, "b": None, "c": 4},
        {"k": 2, "a": 2, "b": 3, "c": None},
    ]


def test_old_files_go_when_their_snapshots_expire(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write(rows(8, "a"))
    table.compact(full=True)
    assert len(list(Path(table.path).rglob("bucket-postpone/*"))) == 2
    table.remove_orphan_files(older_than_millis=0)
    assert len(list(Path(table.path).rglob("bucket-postpone/*"))) == 2
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    assert list(Path(table.path).rglob("bucket-postpone/*")) == []
    assert table.scan().count() == 8
