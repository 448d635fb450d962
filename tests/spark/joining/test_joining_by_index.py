"""Lookup joins in Spark by an index and by a part of the key: acceptance case 11, and replays."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.spark.joining.joined_query import Query, drop, fail_once, pins, put, tuples
from widetable_spark import lookup_join

PEOPLE = {"k": pa.int64(), "name": pa.string(), "city": pa.string()}


@pytest.fixture
def dim(tmp_path: Path) -> wt.Table:
    """D of the acceptance cases with key 4, indexed by city."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.people", PEOPLE, primary_key=["k"], options={"index.city": "db.by_city"}
    )
    put(table, (1, "Ann", "Oslo"), (2, "Bob", "Rome"))
    put(table, (4, "Cid", "Oslo"))
    table.maintain(once=True)
    return table


def with_city(left: DataFrame) -> DataFrame:
    """Left rows (id, city)."""
    city = sf.when(sf.col("k") == 1, "Oslo").when(sf.col("k") == 2, "Paris").otherwise("Rome")
    return left.select("id", city.alias("city"))


@pytest.mark.parametrize("how", ["left", "inner"])
def test_case_11_all_rows_of_a_value(spark: SparkSession, dim: wt.Table, how: str) -> None:
    left = spark.createDataFrame([(50, "Oslo"), (51, "Paris")], "id long, city string").coalesce(1)
    joined = lookup_join(left, dim, ["city"], how=how)
    assert joined.schema.simpleString() == "struct<id:bigint,city:string,k:bigint,name:string>"
    missed = [(51, "Paris", None, None)] if how == "left" else []
    rows = [tuple(row) for row in joined.collect()]
    assert rows == [(50, "Oslo", 1, "Ann"), (50, "Oslo", 4, "Cid"), *missed]
    put(dim, (1, "Ann", "Rome"))
    again = lookup_join(left, dim, ["city"], how=how)
    assert [tuple(row) for row in again.collect()] == rows
    dim.maintain(once=True)
    fed = lookup_join(left, dim, {"city": "city"}, how=how)
    assert [tuple(row) for row in fed.collect()] == [(50, "Oslo", 4, "Cid"), *missed]


def test_case_11_in_a_stream_whose_batch_comes_again(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    """After the index was fed, and all has expired in both tables that may."""
    query = Query(spark, tmp_path, lambda left: lookup_join(with_city(left), dim, ["city"]))
    query.fails = fail_once(0)
    drop(query.source, 0, (50, 1), (51, 2))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    index = wt.Catalog(tmp_path / "wh").table("db.by_city")
    for name in ("x", "y"):
        put(dim, (1, name, "Rome"))
        dim.maintain(once=True)
        index.compact(full=True)
    for table in (dim, index):
        table.compact(full=True)
        table.expire_snapshots(1, 1, 0)
    drop(query.source, 1, (50, 1), (52, 3))
    query.run()
    first = [(50, "Oslo", 1, "Ann"), (50, "Oslo", 4, "Cid"), (51, "Paris", None, None)]
    then = [(50, "Oslo", 4, "Cid"), (52, "Rome", 1, "y"), (52, "Rome", 2, "Bob")]
    assert query.got[0] == query.got[1]
    assert [(id, sorted(rows, key=str)) for id, rows in query.got[1:]] == [(0, first), (1, then)]
    assert len(pins(dim)) == len(pins(index)) == 2


def test_a_stream_is_joined_by_leading_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.t",
        {"a": pa.int64(), "b": pa.int64(), "v": pa.string()},
        primary_key=["a", "b"],
        options={"bucket-key": "a"},
    )
    put(table, (1, 7, "x"), (1, 8, "y"))
    query = Query(spark, tmp_path, lambda left: lookup_join(left, table, {"k": "a"}, how="inner"))
    drop(query.source, 0, (10, 1), (11, 2))
    query.run()
    assert query.got == [(0, [(10, 1, 7, "x"), (10, 1, 8, "y")])]


def test_an_index_that_was_never_fed_is_named(spark: SparkSession, tmp_path: Path) -> None:
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.people", PEOPLE, primary_key=["k"], options={"index.city": "db.by_city"}
    )
    left = spark.createDataFrame([(50, "Oslo")], "id long, city string")
    assert tuples(lookup_join(left, table, ["city"])) == [(50, "Oslo", None, None)]
    put(table, (1, "Ann", "Oslo"))
    with pytest.raises(wt.NotFoundError, match=r"by_city.*Run maintain"):
        lookup_join(left, table, ["city"])
    with pytest.raises(wt.InvalidError, match=r"on.*whole primary key: k; .*index: city"):
        lookup_join(left, table, {"city": "name"})
