"""The benchmark of a record's age runs, at its tiny size and in the session of the other tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.harness import Size
from benchmarks.streams.bench_freshness import SHAPES, ages_of_records


@pytest.mark.slow
def test_records_are_seen_after_they_were_sent(spark: SparkSession, tmp_path: Path) -> None:
    ages = ages_of_records(spark, tmp_path, SHAPES[Size.TINY])
    assert len(ages)
    assert ages.min() >= 0
