"""One Spark session for all tests of this folder; a table of two sequence groups to write to; one to ask for keys.

WIDETABLE_SPARK_ZONE: the session's time zone (`make zones` runs the folder in two others than UTC).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.spark.joining.joined_query import put
from tests.support.programs.spark_home import LONG_RUN

WIDE = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("a_seq", pa.int64()),
        pa.field("a", pa.string()),
        pa.field("b_seq", pa.int64()),
        pa.field("b", pa.float64()),
    ]
)
GROUPS = {
    "merge-engine": "partial-update",
    "fields.a_seq.sequence-group": "a",
    "fields.b_seq.sequence-group": "b",
    "bucket": "2",
}


PEOPLE = {"k": pa.int64(), "name": pa.string(), "city": pa.string()}


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert java_home
    session = (
        SparkSession.builder.master("local[2]")
        .appName("widetable-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "8g" if LONG_RUN else "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", os.environ.get("WIDETABLE_SPARK_ZONE", "UTC"))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config(map=widetable_spark.local_checkpoints())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, for derived jobs."""
    key = "spark.sql.streaming.noDataMicroBatches.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, "false")
    yield spark
    spark.conf.set(key, before or "true")


@pytest.fixture
def wide_table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.wide", WIDE, primary_key=["k"], options=GROUPS
    )


@pytest.fixture
def dim(tmp_path: Path) -> wt.Table:
    """D of the acceptance cases: 1 and 2 are there, 3 was and is not."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.people", PEOPLE, primary_key=["k"], options={"bucket": "2"}
    )
    put(table, (1, "Ann", "Oslo"), (2, "Bob", "Rome"), (3, "Cid", "Kyiv"))
    gone = {"k": [3], "_row_kind": ["-D"]}
    table.write(pa.table({**gone, "name": ["Cid"], "city": ["Kyiv"]}))
    return table
