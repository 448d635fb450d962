"""Partition columns that data files lack, in Spark: they have the values of the partitions, both ways of reading."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.support.tables.bare_files import bare_copy
from tests.support.tables.fixture_tables import ROOT

OTHERS = ROOT / "wh_others/others.db"


def texts(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in frame.collect())


@pytest.mark.parametrize("name", ["append_parts", "append_dv64_parts", "cross_deduplicate"])
@pytest.mark.parametrize("where", [None, "p = {}", "p <> {}", "p is null"])
def test_both_ways_of_reading_have_the_values(
    spark: SparkSession, tmp_path: Path, name: str, where: str | None
) -> None:
    where = where and where.format("'a'" if name == "cross_deduplicate" else "1")
    path = tmp_path / "others.db" / name
    bare_copy(OTHERS / name, path, ["p"])
    expected = texts(widetable_spark.read(spark, OTHERS / name, where=where))
    assert texts(widetable_spark.read(spark, path, where=where)) == expected
    loaded = spark.read.format("widetable").load(str(path))
    assert texts(loaded if where is None else loaded.where(where)) == expected


def test_a_stream_has_the_values(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "others.db/t"
    bare_copy(OTHERS / "append_parts", path, ["p"])
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1"}
    stream = spark.readStream.format("widetable").options(**options).load(str(path))
    rows: list[str] = []
    query = (
        stream.writeStream.foreachBatch(
            lambda batch, _: rows.extend(texts(batch.drop("_row_kind")))
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(rows) == texts(widetable_spark.read(spark, OTHERS / "append_parts"))


def test_files_that_hold_the_column_are_scanned_by_spark_beside_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema([("p", pa.int64()), ("k", pa.int64()), ("v", pa.string())])
    options = {"bucket": "1", "write-only": "true"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    table.write([{"p": 1, "k": 1, "v": "a"}])
    bare_copy(Path(table.path), tmp_path / "db.db/bare", ["p"])
    bare = wt.Table.open(tmp_path / "db.db/bare")
    bare.write([{"p": 2, "k": 1, "v": "b"}])
    frame = widetable_spark.read(spark, bare.path)
    plan = frame._jdf.queryExecution().toString()
    assert "MapInArrow" in plan
    assert "parquet" in plan
    assert [tuple(row) for row in sorted(frame.collect())] == [(1, 1, "a"), (2, 1, "b")]
    without = widetable_spark.read(spark, bare.path, columns=["k", "v"])
    assert "MapInArrow" not in without._jdf.queryExecution().toString()
