"""The benchmarks of joins run, at their tiny sizes and in the session of the other tests: all ways agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.harness import Size
from benchmarks.lookups import bench_lookup_join
from benchmarks.streams import bench_samples, bench_stream_join


@pytest.mark.slow
def test_all_ways_to_join_are_measured(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    rows = bench_lookup_join.measured(spark, tmp_path, bench_lookup_join.SHAPES[Size.TINY])
    assert len(rows) == 3
    assert all(row.ours and row.ok is None for row in rows)


@pytest.mark.slow
def test_a_delta_join_and_a_stream_stream_join_agree(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    (row,) = bench_stream_join.measured(spark, tmp_path, bench_stream_join.SHAPES[Size.TINY])
    assert row.ours
    assert row.ok is None


@pytest.mark.slow
def test_samples_and_outer_joins_of_streams_agree(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = bench_samples.measured(spark, tmp_path, bench_samples.SHAPES[Size.TINY])
    assert ", 0 wrong" in row.ours
    assert ", 0 wrong" in row.theirs
