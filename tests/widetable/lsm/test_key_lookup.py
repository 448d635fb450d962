"""The newest row of each key, whichever way it is found: scans, caches, and caches that fail."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.faults.memory_caches import MemoryCaches
from tests.support.models.key_batches import in_pieces, key_batch, key_texts
from tests.support.models.plain_rows import plain, python_rows
from tests.support.models.strategies import commits, keys_of, tables
from tests.support.tables.table_files import TableFiles, with_more_options
from tests.widetable.lsm.test_compaction import compact_anything, directory, partitioned
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import upgrade
from widetable.format.projection import Projection
from widetable.format.row_batch import row_batch_schema
from widetable.format.row_budget import RowBudget
from widetable.lsm import rows_opener
from widetable.lsm.file_rows import Caches
from widetable.lsm.key_lookup import find_rows, key_pieces
from widetable.lsm.levels import levels_of
from widetable.lsm.sorted_run import SortedRun
from widetable.schema.new_schema import new_schema

PIECE_BYTES = 1 << 20
STRATEGY = "widetable.lookup-strategy"


def newest_rows(
    files: TableFiles, key: BucketId, runs: Sequence[SortedRun], columns: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By key: the row of the newest run, out of all rows."""
    arrow = row_batch_schema(files.schema, [*files.schema.trimmed_primary_key, *columns])
    rows: dict[str, dict[str, Any]] = {}
    for run in reversed(runs):
        for batch in (batch for file in run.files for batch in files.batches(key, file)):
            texts = key_texts(batch, files.schema.trimmed_primary_key)
            for text, row in zip(texts, python_rows(batch), strict=True):
                rows[text] = {name: row.get(name) for name in arrow.names}
    return rows


def found_rows(
    files: TableFiles,
    key: BucketId,
    keys: Sequence[pa.RecordBatch],
    columns: Sequence[str],
    caches: Caches | None = None,
) -> list[pa.RecordBatch]:
    runs = levels_of(files.buckets[key], files.state.options).sorted_runs()
    return list(
        find_rows(files.state, key, runs, iter(keys), columns, caches, piece_bytes=PIECE_BYTES)
    )


@given(st.data())
def test_the_row_of_the_newest_run_is_found(data: st.DataObject) -> None:
    schema = partitioned(data.draw(tables(), "table"))
    drawn = data.draw(keys_of(schema), "keys")
    columns = data.draw(st.lists(st.sampled_from(schema.names), unique=True), "columns")
    caches = MemoryCaches()
    strategy = data.draw(st.sampled_from(["auto", "scan", "lookup"]), "strategy")
    with directory() as folder:
        files = TableFiles(
            folder, with_more_options(schema, {"target-file-size": "1b", STRATEGY: strategy})
        )
        for _ in range(data.draw(st.integers(1, 4), "commits")):
            commit = data.draw(commits(schema, drawn), "commit")
            files.write(commit.columns, commit.records)
            for key in files.buckets:
                if len(files.buckets[key]) and data.draw(st.booleans(), "compact"):
                    compact_anything(data, files, key)
        wanted = key_batch(schema, drawn[: data.draw(st.integers(0, len(drawn)))])
        names = schema.trimmed_primary_key
        for key in files.buckets:
            runs = levels_of(files.buckets[key], files.state.options).sorted_runs()
            expected = newest_rows(files, key, runs, columns)
            pieces = list(in_pieces(wanted, data.draw(st.integers(1, 5), "piece")))
            found = found_rows(files, key, pieces, columns, caches)
            for batch in found:
                batch.validate(full=True)
            order = [text for text in key_texts(wanted, names) if text in expected]
            asked = row_batch_schema(schema, [*names, *columns])
            rows = [row for batch in found for row in python_rows(Projection(asked).of(batch))]
            assert plain(rows) == plain([expected[text] for text in order])


