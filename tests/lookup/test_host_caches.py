"""Caches give back the rows of a data file, for as long as they are there, to everyone who asks."""

from __future__ import annotations

import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.lookup.cache_files import (
    COLUMNS,
    build,
    caches_on_disk,
    file_of,
    found,
    key_batch,
    path_of,
    rows_of,
    table_at,
    temporaries_on_disk,
    text_keys,
)
from widetable.schema import options as opt
from widetable.storage.remote import store_client
from widetable_lookup import cache_statistics, complete_caches, host_caches, process_caches
from widetable_lookup.cache_paths import REMOVED, temporary_name


@pytest.mark.parametrize("primary_key", [("k",), ("s",), ("s", "k"), ("b", "k")])
def test_rows_come_back_by_key(
    cache_directory: Path, tmp_path: Path, rng: random.Random, primary_key: tuple[str, ...]
) -> None:
    table = table_at(tmp_path / "t", primary_key=primary_key)
    caches = process_caches(table.options)
    held = sorted(rng.sample(range(20_000), 9000))
    rows = rows_of(held, primary_key)
    if "b" in primary_key:
        rows = rows.sort_by([(name, "ascending") for name in primary_key])
    file = build(caches, table, rows, ends=rng.sample(range(9000), 3))
    for count in (1, 40, 5000):
        asked = rows_of(sorted(rng.sample(range(20_000), count)), primary_key)
        if "b" in primary_key:
            asked = asked.sort_by([(name, "ascending") for name in primary_key])
        answer = found(caches, table, file, asked.select(list(primary_key)))
        assert answer is not None
        known = set(held)
        hits = [i for i, key in enumerate(asked["k"].to_pylist()) if key in known]
        assert answer[0] == hits
        assert answer[1] == asked.take(pa.array(hits, pa.int64()))


def test_only_the_asked_columns_come_with_the_key(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    narrow = rows_of(range(10)).drop_columns(["n"])
    file = build(caches, table, narrow)
    answer = found(caches, table, file, key_batch([3, 5]), ["n", "s"])
    assert answer is not None
    assert answer[1] == rows_of([3, 5]).select(["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s"])


@pytest.mark.parametrize("primary_key", [("k",), ("s",)])
def test_all_rows_come_back_in_file_order(
    cache_directory: Path, tmp_path: Path, rng: random.Random, primary_key: tuple[str, ...]
) -> None:
    table = table_at(tmp_path / "t", primary_key=primary_key)
    caches = process_caches(table.options)
    rows = rows_of(range(9000), primary_key)
    file = build(caches, table, rows, ends=rng.sample(range(9000), 3))
    names = ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s", "n"]
    opened = caches.open(table, path_of(table), file, ["k", "s", "n"])
    assert opened is not None
    batches = list(opened.batches(40_000))
    opened.close()
    (cache,) = caches_on_disk(cache_directory)
    shutil.rmtree(cache)
    assert 100 < max(batch.num_rows for batch in batches) < 2000
    for batch in batches:
        batch.validate(full=True)
    assert pa.Table.from_batches(batches).combine_chunks() == pa.table(rows.select(names))


def test_no_keys_and_no_hits_give_no_rows(cache_directory: Path, tmp_path: Path) -> None:
    for primary_key in (("k",), ("s",)):
        table = table_at(tmp_path / primary_key[0], primary_key=primary_key)
        caches = process_caches(table.options)
        file = build(caches, table, rows_of(range(0, 100, 2), primary_key))
        for keys in ([], [1, 99, 1000]):
            asked = rows_of(keys, primary_key).select(list(primary_key))
            answer = found(caches, table, file, asked)
            assert answer is not None
            assert answer[0] == []
            assert answer[1] == rows_of([], primary_key)


def test_there_is_one_object_per_process_and_directory(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = table_at(tmp_path / "t").options
    first = process_caches(options)
    assert process_caches(options) is first
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "other"))
    assert process_caches(options) is not first


