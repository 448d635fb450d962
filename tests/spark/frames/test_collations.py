"""Text with a collation: a table compares bytes, so what Spark takes for one would be two rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

COLUMNS = {
    "k": "STRING",
    "a": "STRING",
    "l": "ARRAY<STRING>",
    "m": "MAP<STRING, STRING>",
    "r": "ROW<x STRING>",
}


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(tmp_path / "wh").create_table("db.t", COLUMNS, primary_key=["k"])


def frame(spark: SparkSession, *, named: str = "", expression: str = "") -> DataFrame:
    """Rows of the table's columns, one of which is given by an expression over s."""
    plain = {
        "k": "s",
        "a": "s",
        "l": "array(s)",
        "m": "map(s, s)",
        "r": "named_struct('x', s)",
    }
    given = {**plain, **({named: expression} if named else {})}
    rows = spark.createDataFrame([("Key",), ("KEY",)], "s STRING")
    return rows.selectExpr(*(f"{text} AS {name}" for name, text in given.items()))


def write(rows: DataFrame, table: wt.Table) -> None:
    rows.write.format("widetable").mode("append").save(table.path)


@pytest.mark.parametrize(
    ("column", "expression", "collation"),
    [
        ("k", "s COLLATE UTF8_LCASE", "UTF8_LCASE"),
        ("a", "s COLLATE UNICODE_CI", "UNICODE_CI"),
        ("l", "array(s COLLATE UTF8_LCASE)", "UTF8_LCASE"),
        ("m", "map(s, s COLLATE UNICODE)", "UNICODE"),
        ("r", "named_struct('x', s COLLATE UTF8_LCASE)", "UTF8_LCASE"),
    ],
)
def test_a_write_of_text_with_a_collation_is_refused(
    spark: SparkSession, table: wt.Table, column: str, expression: str, collation: str
) -> None:
    rows = frame(spark, named=column, expression=expression)
    with pytest.raises(PySparkException, match=rf"'{column}': found text .* {collation}\b"):
        write(rows, table)
    assert not table.snapshots()


def test_text_that_is_compared_by_its_bytes_is_written(
    spark: SparkSession, table: wt.Table
) -> None:
    write(frame(spark, named="k", expression="s COLLATE UTF8_BINARY"), table)
    assert table.scan(["k"]).to_arrow()["k"].to_pylist() == ["KEY", "Key"]
    write(frame(spark, named="k", expression="lower(s)").limit(1), table)
    assert table.scan(["k"]).to_arrow()["k"].to_pylist() == ["KEY", "Key", "key"]


def test_a_stream_of_text_with_a_collation_is_refused(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rate").load()
    rows = stream.selectExpr("CAST(value AS STRING) COLLATE UTF8_LCASE AS k")
    query = (
        rows.writeStream.format("widetable")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .start(table.path)
    )
    with pytest.raises(PySparkException, match="UTF8_LCASE"):
        query.awaitTermination(120)


def test_a_lookup_join_by_a_key_with_a_collation_is_refused(
    spark: SparkSession, table: wt.Table
) -> None:
    table.write([{"k": "Key", "a": "x"}])
    rows = frame(spark, named="k", expression="s COLLATE UTF8_LCASE").select("k")
    with pytest.raises(wt.UnsupportedError, match=r"'k': found text .* UTF8_LCASE"):
        widetable_spark.lookup_join(rows, table, ["k"], ["a"])
    others = frame(spark, named="l", expression="array(s COLLATE UTF8_LCASE)").select("k", "l")
    joined = widetable_spark.lookup_join(others, table, ["k"], ["a"])
    assert sorted(tuple(row) for row in joined.select("k", "a").collect()) == [
        ("KEY", None),
        ("Key", "x"),
    ]


def test_rows_may_be_compared_by_a_collation_when_they_are_read(
    spark: SparkSession, table: wt.Table
) -> None:
    write(frame(spark), table)
    rows = widetable_spark.read(spark, table.path)
    assert rows.where("k COLLATE UTF8_LCASE = 'key'").count() == 2
