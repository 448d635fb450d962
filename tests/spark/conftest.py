"""One Spark session for all tests of this folder, and a table of two sequence groups to write to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt

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


@pytest.fixture(scope="session")
def spark(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert java_home
    session = (
        SparkSession.builder.master("local[2]")
        .appName("widetable-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def wide_table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.wide", WIDE, primary_key=["k"], options=GROUPS
    )
