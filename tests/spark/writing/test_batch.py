"""Batch writes and reads through format("widetable")."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import widetable as wt


def test_append_of_two_column_sets_gives_whole_rows(
    spark: SparkSession, wide_table: wt.Table
) -> None:
    spark.createDataFrame([(1, 5, "x"), (2, 5, "y")], "k long, a_seq long, a string").write.format(
        "widetable"
    ).mode("append").save(wide_table.path)
    spark.createDataFrame([(1, 7, 1.5), (3, 7, 2.5)], "k long, b_seq long, b double").write.format(
        "widetable"
    ).mode("append").save(wide_table.path)
    rows = spark.read.format("widetable").load(wide_table.path).orderBy("k").collect()
    assert [tuple(row) for row in rows] == [
        (1, 5, "x", 7, 1.5),
        (2, 5, "y", None, None),
        (3, None, None, 7, 2.5),
    ]


def test_one_dataframe_is_one_commit_whatever_its_partitions(
    spark: SparkSession, wide_table: wt.Table
) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id as k", "id as a_seq", "string(id) as a")
    frame.write.format("widetable").mode("append").save(wide_table.path)
    appends = [s for s in wide_table.snapshots() if s.commit_kind == "APPEND"]
    assert len(appends) == 1
    assert wide_table.scan(columns=["k", "a"]).to_arrow().sort_by("k")["a"].to_pylist() == [
        str(i) for i in range(1000)
    ]


def test_row_kinds_ride_in_a_column(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    for rows in ([(1, "a", "+I"), (2, "b", "+I")], [(1, "a", "-D"), (2, "c", "+U")]):
        spark.createDataFrame(rows, "k long, v string, _row_kind string").write.format(
            "widetable"
        ).mode("append").save(table.path)
    assert table.scan().to_arrow().to_pylist() == [{"k": 2, "v": "c"}]


def test_overwrite_replaces_the_table(spark: SparkSession, wide_table: wt.Table) -> None:
    for keys in ([1, 2, 3], [9]):
        spark.createDataFrame(
            [(k, 1, "v") for k in keys], "k long, a_seq long, a string"
        ).write.format("widetable").mode("overwrite").save(wide_table.path)
    assert wide_table.scan(columns=["k"]).to_arrow()["k"].to_pylist() == [9]
    assert wide_table.snapshots()[-1].commit_kind == "OVERWRITE"


def test_overwrite_of_a_partitioned_table_replaces_the_partitions_of_the_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = pa.schema(
        [
            pa.field("p", pa.string(), nullable=False),
            pa.field("k", pa.int64(), nullable=False),
            pa.field("v", pa.int64()),
        ]
    )
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=["p", "k"], partition_by=["p"]
    )
    ddl = "p string, k long, v long"
    spark.createDataFrame([("a", 1, 1), ("b", 1, 1)], ddl).write.format("widetable").mode(
        "append"
    ).save(table.path)
    spark.createDataFrame([("b", 2, 2)], ddl).write.format("widetable").mode("overwrite").save(
        table.path
    )
    assert sorted(map(tuple, (r.values() for r in table.scan().to_arrow().to_pylist()))) == [
        ("a", 1, 1),
        ("b", 2, 2),
    ]


def test_every_column_type_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            pa.field("flag", pa.bool_()),
            pa.field("tiny", pa.int8()),
            pa.field("small", pa.int16()),
            pa.field("real", pa.float32()),
            pa.field("amount", pa.decimal128(20, 4)),
            pa.field("raw", pa.binary()),
            pa.field("day", pa.date32()),
            pa.field("millis", pa.timestamp("ms")),
            pa.field("micros", pa.timestamp("us", tz="UTC")),
            pa.field("list", pa.list_(pa.int32())),
            pa.field("map", pa.map_(pa.string(), pa.int64())),
            pa.field("row", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
        ]
    )
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    utc = dt.timezone.utc
    row = {
        "k": 1,
        "flag": True,
        "tiny": -7,
        "small": 300,
        "real": 1.5,
        "amount": decimal.Decimal("12.3400"),
        "raw": b"\x00\xff",
        "day": dt.date(1969, 12, 31),
        "millis": dt.datetime(2024, 1, 2, 3, 4, 5, 678000),
        "micros": dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=utc),
        "list": [1, None],
        "map": [("a", 1)],
        "row": {"x": 1, "y": None},
    }
    table.write(pa.Table.from_pylist([row, {"k": 2}], schema=schema))
    frame = spark.read.format("widetable").load(table.path)
    frame.write.format("widetable").mode("append").save(table.path)
    assert table.scan(filter="k = 1").to_arrow().to_pylist() == [row]
    assert set(table.scan(filter="k = 2").to_arrow().to_pylist()[0].values()) == {2, None}


def test_a_schema_of_fewer_columns_reads_only_these(
    spark: SparkSession, wide_table: wt.Table
) -> None:
    wide_table.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    frame = spark.read.format("widetable").schema("a string").load(wide_table.path)
    assert [tuple(r) for r in frame.collect()] == [("x",)]


def test_time_travel_by_option(spark: SparkSession, wide_table: wt.Table) -> None:
    first = wide_table.write(pa.table({"k": [1], "a_seq": [1], "a": ["x"]}))
    wide_table.write(pa.table({"k": [1], "a_seq": [2], "a": ["y"]}))
    frame = (
        spark.read.format("widetable")
        .option("snapshot-id", str(first.snapshot_id))
        .load(wide_table.path)
    )
    assert frame.select("a").collect()[0].a == "x"


@pytest.mark.parametrize(
    ("ddl", "row", "message"),
    [
        ("a_seq long, a string", (1, "x"), "'k'"),
        ("k long, nope string", (1, "x"), "'nope'"),
        ("k long, a string", (1, "x"), "a_seq"),
        ("k long, a_seq long", (1, 1), "a"),
        ("k long, b_seq string, b double", (1, "x", 1.0), "'b_seq'"),
    ],
)
def test_a_wrong_column_set_is_refused_before_a_row_is_read(
    spark: SparkSession, wide_table: wt.Table, ddl: str, row: tuple[object, ...], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        spark.createDataFrame([row], ddl).write.format("widetable").mode("append").save(
            wide_table.path
        )
    assert wide_table.snapshots() == []


def test_an_unknown_option_is_refused_by_name(spark: SparkSession, wide_table: wt.Table) -> None:
    with pytest.raises(Exception, match="snapshot-idd"):
        spark.read.format("widetable").option("snapshot-idd", "1").load(wide_table.path)


def test_a_null_key_fails_the_job_and_leaves_the_table(
    spark: SparkSession, wide_table: wt.Table
) -> None:
    with pytest.raises(Exception, match="'k'"):
        spark.createDataFrame([(None, 1, "x")], "k long, a_seq long, a string").write.format(
            "widetable"
        ).mode("append").save(wide_table.path)
    assert wide_table.snapshots() == []
