"""The benchmark of lookup joins runs, at its tiny size and in the session of the other tests: all ways agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.bench_lookup_join import SHAPES, measured
from benchmarks.harness import Size


@pytest.mark.slow
def test_all_ways_to_join_are_measured(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    rows = measured(spark, tmp_path, SHAPES[Size.TINY])
    assert len(rows) == 3
    assert all(row.ours and row.ok is None for row in rows)
