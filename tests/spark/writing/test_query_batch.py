"""Micro-batches by `foreachBatch`, and writes that are repeated: each is in once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "bucket": "1"}


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    columns = {"k": "BIGINT", "v": "BIGINT"}
    return wt.Catalog(tmp_path / "wh").create_table(
        "db.sums", columns, primary_key=["k"], options=SUMS
    )


def total(table: wt.Table) -> int:
    return sum(row["v"] for row in table.scan().to_arrow().to_pylist())


def test_a_batch_that_comes_again_is_in_once(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    """The function fails behind its first commit, as a driver may die there: the batch runs again."""
    folder, fails = tmp_path / "in", [True]
    folder.mkdir()
    (folder / "1.json").write_text('{"k": 1, "v": 10}\n{"k": 2, "v": 5}\n')

    def sink(df: DataFrame, batch_id: int) -> None:
        widetable_spark.write_batch(df, batch_id, table.path, options={"columns": "k, v"})
        if fails:
            fails.clear()
            raise RuntimeError("died")

    def run() -> None:
        rows = spark.readStream.schema("k BIGINT, v BIGINT").json(str(folder))
        stream = rows.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tmp_path / "cp")).start()
        query.awaitTermination(120)

    with pytest.raises(StreamingQueryException, match="died"):
        run()
    run()
    assert total(table) == 15
    assert len(table.snapshots()) == 1


def test_a_query_whose_checkpoint_was_lost_counts_twice_and_says_so(
    spark: SparkSession, table: wt.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"k": 1, "v": 10}')

    def sink(df: DataFrame, batch_id: int) -> None:
        widetable_spark.write_batch(df, batch_id, table.path)

    def run(checkpoint: str) -> None:
        rows = spark.readStream.schema("k BIGINT, v BIGINT").json(str(folder))
        stream = rows.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = stream.option("checkpointLocation", str(tmp_path / checkpoint)).start()
        query.awaitTermination(120)

    run("first")
    assert "WT-W607" not in caplog.text
    run("another")
    assert total(table) == 20
    assert "WT-W607" in caplog.text


def test_a_write_with_an_identifier_is_in_once(spark: SparkSession, table: wt.Table) -> None:
    rows = spark.createDataFrame([(1, 10)], "k BIGINT, v BIGINT")

    def write(number: int) -> None:
        options = {"commit-user": "nightly", "commit-identifier": str(number)}
        rows.write.format("widetable").mode("append").options(**options).save(table.path)

    write(1)
    write(1)
    assert total(table) == 10
    write(2)
    with pytest.raises(Exception, match="an identifier above it"):
        write(1)
    assert total(table) == 20


def test_an_identifier_that_could_not_count_is_refused(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    rows = spark.createDataFrame([(1, 10)], "k BIGINT, v BIGINT")
    with pytest.raises(Exception, match=r"commit-identifier.*requires commit-user"):
        rows.write.format("widetable").mode("append").option("commit-identifier", "1").save(
            table.path
        )
    with pytest.raises(wt.InvalidError, match="nobody's streaming query"):
        widetable_spark.write_batch(rows, 0, table.path)
    with pytest.raises(wt.InvalidError, match="which the call says"):
        widetable_spark.write_batch(
            rows, 0, table.path, commit_user="a", options={"Commit-User": "b"}
        )
    with pytest.raises(wt.InvalidError, match="batch_id"):
        widetable_spark.write_batch(rows, -1, table.path, commit_user="a")
    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS v")
    query = (
        stream.writeStream.format("widetable")
        .options(path=table.path, checkpointLocation=str(tmp_path / "cp"))
        .option("commit-identifier", "1")
        .start()
    )
    with pytest.raises(Exception, match="numbers of their own"):
        query.awaitTermination(120)
    assert not table.snapshots()