def make(
    folder: Path, options: Mapping[str, str] | None = None, **how: Any
) -> tuple[TableFiles, BucketId]:
    """100 keys at the bottom in 5 files of 20, 10 of them again at level 0."""
    schema = new_schema(
        pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string())]),
        primary_key=["k"],
        options={"merge-engine": "partial-update", **(options or {})},
    )
    files = TableFiles(folder, schema, **how)
    for start in range(0, 100, 20):
        rows = range(start, start + 20)
        files.write(schema.names, [("+I", {"k": k, "a": k, "b": f"b{k}"}) for k in rows])
    ((key, metas),) = files.buckets.items()
    files.buckets[key] = [upgrade(meta, 5) for meta in metas]
    files.write(["k", "b"], [("+I", {"k": k, "b": "new"}) for k in range(30, 40)])
    return files, key


def look_up(
    files: TableFiles,
    key: BucketId,
    numbers: Sequence[int],
    columns: Sequence[str] = ("a", "b"),
    caches: Caches | None = None,
) -> list[tuple[Any, ...]]:
    """(k, *columns) of the keys that are found."""
    keys = key_batch(files.schema, [{"k": number} for number in numbers])
    found = found_rows(files, key, [keys], columns, caches)
    return [tuple(row.get(n) for n in ("k", *columns)) for b in found for row in b.to_pylist()]


def test_files_that_cannot_hold_a_key_are_not_opened(tmp_path: Path) -> None:
    file_io = CountingFileIO()
    files, key = make(tmp_path, file_io=file_io)
    file_io.opened.clear()
    assert look_up(files, key, [-1, 100]) == []
    assert file_io.opened == []
    assert look_up(files, key, [3, 5, 45]) == [(3, 3, "b3"), (5, 5, "b5"), (45, 45, "b45")]
    assert len(file_io.opened) == 2
    file_io.opened.clear()
    assert look_up(files, key, [35]) == [(35, None, "new")]
    assert len(file_io.opened) == 1  # what the newest run has is not looked for in older ones


def test_columns_that_a_file_has_not_are_null(tmp_path: Path) -> None:
    files, key = make(tmp_path)
    assert look_up(files, key, [29, 30], ["b", "a"]) == [(29, "b29", 29), (30, "new", None)]
    assert look_up(files, key, [29, 30], []) == [(29,), (30,)]


def test_one_or_two_files_of_a_run_are_open_at_a_time(tmp_path: Path) -> None:
    caches = MemoryCaches()
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    runs = levels_of(files.buckets[key], files.state.options).sorted_runs()[1:]
    keys = key_batch(files.schema, [{"k": number} for number in range(100)])
    seen = []
    for rows in find_rows(
        files.state, key, runs, in_pieces(keys, 10), ["a"], caches, piece_bytes=PIECE_BYTES
    ):
        seen += rows["k"].to_pylist()
        assert len(caches.opened) - caches.closed == 1
    assert seen == list(range(100))
    assert (len(caches.opened), caches.closed) == (5, 5)


def test_strategies_find_the_same_rows(tmp_path: Path) -> None:
    wanted = [-1, 0, 19, 20, 33, 50, 99, 100]
    expected = [
        (0, 0, "b0"),
        (19, 19, "b19"),
        (20, 20, "b20"),
        (33, None, "new"),
        (50, 50, "b50"),
        (99, 99, "b99"),
    ]
    for strategy, builds in (("auto", 0), ("scan", 0), ("lookup", 4)):
        caches = MemoryCaches()
        files, key = make(tmp_path / strategy, {STRATEGY: strategy})
        for _ in range(2):
            assert look_up(files, key, wanted, caches=caches) == expected
        assert len(caches.built) == builds  # none of the file at level 0
        assert look_up(files, key, wanted) == expected


