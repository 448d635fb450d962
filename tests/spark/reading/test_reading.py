"""widetable_spark.read: planned afresh, columns and filters pushed, raw buckets scanned by Spark itself."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import widetable as wt
import widetable_spark
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.reading.served_reads import hadoop_serves


@pytest.fixture
def months(tmp_path: Path) -> wt.Table:
    schema = pa.schema(
        [
            pa.field("day", pa.date32(), nullable=False),
            pa.field("k", pa.int64(), nullable=False),
            pa.field("v", pa.string()),
            pa.field("w", pa.int64()),
        ]
    )
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.months",
        schema,
        primary_key=["day", "k"],
        partition_by=["day"],
        options={"bucket": "2", "merge-engine": "partial-update", "write-only": "true"},
    )
    days = [dt.date(2024, 1, 1), dt.date(2024, 2, 1)]
    table.write(
        pa.table(
            {"day": days * 50, "k": list(range(100)), "v": [f"v{i}" for i in range(100)]},
            schema=pa.schema(list(schema)[:3]),
        )
    )
    return table


def _expected(table: wt.Table, **scan: object) -> list[dict[str, object]]:
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=lambda r: str(r))  # type: ignore[arg-type]


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_equal_the_tables_own_scan(
    spark: SparkSession, months: wt.Table, compacted: bool
) -> None:
    months.write(pa.table({"day": [dt.date(2024, 2, 1)], "k": [1], "w": [7]}))
    if compacted:
        months.compact(full=True)
    frame = widetable_spark.read(spark, months.path)
    assert sorted((r.asDict() for r in frame.collect()), key=str) == _expected(months)


def test_a_bucket_of_one_run_is_scanned_by_spark_and_the_others_are_merged(
    spark: SparkSession, months: wt.Table
) -> None:
    months.compact(full=True)
    assert (
        "MapInArrow"
        not in widetable_spark.read(spark, months.path)._jdf.queryExecution().toString()
    )
    months.write(pa.table({"day": [dt.date(2024, 2, 1)], "k": [1], "w": [7]}))
    plan = widetable_spark.read(spark, months.path)._jdf.queryExecution().toString()
    assert "MapInArrow" in plan
    assert "FileScan parquet" in plan or "parquet" in plan
    assert len(widetable_spark.read(spark, months.path).collect()) == 100


def test_columns_and_a_condition_on_a_column_that_is_not_read(
    spark: SparkSession, months: wt.Table
) -> None:
    for compact in (False, True):
        if compact:
            months.compact(full=True)
        frame = widetable_spark.read(
            spark, months.path, columns=["v"], where="k between 3 and 5 and day = date '2024-02-01'"
        )
        assert sorted(r.v for r in frame.collect()) == ["v3", "v5"]
        assert frame.columns == ["v"]


def test_each_call_plans_afresh(spark: SparkSession, months: wt.Table) -> None:
    before = widetable_spark.read(spark, months.path)
    months.write(pa.table({"day": [dt.date(2024, 3, 1)], "k": [1], "v": ["new"]}))
    assert widetable_spark.read(spark, months.path).count() == before.count() + 1


def test_conditions_of_two_reads_do_not_mix(spark: SparkSession, months: wt.Table) -> None:
    five = widetable_spark.read(spark, months.path, where="k = 5")
    six = widetable_spark.read(spark, months.path, where="k = 6")
    assert sorted(r.k for r in five.union(six).collect()) == [5, 6]
    frame = spark.read.format("widetable").load(months.path)
    assert sorted(r.k for r in frame.where("k = 5").union(frame.where("k = 6")).collect()) == [5, 6]


def test_as_of_a_snapshot_a_tag_and_a_time(spark: SparkSession, months: wt.Table) -> None:
    first = months.snapshots()[-1]
    months.create_tag("one")
    months.write(pa.table({"day": [dt.date(2024, 3, 1)], "k": [1], "v": ["new"]}))
    when = dt.datetime.fromtimestamp(first.time_millis / 1000 + 0.0005, dt.timezone.utc)
    for as_of in (first.id, "one", when):
        assert widetable_spark.read(spark, months.path, as_of=as_of).count() == 100
    with pytest.raises(wt.NotFoundError, match="99"):
        widetable_spark.read(spark, months.path, as_of=99)


def test_an_empty_table_has_no_rows_and_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    frame = widetable_spark.read(spark, table.path)
    assert frame.columns == ["k", "v"]
    assert frame.collect() == []
    assert spark.read.format("widetable").load(table.path).collect() == []


def test_files_in_a_store_are_left_to_spark_where_hadoop_has_a_connector(
    spark: SparkSession,
) -> None:
    for path in ("/tmp/t", "file:///tmp/t"):
        assert hadoop_serves(spark, path)
    configuration = spark._jsc.hadoopConfiguration()
    for scheme in ("s3", "abfss"):
        assert not hadoop_serves(spark, f"{scheme}://bucket/t")
        configuration.set(f"fs.{scheme}.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        try:
            assert hadoop_serves(spark, f"{scheme}://bucket/t")
        finally:
            configuration.unset(f"fs.{scheme}.impl")


@pytest.mark.parametrize(
    "folder", ["x[1]", "x{1}", "x{1,2}", "x?*", "x[", "back\\slash", "a b%20:#"]
)
def test_a_path_is_no_pattern(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    table = wt.Catalog(tmp_path / folder).create_table(
        "db.t", {"k": pa.int64()}, primary_key=["k"], options={"bucket": "1"}
    )
    table.write({"k": [1]})
    table.compact(full=True)
    frame = widetable_spark.read(spark, table.path)
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert [row.k for row in frame.collect()] == [1]


ODD_NAMES = {"k": 1, "a": {"b": 111}, "a.b": 222, "q`x": 333, "*": 444}
ODD_TYPES = {
    "k": "BIGINT",
    "a": "ROW<b BIGINT>",
    "a.b": "BIGINT",
    "q`x": "BIGINT",
    "*": "BIGINT",
}


@pytest.mark.parametrize("name", ["a.b", "q`x", "*"])
def test_columns_are_those_of_exactly_these_names(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """A bucket that Spark scans itself gave the field of a ROW, all columns, or an error of Spark."""
    table = wt.Catalog(tmp_path).create_table(
        "db.t", ODD_TYPES, primary_key=["k"], options={"bucket": "1", "write-only": "true"}
    )
    for _ in range(2):
        table.write([ODD_NAMES])
    for _ in ("merged", "one run"):
        frame = widetable_spark.read(spark, table.path, columns=["k", name])
        assert frame.columns == ["k", name]
        assert [tuple(row) for row in frame.collect()] == [(1, ODD_NAMES[name])]
        table.compact(full=True)


def test_a_sink_of_a_job_takes_columns_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    wt.Catalog(tmp_path / "wh").create_table(
        "db.t",
        ODD_TYPES,
        primary_key=["k"],
        options={"bucket": "1", "widetable.barrier-interval": "100 ms"},
    )
    folder = tmp_path / "in"
    folder.mkdir()
    rows = pa.Table.from_pylist([ODD_NAMES])
    pq.write_table(rows, folder / "1.parquet")
    stream = spark.readStream.schema(spark_schema(rows.schema)).parquet(str(folder))
    etl = widetable_spark.etl(spark, tmp_path / "wh", "root")
    query = (
        stream.writeStream.foreachBatch(etl.sink("db.t"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert wt.Catalog(tmp_path / "wh").table("db.t").scan().to_arrow().to_pylist() == [ODD_NAMES]
