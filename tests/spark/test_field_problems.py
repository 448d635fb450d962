"""Field problems of Spark and of its sources that were tried here (docs/facts/field-problems.md), and stay held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

Rows = list[tuple[Any, ...]]


def new_table(folder: Path, columns: dict[str, str], **options: str) -> wt.Table:
    """Of key k and one bucket, in which nothing is compacted by itself."""
    kept = {"bucket": "1", "write-only": "true", "widetable.fsync": "false", **options}
    return wt.Catalog(folder).create_table(
        "db.t", {"k": "BIGINT NOT NULL", **columns}, primary_key=["k"], options=kept
    )


def save(frame: DataFrame, table: wt.Table) -> None:
    frame.write.format("widetable").mode("append").save(table.path)


def ways(spark: SparkSession, table: wt.Table, condition: str) -> list[DataFrame]:
    """Of the same rows."""
    return [
        widetable_spark.read(spark, table.path, where=condition),
        widetable_spark.read(spark, table.path).where(condition),
        spark.read.format("widetable").load(table.path).where(condition),
    ]


def found(frame: DataFrame, *columns: str) -> Rows:
    return sorted(tuple(row) for row in frame.selectExpr(*columns).collect())


# SPARK-25132, SPARK-25207: names that Spark takes for one


@pytest.fixture
def twins(tmp_path: Path) -> wt.Table:
    """Two columns, and two fields of a ROW, whose names differ in case alone."""
    columns = {"Name": "STRING", "name": "STRING", "v": "INT", "r": "ROW<a INT, A INT>"}
    table = new_table(tmp_path, columns)
    table.write([{"k": 1, "Name": "a", "name": "b", "v": 1, "r": {"a": 2, "A": 3}}])
    return table


@pytest.mark.parametrize("state", ["merged", "compacted"])
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_columns_whose_names_differ_in_case_are_read(
    spark: SparkSession, twins: wt.Table, state: str, sensitive: str
) -> None:
    if state == "merged":
        twins.write([{"k": 2, "Name": "c"}])
    else:
        twins.compact(full=True)
    spark.conf.set("spark.sql.caseSensitive", sensitive)
    try:
        for columns, row in (
            (["k", "name"], (1, "b")),
            (["k", "Name"], (1, "a")),
            (["name", "Name", "k"], ("b", "a", 1)),
            (["k", "v"], (1, 1)),
            (["r", "k"], ((2, 3), 1)),
            (None, (1, "a", "b", 1, (2, 3))),
        ):
            frame = widetable_spark.read(spark, twins.path, columns, where="k = 1")
            assert [tuple(row) for row in frame.collect()] == [row]
        named = widetable_spark.read(spark, twins.path, ["k"], where="name = 'b'")
        assert found(named, "k") == [(1,)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
