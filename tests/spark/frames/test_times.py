"""Times in options of reads and streams: ISO texts reach the snapshots that they name, by path and in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.support.tables.dated_snapshots import dated_table

TEN = datetime(2026, 11, 27, 10, tzinfo=timezone.utc)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[wt.Table]:
    """A snapshot each day at ten, of one row more."""
    dated = dated_table(tmp_path / "wh", {})
    for day in range(3):
        dated.add(TEN + timedelta(days=day))
    yield dated.table
    spark.sql("DROP DATABASE IF EXISTS db CASCADE")


@pytest.mark.parametrize(("given", "rows"), [("2026-11-28T10:00Z", 2), ("2026-11-28 09:59 UTC", 1)])
def test_a_read_is_of_an_iso_time(
    spark: SparkSession, table: wt.Table, given: str, rows: int
) -> None:
    read = spark.read.format("widetable").option("timestamp-millis", given)
    assert read.load(table.path).count() == rows
    widetable_spark.register_catalog(spark, Path(table.path).parents[1])
    named = spark.sql(f"SELECT k FROM db.t WITH ('timestamp-millis' = '{given}')")
    assert named.count() == rows


def test_a_stream_starts_at_an_iso_time(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    stream = spark.readStream.format("widetable").option(
        "scan.timestamp-millis", "2026-11-28T11:00+01:00"
    )
    query = stream.load(table.path).writeStream.trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "cp"))
    query.start(str(tmp_path / "out"), format="parquet").awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["k"] for row in found) == [2, 3]


def test_what_is_no_time_is_refused(spark: SparkSession, table: wt.Table) -> None:
    read = spark.read.format("widetable").option("timestamp-millis", "last week")
    with pytest.raises(PySparkException, match=r"'timestamp-millis'.*2026-11-27T10:00"):
        read.load(table.path).count()
