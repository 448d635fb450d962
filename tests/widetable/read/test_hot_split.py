"""Which splits are divided into rows that no newer file touches and those that one does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt
from widetable.read.hot_split import HotSplit, hot_split


def made(folder: Path, options: Mapping[str, str] | None = None, rows: int = 100) -> wt.Table:
    given = {"bucket": "1", "write-only": "true", "widetable.fsync": "false", **(options or {})}
    columns = {"id": "BIGINT", "v": "INT"}
    table = wt.Catalog(str(folder)).create_table("db.t", columns, primary_key=["id"], options=given)
    table.write([{"id": id, "v": 0} for id in range(rows)])
    table.compact(full=True)
    return table


def divided(table: wt.Table, where: str | None = None) -> HotSplit | None:
    (read,) = table.scan(filter=where).split_reads()
    return hot_split(read)


def values(read: Any) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(list(read.to_batches()))
    return [tuple(row.values()) for row in table.to_pylist()]


def test_a_tenth_of_newer_rows_is_few(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert divided(table) is None  # nothing is merged
    table.write([{"id": 7, "v": 1}, {"id": 100, "v": 1}])
    table.delete_keys([{"id": 8}])
    parts = divided(table)
    assert parts is not None
    assert sorted(values(parts.keys)) == [(7,), (8,), (100,)]
    assert values(parts.touched) == [(7, 1), (100, 1)]
    assert len(values(parts.untouched)) == 100
    table.write([{"id": id, "v": 2} for id in range(8)])
    assert divided(table) is None


def test_a_deepest_level_with_deletes_is_merged(tmp_path: Path) -> None:
    table = made(tmp_path, {"deletion-vectors.enabled": "true", "write-only": "false"})
    table.delete_keys([{"id": 8}])
    table.compact()
    table.write([{"id": 7, "v": 1}])
    (read,) = table.scan().split_reads()
    deepest = max(file.level for file in read.split.files)
    assert any(file.deleted for file in read.split.files if file.level == deepest)
    assert hot_split(read) is None


def test_files_of_level_0_alone_are_merged(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"id": "BIGINT"}, primary_key=["id"], options=options
    )
    for id in (1, 2):
        table.write([{"id": id}])
    assert divided(table) is None


def test_rows_that_win_as_a_whole_need_no_older_ones(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([{"id": 7, "v": 1}])
    parts = divided(table)
    assert parts is not None
    assert {file.level for file in parts.touched.split.files} == {0}


def test_a_sequence_an_engine_or_ignored_deletes_need_a_merge(tmp_path: Path) -> None:
    some = (
        {"sequence.field": "v"},
        {"merge-engine": "partial-update"},
        {"merge-engine": "first-row"},
        {"ignore-delete": "true"},
    )
    for number, options in enumerate(some):
        table = made(tmp_path / str(number), options)
        table.write([{"id": 7, "v": -1}])
        assert divided(table) is None


def test_a_filter_is_applied_after_the_merge(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.write([{"id": 7, "v": 1}, {"id": 8, "v": 2}])
    parts = divided(table, "v = 0")
    assert parts is not None
    assert sorted(values(parts.keys)) == [(7,), (8,)]  # the older row of 7 is no row any more
    assert not list(parts.touched.to_batches())
