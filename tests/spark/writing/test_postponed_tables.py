"""Postponed buckets and Spark: the tasks of a stream write without buckets, a compaction gives them some, and readers
see rows and changes of the last record of each key.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark

_DDL = "day int, k long, v string"


def drop(folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    keys = range(number * 10, number * 10 + 40)
    columns = {"day": pa.array([k % 3 for k in keys], pa.int32()), "k": pa.array(keys, pa.int64())}
    table = pa.table({**columns, "v": [f"v{number}"] * 40})
    pq.write_table(table, folder / f".{number}.tmp")
    (folder / f".{number}.tmp").rename(folder / f"{number:04d}.parquet")


def fill(spark: SparkSession, source: Path, table: wt.Table, checkpoint: Path) -> None:
    frame = spark.readStream.schema(_DDL).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = frame.repartition(3).writeStream.format("widetable").option("path", table.path)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_stream_of_several_tasks_is_seen_when_it_is_compacted(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {"bucket": "-2", "changelog-producer": "lookup", "widetable.fsync": "false"}
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t",
        {"day": "INT", "k": "BIGINT", "v": "STRING"},
        primary_key=["day", "k"],
        partition_by=["day"],
        options=options | {"postpone.default-bucket-num": "2"},
    )
    for number in range(3):
        drop(tmp_path / "files", number)
        fill(spark, tmp_path / "files", table, tmp_path / "cp")
        if number:
            table.maintain(once=True)
    newest = {k: f"v{number}" for number in range(3) for k in range(number * 10, number * 10 + 40)}
    rows = widetable_spark.read(spark, table.path).toArrow().to_pylist()
    assert {row["k"]: row["v"] for row in rows} == newest
    assert len(rows) == len(newest)
    changes = (
        spark.readStream.format("widetable")
        .option("read.changelog", "true")
        .option("scan.mode", "from-snapshot")
        .option("scan.snapshot-id", "1")
        .load(table.path)
    )
    seen = tmp_path / "seen"
    writer = changes.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    writer.option("path", str(seen)).trigger(availableNow=True).start().awaitTermination()
    folded: dict[int, str] = {}
    for row in spark.read.parquet(str(seen)).toArrow().to_pylist():
        if row["_row_kind"] in ("+I", "+U"):
            folded[row["k"]] = max(row["v"], folded.get(row["k"], ""))
    assert folded == newest
    assert table.audit().findings == ()
