"""Live entries, and which manifests are read for them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.widetable.commit.transaction.fake_table import (
    REGION_TYPES,
    added,
    committer,
    compacted,
    data_file,
    deleted,
    make_table,
    region,
    written,
)
from widetable.commit.snapshots.live_files import LiveFiles, live, manifest_pruner
from widetable.commit.snapshots.manifest_cache import DecodedManifest, ManifestCache
from widetable.commit.snapshots.manifest_writer import partition_stats, summarize
from widetable.commit.transaction.commit_delta import Deltas
from widetable.errors import DamagedError
from widetable.format.binary_row import EMPTY_ROW
from widetable.format.column_stats import EMPTY_STATS, Stats
from widetable.format.manifest_file import ManifestFileMeta, read_manifest, write_manifest
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)


def test_only_manifests_that_may_hold_the_wanted_are_read(tmp_path: Path) -> None:
    paths = make_table(tmp_path, partition_by=["region"])
    table = committer(paths)
    for number, name in enumerate(["eu", "us", "ap", None]):
        table.append([written(data_file(f"{name}"), partition=region(name), bucket=number)])
    snapshot = table.snapshots.latest()
    file_io = FaultyFileIO(IO)

    def found(**wanted: frozenset[bytes] | frozenset[int]) -> tuple[list[str], int]:
        files = LiveFiles(file_io, paths, REGION_TYPES, ManifestCache())
        before = file_io.count("read")
        entries = files.live_entries(snapshot, **wanted)  # type: ignore[arg-type]
        return [entry.file.file_name for entry in entries], file_io.count("read") - before - 2

    assert found() == (["eu", "us", "ap", "None"], 4)
    assert found(partitions=frozenset([region("us")])) == (["us"], 1)
    assert found(partitions=frozenset([region("ap"), region(None)])) == (["ap", "None"], 2)
    assert found(partitions=frozenset([region("zz")])) == ([], 0)
    assert found(partitions=frozenset()) == ([], 0)
    assert found(buckets=frozenset([1])) == (["us"], 1)
    assert found(buckets=frozenset([2, 3])) == (["ap", "None"], 2)
    assert found(partitions=frozenset([region("us")]), buckets=frozenset([2])) == ([], 0)
    # A range that spans the wanted one: the manifest is read, its other entries are not taken.
    table.append(
        [
            written(data_file("lo"), partition=region("a")),
            written(data_file("hi"), partition=region("z")),
        ]
    )
    snapshot = table.snapshots.latest()
    assert found(partitions=frozenset([region("us")])) == (["us"], 2)


def test_a_compaction_reads_no_manifest_of_other_buckets(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    table = committer(paths)
    files = [data_file(f"f{bucket}") for bucket in range(4)]
    for bucket, file in enumerate(files):
        table.append([written(file, bucket=bucket)])
    file_io = FaultyFileIO(IO)
    cold = committer(paths, file_io)
    cold.live_files = LiveFiles(file_io, paths, [], ManifestCache())
    cold._deltas = Deltas(cold.live_files, cold.schemas, cold.snapshots)
    cold.compact([compacted([files[2]], [data_file("g2", level=5)], bucket=2)])
    assert file_io.count("read", "/manifest-") - file_io.count("read", "/manifest-list-") == 1


def test_pruning_agrees_with_reading_everything(rng: random.Random) -> None:
    names = [None, "", "a", "ab", "b", "é", "z"]
    for _ in range(300):
        held = [(region(rng.choice(names)), rng.randrange(6)) for _ in range(rng.randint(1, 4))]
        entries = [added(data_file(), bucket, partition) for partition, bucket in held]
        meta = summarize("m", DecodedManifest(entries, 1), 0, REGION_TYPES)
        partitions = frozenset(region(name) for name in rng.sample(names, rng.randint(0, 3)))
        buckets = frozenset(rng.sample(range(6), rng.randint(0, 3)))
        may_hold = manifest_pruner(REGION_TYPES, partitions, buckets)(meta)
        assert may_hold or not any(p in partitions and b in buckets for p, b in held)


def test_a_list_that_says_little_prunes_nothing() -> None:
    says_nothing = ManifestFileMeta("m", 1, 1, 0, EMPTY_STATS, 0)
    assert manifest_pruner(REGION_TYPES, frozenset([region("a")]), frozenset([3]))(says_nothing)
    unknown = ManifestFileMeta("m", 1, 1, 0, Stats(region(None), region(None), (None,)), 0)
    assert manifest_pruner(REGION_TYPES, frozenset([region("a")]), None)(unknown)
    assert manifest_pruner(REGION_TYPES, frozenset([region(None)]), None)(unknown)
    assert manifest_pruner([], frozenset([EMPTY_ROW]), None)(says_nothing)
    assert not manifest_pruner([], frozenset(), None)(says_nothing)


def test_partition_stats_are_per_column() -> None:
    partitions = {region("b"): 2, region(None): 3, region("a"): 1}
    stats = partition_stats(partitions, REGION_TYPES)
    assert (stats.min_values, stats.max_values, stats.null_counts) == (
        region("a"),
        region("b"),
        (3,),
    )
    only_null = partition_stats({region(None): 1}, REGION_TYPES)
    assert (only_null.min_values, only_null.null_counts) == (region(None), (1,))
    assert partition_stats({EMPTY_ROW: 5}, []) == EMPTY_STATS


def test_a_summary_counts_and_bounds() -> None:
    entries = [
        added(data_file(level=0), bucket=3),
        deleted(data_file(level=4), bucket=1),
        added(data_file(level=2), bucket=2),
    ]
    meta = summarize("m", DecodedManifest(entries, 77), 5, [])
    assert (meta.file_size, meta.num_added_files, meta.num_deleted_files, meta.schema_id) == (
        77,
        2,
        1,
        5,
    )
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 3, 0, 4)


def test_live_is_what_no_later_entry_deletes() -> None:
    a0, a5, b, gone = data_file("a"), data_file("a", level=5), data_file("b"), data_file("gone")
    entries = [added(gone), added(a0), added(b), deleted(gone), deleted(a0), added(a5)]
    assert live(entries) == [added(b), added(a5)]
    assert live([deleted(gone), added(b)]) == [added(b)]
    with pytest.raises(DamagedError, match="'b'"):
        live([added(b), added(a0), added(b)])
    with pytest.raises(DamagedError, match="'a'"):
        live([added(a0), added(a0), deleted(a0)])


def test_the_cache_keeps_to_its_budget_and_drops_the_least_used() -> None:
    manifest = DecodedManifest([added(data_file())], 9)
    cache = ManifestCache(budget_bytes=3 * manifest.size_bytes)
    for name in "abc":
        cache.put(name, manifest)
    cache.get("a")
    cache.put("d", manifest)
    cache.put("d", manifest)
    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
    assert cache.size_bytes == 3 * manifest.size_bytes
    cache.put("huge", DecodedManifest([added(data_file())] * 4, 9))
    assert cache.get("huge") is None
    assert cache.get("a") is not None
    cache.clear()
    assert (cache.get("a"), cache.size_bytes) == (None, 0)


def test_the_cache_counts_what_it_holds() -> None:
    """The estimate is near what Python says of a manifest that was read: within a factor of two."""
    import tracemalloc

    files = [data_file(low=1000 * number, high=1000 * number + 9) for number in range(500)]
    written = write_manifest([added(file) for file in files])
    read_manifest(written, "warm")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    manifest = DecodedManifest(read_manifest(written, "m"), len(written))
    real = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert real / 2 <= manifest.size_bytes <= real * 2
