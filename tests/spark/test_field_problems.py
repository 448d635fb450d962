"""Field problems of Spark and of its sources that were tried here (docs/facts/field-problems.md), and stay held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
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


# SPARK-33489, SPARK-45026, SPARK-50815, SPARK-59275, paimon#6362: types that Spark has and no table has


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("INT", "NULL", None),
        ("ARRAY<INT>", "array()", []),
        ("ARRAY<INT>", "array(NULL)", [None]),
        ("ARRAY<ARRAY<INT>>", "array(array())", [[]]),
        ("ROW<x ARRAY<INT>>", "named_struct('x', array())", {"x": []}),
        ("MAP<STRING, ARRAY<INT>>", "map('a', array())", [("a", [])]),
        ("MAP<STRING, INT>", "map('a', NULL)", [("a", None)]),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_column_without_a_type_is_written(
    spark: SparkSession, tmp_path: Path, kind: str, expression: str, value: Any
) -> None:
    table = new_table(tmp_path, {"v": kind})
    save(spark.range(1).selectExpr("id AS k", f"{expression} AS v"), table)
    assert table.scan().to_arrow().to_pylist() == [{"k": 0, "v": value}]


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("map()", r"map<void,void>"),
        ("array(map())", r"array<map<void,void>>"),
        ("parse_json('1')", "struct<value"),
        ("INTERVAL '1' DAY", "duration"),
        ("TIME '12:00:00'", "time64"),
    ],
)
def test_a_value_that_no_table_holds_is_refused_by_column(
    spark: SparkSession, tmp_path: Path, expression: str, named: str
) -> None:
    table = new_table(tmp_path, {"v": "STRING"})
    with pytest.raises(PySparkException, match=rf"column 'v': found the type {named}"):
        save(spark.range(1).selectExpr("id AS k", f"{expression} AS v"), table)
    assert not table.snapshots()


def test_texts_of_char_are_written_as_spark_gives_them_or_refused_by_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, {"v": "CHAR(5)"})
    spark.sql(f"CREATE TABLE padded (v CHAR(5)) USING parquet LOCATION '{tmp_path / 'padded'}'")
    try:
        spark.sql("INSERT INTO padded VALUES ('ab')")
        rows = "SELECT 1L AS k, v FROM padded UNION ALL SELECT 2L, rtrim(v) FROM padded"
        save(spark.sql(rows), table)
        for _ in range(2):
            for frame in ways(spark, table, "v = 'ab'"):
                assert found(frame, "k", "length(v)") == [(2, 2)]
            for frame in ways(spark, table, "v = 'ab   '"):
                assert found(frame, "k", "length(v)") == [(1, 5)]
            table.compact(full=True)
        spark.conf.set("spark.sql.preserveCharVarcharTypeInfo", "true")
        with pytest.raises(PySparkException, match=r"column 'v': found the type char\(5\)"):
            save(spark.sql("SELECT 1L AS k, v FROM padded"), table)
    finally:
        spark.conf.unset("spark.sql.preserveCharVarcharTypeInfo")
        spark.sql("DROP TABLE padded")


def test_a_lookup_join_takes_rows_with_columns_without_a_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    dim = new_table(tmp_path, {"v": "INT"})
    dim.write([{"k": 0, "v": 7}])
    left = spark.range(1).selectExpr("id AS k", "array() AS a", "NULL AS n")
    assert [tuple(row) for row in widetable_spark.lookup_join(left, dim, ["k"]).collect()] == [
        (0, [], None, 7)
    ]
    with pytest.raises(wt.UnsupportedError, match=r"column 'm': found the type map<void,void>"):
        widetable_spark.lookup_join(left.selectExpr("k", "map() AS m"), dim, ["k"])
