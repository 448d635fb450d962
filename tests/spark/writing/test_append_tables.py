"""Append tables and Spark: streams in and out exactly once, batches, sorts on the executors; all beside maintenance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from widetable_spark.startup.spark_version import HAS_LIMITS

COLUMNS = {"day": pa.int32(), "n": pa.int64(), "text": pa.string()}
DDL = "day int, n long, text string"
OPTIONS = {"widetable.fsync": "false"}


def made(folder: Path, name: str, **options: str) -> wt.Table:
    return wt.Catalog(str(folder / "wh")).create_table(
        f"db.{name}", COLUMNS, partition_by=["day"], options={**OPTIONS, **options}
    )


def drop(folder: Path, number: int, rows: int) -> Counter[tuple[Any, ...]]:
    """Put a file of rows into a folder; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(number * rows, (number + 1) * rows)
    table = pa.table(
        {
            "day": pa.array([n % 3 for n in numbers], pa.int32()),
            "n": pa.array(numbers, pa.int64()),
            "text": pa.array([None if n % 5 == 0 else f"t{n}" for n in numbers]),
        }
    )
    pq.write_table(table, folder / f".{number}.tmp")
    (folder / f".{number}.tmp").rename(folder / f"{number:04d}.parquet")
    return counts(table)


def counts(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter((row["day"], row["n"], row["text"]) for row in table.to_pylist())


def from_files(spark: SparkSession, source: Path, table: wt.Table, checkpoint: Path) -> None:
    frame = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
    ended(frame, table, checkpoint)


def from_table(spark: SparkSession, source: wt.Table, table: wt.Table, checkpoint: Path) -> int:
    limits = {"read.stream.maxRowsPerTrigger": "10"} if HAS_LIMITS else {}
    return ended(
        spark.readStream.format("widetable")
        .option("consumer-id", "next")
        .options(**limits)
        .load(source.path)
        .drop("_row_kind"),
        table,
        checkpoint,
    )


def ended(frame: Any, table: wt.Table, checkpoint: Path) -> int:
    """Run a query to its end; the number of batches with rows."""
    writer = frame.writeStream.format("widetable").option("path", table.path)
    query: StreamingQuery = (
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "n"}])
def test_a_stream_fills_a_table_that_fills_another_beside_maintenance(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    first, second = made(tmp_path, "a", **options), made(tmp_path, "b", **options)
    expected: Counter[tuple[Any, ...]] = Counter()
    for number in range(4):
        expected += drop(tmp_path / "files", number, 40)
        from_files(spark, tmp_path / "files", first, tmp_path / "cp1")
        batches = from_table(spark, first, second, tmp_path / "cp2")
        assert batches > 1 or not HAS_LIMITS
        first.compact(full=number % 2 == 0)
        second.maintain(once=True)
        for table in (first, second):
            table.expire_snapshots(1, 1, 0)
    for table in (first, second):
        assert counts(table.scan().to_arrow()) == expected
        assert counts(widetable_spark.read(spark, table.path).toArrow()) == expected
        assert table.audit().findings == ()


def test_a_replayed_batch_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "a")
    expected = drop(tmp_path / "files", 0, 30)
    expected += drop(tmp_path / "files", 1, 30)
    from_files(spark, tmp_path / "files", table, tmp_path / "cp")
    (tmp_path / "cp/commits/1").unlink()
    for crc in (tmp_path / "cp/commits").glob(".1.crc"):
        crc.unlink()
    from_files(spark, tmp_path / "files", table, tmp_path / "cp")
    assert counts(table.scan().to_arrow()) == expected


def test_many_tasks_leave_few_files(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "a")
    frame = spark.range(900).selectExpr("cast(id % 2 as int) day", "id n", "'x' text")
    frame.repartition(9).write.format("widetable").mode("append").save(table.path)
    assert table.scan().count() == 900
    assert table.inspect.files().num_rows == 2


def test_deleted_rows_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "a", **{"deletion-vectors.enabled": "true"})
    spark.range(100).selectExpr("cast(id % 2 as int) day", "id n", "'x' text").write.format(
        "widetable"
    ).mode("append").save(table.path)
    table.delete("n < 40")
    table.update("n = 41", {"text": "new"})
    rows = widetable_spark.read(spark, table.path, where="n < 42").toArrow().to_pylist()
    assert sorted((row["n"], row["text"]) for row in rows) == [(40, "x"), (41, "new")]
    assert spark.read.format("widetable").load(table.path).count() == 60


def test_partitions_are_sorted_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, "a")
    frame = spark.range(600).selectExpr(
        "cast(id % 3 as int) day", "(id * 7919) % 600 n", "cast(id as string) text"
    )
    frame.write.format("widetable").mode("append").save(table.path)
    before = counts(table.scan().to_arrow())
    done = widetable_spark.sort_compact(spark, table.path, ["n"], "linear")
    assert (done.rows, done.files) == (600, 3)
    assert counts(table.scan().to_arrow()) == before
    for day in range(3):
        numbers = table.scan(["n"], f"day = {day}").to_arrow().column("n").to_pylist()
        assert numbers == sorted(numbers)
    assert not widetable_spark.sort_compact(spark, table.path, ["n"], "linear").committed
    assert table.audit().findings == ()
