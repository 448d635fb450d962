"""Postponed buckets and Spark: the tasks of a stream write without buckets, a compaction gives them some, and readers
see rows and changes of the last record of each key.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from tests.support.faults import patience
from widetable.operations.compaction import postponed_rows

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


def made(folder: Path) -> wt.Table:
    options = {"bucket": "-2", "changelog-producer": "lookup", "widetable.fsync": "false"}
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        {"day": "INT", "k": "BIGINT", "v": "STRING"},
        primary_key=["day", "k"],
        partition_by=["day"],
        options=options | {"postpone.default-bucket-num": "2"},
    )


def test_executors_bring_rows_into_buckets(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver plans and commits, and writes no data file."""

    def refused(*_: object) -> NoReturn:
        raise AssertionError("the driver places rows")

    monkeypatch.setattr(postponed_rows, "placed_at_last", refused)
    table = made(tmp_path / "wh")
    query = widetable_spark.maintain(spark, table.path, trigger_millis=50, expire=False)
    try:
        for number in range(2):
            keys = range(number * 5, number * 5 + 30)
            table.write([{"day": k % 3, "k": k, "v": f"v{number}"} for k in keys])
            count = 30 + number * 5
            patience.wait_for(lambda count=count: table.scan().count() == count)  # type: ignore[misc]
    finally:
        query.stop()
    monkeypatch.undo()
    table.compact()
    rows = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {k: "v0" if k < 5 else "v1" for k in range(35)}
    placed = [s for s in table.snapshots() if "widetable.placed-rows" in s.properties]
    assert [s.properties["widetable.placed-rows"] for s in placed] == ["30", "30"]
    assert table.audit().findings == ()


def test_a_stream_of_several_tasks_is_seen_when_it_is_compacted(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path / "wh")
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
