"""The option `branch`: reads, writes and streams of one branch, which show in no other one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.support.tables.branched import create, opened, put, rows_of


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """A branch `b` of its first commit, and another commit."""
    made = create(tmp_path / "warehouse", **{"changelog-producer": "lookup"})
    put(made, {1: "a"})
    made.create_tag("first")
    made.create_branch("b", tag="first")
    put(made, {1: "main"})
    return made


def test_batches_of_a_branch(spark: SparkSession, table: wt.Table) -> None:
    source = {"path": table.path, "branch": "b"}
    frame = spark.createDataFrame([(2, "b")], "k long, v string")
    frame.write.format("widetable").options(**source).mode("append").save()
    found = spark.read.format("widetable").options(**source).load()
    assert sorted(map(tuple, found.collect())) == [(1, "a"), (2, "b")]
    good = widetable_spark.read(spark, opened(table, "b").path)
    assert sorted(map(tuple, good.collect())) == [(1, "a"), (2, "b")]
    assert rows_of(table) == {1: "main"}


def test_streams_of_a_branch(spark: SparkSession, table: wt.Table, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"k": pa.array([1, 3], pa.int64()), "v": ["x", "y"]}), tmp_path / "in/1.parquet"
    )
    spark.readStream.schema("k long, v string").parquet(str(tmp_path / "in")).writeStream.format(
        "widetable"
    ).option("path", table.path).option("branch", "b").option(
        "checkpointLocation", str(tmp_path / "to")
    ).trigger(availableNow=True).start().awaitTermination()
    assert rows_of(opened(table, "b")) == {1: "x", 3: "y"}
    assert rows_of(table) == {1: "main"}
    found: list[tuple[object, ...]] = []
    changes = (
        spark.readStream.format("widetable")
        .option("path", table.path)
        .option("branch", "b")
        .option("read.changelog", "true")
        .option("consumer-id", "reader")
        .load()
    )
    changes.writeStream.foreachBatch(
        lambda frame, _: found.extend(map(tuple, frame.collect()))
    ).option("checkpointLocation", str(tmp_path / "from")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(found) == [(1, "x", "+I"), (3, "y", "+I")]
    assert table.consumers() == {}


def test_a_branch_that_is_not_there_is_named(spark: SparkSession, table: wt.Table) -> None:
    with pytest.raises(Exception, match="no such branch; expected one of b"):
        spark.read.format("widetable").option("path", table.path).option("branch", "c").load()