def test_a_file_without_cache_has_no_rows(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    assert caches.open(table, path_of(table), file_of(path_of(table), 3), ["s"]) is None
    assert not cache_directory.exists()


def test_files_of_one_name_in_two_buckets_have_two_caches(
    cache_directory: Path, tmp_path: Path
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    for bucket, keys in enumerate(([1, 2], [3, 4])):
        path = f"{table.paths.root}/bucket-{bucket}/data.parquet"
        writer = caches.writer(table, path)
        assert writer is not None
        writer.write(rows_of(keys))
        writer.close(file_of(path, 2))
    for bucket, hits in enumerate(([0], [])):
        path = f"{table.paths.root}/bucket-{bucket}/data.parquet"
        rows = caches.open(table, path, file_of(path, 2), ["s"])
        assert rows is not None
        assert rows.find(key_batch([2])).hits.tolist() == hits
        rows.close()


def test_another_schema_has_another_cache(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(range(5)))
    altered = replace(table, schema=replace(table.schema, id=1))
    assert found(caches, altered, file, key_batch([1])) is None
    build(caches, altered, rows_of(range(5)))
    assert found(caches, altered, file, key_batch([1])) is not None
    assert found(caches, table, file, key_batch([1])) is not None


def test_a_cache_that_is_there_is_not_built_again(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    build(caches, table, rows_of(range(5)))
    assert caches.writer(table, path_of(table)) is None


def test_the_second_of_two_builders_throws_its_own_away(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    path = path_of(table)
    one, other = caches.writer(table, path), caches.writer(table, path)
    assert one is not None
    assert other is not None
    for writer in (one, other):
        writer.write(rows_of(range(5)))
    one.close(file_of(path, 5))
    (cache,) = caches_on_disk(cache_directory)
    inode = cache.stat().st_ino
    other.close(file_of(path, 5))
    assert [cache.stat().st_ino for cache in caches_on_disk(cache_directory)] == [inode]
    assert temporaries_on_disk(cache_directory) == []
    assert found(caches, table, file_of(path, 5), key_batch([1])) is not None
    assert caplog.records == []


@pytest.mark.parametrize("is_started", [False, True])
def test_an_aborted_build_leaves_nothing(
    cache_directory: Path, tmp_path: Path, is_started: bool
) -> None:
    table = table_at(tmp_path / "t", primary_key=["s"])
    caches = process_caches(table.options)
    writer = caches.writer(table, path_of(table))
    assert writer is not None
    if is_started:
        writer.write(rows_of(range(40_000), ["s"]))
    writer.abort()
    writer.abort()
    writer.write(rows_of([1], ["s"]))
    writer.close(file_of(path_of(table), 1))
    assert caches_on_disk(cache_directory) + temporaries_on_disk(cache_directory) == []


@pytest.mark.parametrize("primary_key", [("k",), ("s",)])
@pytest.mark.parametrize("keys", [[3, 2], [1, 1], [*range(40_000), 39_999], [*range(40_000), 7]])
def test_rows_that_do_not_ascend_are_not_cached(
    cache_directory: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    primary_key: tuple[str, ...],
    keys: list[int],
) -> None:
    table = table_at(tmp_path / "t", primary_key=primary_key)
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(keys, primary_key), ends=[40_000])
    assert found(caches, table, file, rows_of([1], primary_key)) is None
    assert temporaries_on_disk(cache_directory) == []
    assert str(cache_directory) in caplog.text


def test_another_number_of_rows_than_the_file_has_is_not_cached(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    writer = caches.writer(table, path_of(table))
    assert writer is not None
    writer.write(rows_of(range(5)))
    writer.close(file_of(path_of(table), 6))
    assert caches_on_disk(cache_directory) == []
    assert "5 rows" in caplog.text


def test_a_budget_of_zero_means_no_caches(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(range(5)))
    none = table_at(tmp_path / "t", options={opt.LOOKUP_CACHE_MAX_DISK_SIZE.key: "0 b"})
    assert caches.writer(none, path_of(none, "other")) is None
    assert found(caches, none, file, key_batch([1])) is None
    assert len(caches_on_disk(cache_directory)) == 1


def test_statistics_count_the_caches_of_one_table(cache_directory: Path, tmp_path: Path) -> None:
    assert cache_statistics(str(tmp_path / "t")) == (0, 0)
    for name in ("t", "other"):
        table = table_at(tmp_path / name)
        for number in range(3):
            build(process_caches(table.options), table, rows_of(range(5)), f"data-{number}.parquet")
    caches, disk_bytes = cache_statistics(str(tmp_path / "t"))
    assert caches == 3
    files = [
        f for cache in caches_on_disk(cache_directory) for f in cache.rglob("*") if f.is_file()
    ]
    assert 2 * disk_bytes == sum(f.stat().st_blocks * 512 for f in files)


def test_statistics_count_what_is_built_and_not_what_is_removed(
    cache_directory: Path, tmp_path: Path
) -> None:
    """Its bytes are on their way out, and nobody can open it."""
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    build(caches, table, rows_of(range(5)))
    (cache,) = caches_on_disk(cache_directory)
    one = cache_statistics(table.paths.root)
    cache.rename(temporary_name(str(cache), REMOVED))
    assert cache_statistics(table.paths.root) == (0, 0)
    build(caches, table, rows_of(range(5)))
    assert cache_statistics(table.paths.root) == one
    writer = caches.writer(table, path_of(table, "other"))
    assert writer is not None
    writer.write(rows_of(range(40_000)))
    caches_now, disk_bytes = cache_statistics(table.paths.root)
    assert caches_now == 1
    assert disk_bytes > one.disk_bytes
    writer.abort()


def test_statistics_of_a_table_in_a_bucket_need_no_client(
    cache_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_directory.mkdir()
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setattr(store_client, "_CLIENTS", {})
    assert cache_statistics("s3://bucket/t") == (0, 0)
    assert [*complete_caches("s3://bucket/t")] == []


def test_the_number_of_open_caches_is_bounded(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_caches, "_MAX_OPEN", 3)
    table = table_at(tmp_path / "t", primary_key=["s"])
    caches = process_caches(table.options)
    files = [
        build(caches, table, rows_of(range(i, i + 5), ["s"]), f"data-{i}.parquet") for i in range(6)
    ]
    columns = COLUMNS.names
    opened = [caches.open(table, path_of(table, file.file_name), file, columns) for file in files]
    for i, rows in enumerate(opened):
        assert rows is not None
        assert rows.find(text_keys([i])).rows == rows_of([i], ["s"])  # in use, so still open
        rows.close()
        rows.close()
    assert len(caches._by_cache) == 3  # type: ignore[attr-defined]
    for i, file in enumerate(files):
        answer = found(caches, table, file, text_keys([i]))
        assert answer is not None
        assert answer[1] == rows_of([i], ["s"])
    assert len(caches._by_cache) == 3  # type: ignore[attr-defined]


def test_threads_share_what_is_open(
    cache_directory: Path, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caches are closed under the eyes of other threads, but never while one uses them."""
    monkeypatch.setattr(host_caches, "_MAX_OPEN", 2)
    table = table_at(tmp_path / "t", primary_key=["s"])
    caches = process_caches(table.options)
    files = [
        build(caches, table, rows_of(range(i, 3000, 7), ["s"]), f"data-{i}.parquet")
        for i in range(5)
    ]

    def look_up(seed: int) -> int:
        own = random.Random(seed)
        for _ in range(40):
            number = own.randrange(5)
            asked = sorted(own.sample(range(3000), own.choice((1, 200))))
            answer = found(caches, table, files[number], text_keys(asked))
            assert answer is not None
            assert answer[0] == [i for i, key in enumerate(asked) if key % 7 == number]
        return 1

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(look_up, [rng.getrandbits(32) for _ in range(8)])) == 8
    assert len(caches._by_cache) == 2  # type: ignore[attr-defined]
    assert all(handle.users == 0 for handle in caches._handles.values())  # type: ignore[attr-defined]


def test_caches_of_files_that_compaction_replaced_are_let_go(tmp_path: Path) -> None:
    """A new cache is weighed against all that are there: they must not be as many as commits were."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
    options = {"bucket": "2", "changelog-producer": "lookup", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["k"], options=options
    )
    for number in range(30):
        table.write(pa.table({"k": list(range(number, number + 20)), "v": [number] * 20}, schema))
    table.wait_for_compactions()
    live = sum(len(split.files) for split in table.scan().splits())
    assert 0 < cache_statistics(table.path).caches <= live
    before = cache_statistics(table.path).caches
    assert table.lookup([5])["v"].to_pylist() == [5]
    table.compact(full=True)
    assert cache_statistics(table.path).caches <= before
    assert table.scan().to_arrow().num_rows == 49
    assert table.audit(start=0).ok
