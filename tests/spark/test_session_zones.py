"""A condition means the same whoever reads the rows: Spark's session decides, with its zone, whatever is compacted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
import widetable_spark

UTC = dt.timezone.utc
# Ahead of UTC and behind it; one with daylight saving; one that left out 2011-12-30.
ZONES = ["Asia/Tokyo", "-12:00", "America/New_York", "Pacific/Apia"]
# Midnight of a year in all zones, the clock changes of New York in 2024, the day that Apia skipped: and hours around.
MOMENTS = [
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 3, 10, 7),
    dt.datetime(2024, 11, 3, 6),
    dt.datetime(2011, 12, 30, 10),
]
HOURS = [-14, -9, -6, -2, -1, 0, 1, 4, 10, 14]
CONDITIONS = [
    "at >= TIMESTAMP '2024-01-01 00:00:00'",
    "at >= '2024-01-01 00:00:00'",
    "at = TIMESTAMP '2024-01-01 00:00:00'",
    "at <> TIMESTAMP '2024-01-01 00:00:00'",
    "NOT at < TIMESTAMP '2024-01-01 00:00:00'",
    "NOT (at >= '2024-01-01' AND at <= '2024-01-02')",
    "at BETWEEN TIMESTAMP '2023-12-31 20:00:00' AND TIMESTAMP '2024-01-01 12:00:00'",
    "at IN (TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 04:00:00')",
    "NOT at IN (TIMESTAMP '2024-01-01 00:00:00', NULL)",
    "at <=> TIMESTAMP '2024-01-01 00:00:00'",
    "at = TIMESTAMP '2024-01-01 00:00:00+09:00'",
    "at >= DATE '2024-01-01'",
    "wall >= TIMESTAMP '2024-03-10 03:00:00'",
    "wall = TIMESTAMP '2024-03-10 03:30:00'",
    "wall <> '2024-03-10 02:30:00'",
    "wall IN ('2024-03-10 02:30:00', '2024-11-03 01:30:00')",
    "day < TIMESTAMP '2011-12-31 04:00:00'",
    "day = DATE '2024-01-01' AND at > TIMESTAMP '2024-01-01 02:00:00'",
    "at IS NULL OR wall IS NULL",
]


SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("wall", pa.timestamp("ms")),
        pa.field("n", pa.int64()),
    ]
)


def new_table(warehouse: Path) -> wt.Table:
    """Moments are keys, so that bounds of files prune by them; a partition for each day; two files to merge in each."""
    table = wt.Catalog(str(warehouse)).create_table(
        "db.t",
        SCHEMA,
        primary_key=["day", "at"],
        partition_by=["day"],
        options={"bucket": "1", "merge-engine": "partial-update", "write-only": "true"},
    )
    moments = sorted({one + dt.timedelta(hours=h) for one in MOMENTS for h in HOURS})
    walls = [one - dt.timedelta(hours=4, minutes=30) for one in moments]
    rows = pa.table(
        {
            "day": [one.date() for one in moments],
            "at": [one.replace(tzinfo=UTC) for one in moments],
            "wall": [None if n % 7 == 3 else wall for n, wall in enumerate(walls)],
            "n": list(range(len(moments))),
        },
        schema=SCHEMA,
    )
    table.write(rows.select(["day", "at", "wall"]))
    table.write(rows.select(["day", "at", "n"]))
    return table


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same rows: all in files that must be merged, and all in files that Spark reads by itself."""
    tables = {name: new_table(tmp_path_factory.mktemp(name)) for name in ("merged", "compacted")}
    tables["compacted"].compact(full=True)
    return {name: table.path for name, table in tables.items()}


@pytest.fixture(params=ZONES)
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def test_a_condition_keeps_the_same_rows_before_and_behind_a_compaction(
    spark: SparkSession, paths: dict[str, str], zone: str
) -> None:
    whole = widetable_spark.read(spark, paths["merged"])
    is_kept = [sf.coalesce(sf.expr(text), sf.lit(False)).alias(text) for text in CONDITIONS]
    rows = whole.select("n", *is_kept).collect()
    expected = {text: sorted(row.n for row in rows if row[text]) for text in CONDITIONS}
    assert sum(0 < len(kept) < len(rows) for kept in expected.values()) > len(CONDITIONS) // 2
    for name, path in paths.items():
        frames = [
            widetable_spark.read(spark, path, columns=["n"], where=text).select(
                "n", sf.lit(text).alias("text")
            )
            for text in CONDITIONS
        ]
        found = reduce(DataFrame.union, frames).collect()
        for text, kept in expected.items():
            assert sorted(row.n for row in found if row.text == text) == kept, (name, text)


@pytest.mark.parametrize("text", ["null", "day = '20240301'", "n > 1e400"])
def test_a_condition_that_spark_refuses_is_refused_whoever_would_read(
    spark: SparkSession, paths: dict[str, str], text: str
) -> None:
    for path in paths.values():
        with pytest.raises((wt.InvalidError, PySparkException)):
            widetable_spark.read(spark, path, where=text).collect()
