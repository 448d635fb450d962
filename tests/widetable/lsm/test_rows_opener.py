"""All rows of a data file: from its cache while that answers, else from the file itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.counting_file_io import CountingFileIO
from tests.support.faults.memory_caches import MemoryCaches
from tests.support.tables.table_files import TableFiles
from tests.widetable.lsm.test_key_lookup import STRATEGY, look_up, make
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_budget import BATCH_BYTES
from widetable.lsm import rows_opener
from widetable.lsm.rows_opener import RowsOpener

SOME_BYTES = 300


def cached(
    folder: Path, caches: MemoryCaches, file_io: CountingFileIO | None = None
) -> tuple[TableFiles, BucketId, DataFileMeta]:
    """A file of twenty rows, and its cache."""
    how = {} if file_io is None else {"file_io": file_io}
    files, key = make(folder, {STRATEGY: "lookup"}, **how)
    look_up(files, key, [3], caches=caches)
    return files, key, next(file for file in files.buckets[key] if file.file_name in caches.built)


def rows_in(
    files: TableFiles, key: BucketId, file: DataFileMeta, caches: MemoryCaches | None
) -> list[tuple[int, int | None]]:
    opener = RowsOpener(files.state, key, ["a"], caches)
    batches = list(opener.batches(file, SOME_BYTES))
    assert len(batches) > 1
    assert all(batch.nbytes <= SOME_BYTES for batch in batches)
    assert all(batch.schema.names[2:] == ["k", "a"] for batch in batches)
    return [(row["k"], row["a"]) for batch in batches for row in batch.to_pylist()]


def test_a_file_with_a_cache_is_not_opened(tmp_path: Path) -> None:
    caches, file_io = MemoryCaches(), CountingFileIO()
    files, key, file = cached(tmp_path, caches, file_io)
    file_io.opened.clear()
    assert rows_in(files, key, file, caches) == [(k, k) for k in range(20)]
    assert file_io.opened == []
    assert len(caches.opened) == caches.closed
    assert rows_in(files, key, file, None) == [(k, k) for k in range(20)]
    assert len(file_io.opened) == 1


@pytest.mark.parametrize("step", ["open", "batches", "close"])
def test_a_cache_that_fails_leaves_the_rest_to_the_file(
    tmp_path: Path, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    caches = MemoryCaches()
    files, key, file = cached(tmp_path, caches)
    rows_opener._warned_actions.clear()
    caches.failing = step
    with caplog.at_level(logging.INFO, "widetable"):
        assert rows_in(files, key, file, caches) == [(k, k) for k in range(20)]
    (record,) = caplog.records
    assert file.file_name in record.getMessage()


def test_no_cache_is_built_for_all_rows(tmp_path: Path) -> None:
    caches = MemoryCaches()
    files, key = make(tmp_path, {STRATEGY: "lookup"})
    old = max(files.buckets[key], key=lambda file: file.level)
    assert rows_in(files, key, old, caches) != []
    assert caches.built == []


def test_level_0_asks_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows_opener._warned_actions.clear()
    files, key = make(tmp_path)
    fresh = min(files.buckets[key], key=lambda file: file.level)
    opener = RowsOpener(files.state, key, ["b"], MemoryCaches("open"))
    (rows,) = opener.batches(fresh, BATCH_BYTES)
    assert rows["k"].to_pylist() == list(range(30, 40))
    assert caplog.records == []


def test_a_damaged_file_without_a_cache_is_damage(tmp_path: Path) -> None:
    files, key = make(tmp_path)
    old = next(file for file in files.buckets[key] if file.level)
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(wt.DamagedError):
        rows_in(files, key, old, None)
