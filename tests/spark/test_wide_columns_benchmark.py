"""The Spark tasks of the workload `wide_columns` run in the session of the other tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import widetable as wt
from benchmarks.engine.wide_columns_process import Shape, measure


@pytest.mark.slow
def test_a_wide_table_is_written_and_read_by_the_benchmark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.getActiveSession() is not None, "the tasks get this session"
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    path, shape = str(tmp_path / "bench.db" / "t"), Shape(columns=30, rows=50, keys=100, calls=2)
    written = measure("spark write", path, shape)
    for task in ("spark read", "spark read of one column"):
        assert len(measure(task, path, shape).calls) == 2
    assert len(written.calls) == 2
    assert len(wt.Table.open(path).snapshots()) == 2
