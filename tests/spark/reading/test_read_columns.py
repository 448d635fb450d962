"""Option `columns` of batch and streaming reads: only these columns leave the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import widetable as wt


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    fields = [pa.field("k", pa.int64(), nullable=False)]
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        pa.schema([*fields, *[pa.field(f"c{i}", pa.int64()) for i in range(5)]]),
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "changelog-producer": "lookup",
        },
    )
    table.write([{"k": 1, "c0": 10}])
    table.write([{"k": 1, "c1": 20}, {"k": 2, "c1": 30}])
    return table


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_a_batch_read_has_the_columns_in_the_order_given(
    spark: SparkSession, table: wt.Table
) -> None:
    reader = spark.read.format("widetable").option("columns", "c1, k")
    frame = reader.load(table.path)
    assert frame.columns == ["c1", "k"]
    assert _rows(frame) == [(20, 1), (30, 2)]
    past = reader.option("snapshot-id", "1").load(table.path)
    assert _rows(past) == [(None, 1)]


@pytest.mark.parametrize("with_kind", [False, True])
def test_a_stream_has_the_columns_and_what_changes_carry(
    spark: SparkSession, table: wt.Table, tmp_path: Path, with_kind: bool
) -> None:
    reader = spark.readStream.format("widetable").option("columns", "k,c1")
    if with_kind:
        reader = reader.option("read.changelog", "true")
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    frame = reader.options(**options).load(table.path)
    assert frame.columns == ["k", "c1", *(["_row_kind"] if with_kind else [])]
    seen: list[tuple[Any, ...]] = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: seen.extend(map(tuple, rows.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    expected = [(1, None, "+I"), (1, None, "-U"), (1, 20, "+U"), (2, 30, "+I")]
    if not with_kind:
        expected = [row[:2] for row in expected if row[2] != "-U"]  # type: ignore[misc]
    assert sorted(seen, key=str) == sorted(expected, key=str)


def test_columns_that_the_table_lacks_are_refused(spark: SparkSession, table: wt.Table) -> None:
    with pytest.raises(Exception, match="column 'nope'"):
        spark.read.format("widetable").option("columns", "k, nope").load(table.path)


def test_columns_beside_a_schema_must_be_its_columns(spark: SparkSession, table: wt.Table) -> None:
    reader = spark.read.format("widetable").option("columns", "k").schema("k BIGINT, c0 BIGINT")
    with pytest.raises(Exception, match="option 'columns'"):
        reader.load(table.path).collect()
    same = spark.read.format("widetable").option("columns", "k").schema("k BIGINT")
    assert _rows(same.load(table.path)) == [(1,), (2,)]