def test_scans_that_come_again_build_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("widetable.lsm.lookup_cost._NEW_CACHE_MICROS", 1.0)
    caches = MemoryCaches()
    files, key = make(tmp_path)
    built = []
    for _ in range(20):
        assert look_up(files, key, [50], caches=caches) == [(50, 50, "b50")]
        built.append(len(caches.built))
    assert built[0] == 0
    assert built[-1] == 1
    assert len(caches.opened) == built.count(1)


def test_a_scan_asks_no_cache(tmp_path: Path) -> None:
    caches = MemoryCaches("open")
    files, key = make(tmp_path, {STRATEGY: "scan"})
    assert look_up(files, key, [50], caches=caches) == [(50, 50, "b50")]


@pytest.mark.parametrize("step", ["open", "find", "close", "writer", "write", "finish"])
def test_a_cache_that_fails_is_passed_over_and_reported_once(
    tmp_path: Path, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows_opener._warned_actions.clear()
    caches = MemoryCaches(step)
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    with caplog.at_level(logging.INFO, "widetable"):
        for _ in range(2):
            assert look_up(files, key, [1, 50, 35], caches=caches) == [
                (1, 1, "b1"), (35, None, "new"), (50, 50, "b50")
            ]  # fmt: skip
    (record,) = caplog.records
    assert "data-" in record.getMessage()
    assert "the data file is read instead" in record.getMessage()
    assert record.exc_info is not None
    assert caches.aborted == (4 if step == "write" else 0)


def test_what_fails_next_is_not_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows_opener._warned_actions.clear()
    caches = MemoryCaches()
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    with caplog.at_level(logging.INFO, "widetable"):
        for step in ("open", "writer", "open", "writer"):
            caches.failing = step
            assert look_up(files, key, [50], caches=caches) == [(50, 50, "b50")]
            caches.files.clear()
    assert [record.getMessage().split()[1] for record in caplog.records] == ["opening", "building"]


def test_a_damaged_file_fails_the_lookup_and_not_the_cache(tmp_path: Path) -> None:
    caches = MemoryCaches()
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(wt.DamagedError):
        look_up(files, key, [50], caches=caches)
    assert (caches.built, caches.aborted) == ([], 1)


def test_without_room_the_file_is_scanned(tmp_path: Path) -> None:
    caches = MemoryCaches(has_room=False)
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    assert look_up(files, key, [50], caches=caches) == [(50, 50, "b50")]


def test_a_file_of_a_newer_schema_is_not_copied(tmp_path: Path) -> None:
    """Rows by an older schema lack columns."""
    caches = MemoryCaches()
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    files.buckets[key] = [file._replace(schema_id=1) for file in files.buckets[key]]
    newer = replace(files.schema, id=1)
    state = replace(files.state, schema_of=lambda _: newer)
    runs = levels_of(files.buckets[key], files.state.options).sorted_runs()
    keys = key_batch(files.schema, [{"k": 50}])
    (found,) = find_rows(state, key, runs, [keys], ["a"], caches, piece_bytes=PIECE_BYTES)
    assert found["a"].to_pylist() == [50]
    assert caches.built == []


def test_runs_whose_files_overlap_are_damage(tmp_path: Path) -> None:
    files, key = make(tmp_path)
    files.buckets[key] = [upgrade(file, 5) for file in files.buckets[key]]
    with pytest.raises(wt.DamagedError, match="disjoint"):
        look_up(files, key, [50])


def test_keys_are_looked_for_in_pieces_whose_rows_fit_into_memory() -> None:
    """The first piece shows how wide rows are; a wider one later counts too."""
    budget, keys = RowBudget(1_000_000, 10), pa.record_batch([pa.array(range(20_000))], ["k"])

    def found(row_bytes: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array(["x" * (row_bytes - 4)] * 100)], ["text"])

    sizes = []
    for piece, row_bytes in zip(key_pieces(keys, budget), (1_000, 500, 40_000, 4, 4), strict=False):
        sizes.append(piece.num_rows)
        budget.saw(found(row_bytes))
    assert sizes == [10, 160, 1000, 25, 25]
