"""A DataFrame, or a name in SQL, that was made before columns of its table got other names: it never shows the values
of another column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

COLUMNS = {"k": "BIGINT", "a": "STRING", "b": "STRING"}
AGAIN = "Load the table again, or name it again"


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[wt.Catalog]:
    catalog = wt.Catalog(tmp_path / "wh")
    catalog.create_table("shop.o", COLUMNS, primary_key=["k"]).write([{"k": 1, "a": "A", "b": "B"}])
    yield catalog
    spark.sql("DROP DATABASE IF EXISTS shop CASCADE")


def swap(catalog: wt.Catalog) -> None:
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        catalog.alter_table("shop.o", rename_columns={old: new})


def drop_and_add(catalog: wt.Catalog) -> None:
    catalog.alter_table("shop.o", drop_columns=["a"])
    catalog.alter_table("shop.o", add_columns=[pa.field("a", pa.string())])


def path(catalog: wt.Catalog) -> str:
    return catalog.table("shop.o").path


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.select("k", "a", "b").collect()]


@pytest.mark.parametrize("change", [swap, drop_and_add])
def test_a_frame_that_was_loaded_before_is_refused(
    spark: SparkSession, catalog: wt.Catalog, change: Any
) -> None:
    frame = spark.read.format("widetable").load(path(catalog))
    change(catalog)
    with pytest.raises(PySparkException, match=f"column 'a' of .*{AGAIN}"):
        frame.collect()
    after = spark.read.format("widetable").load(path(catalog))
    assert values(after) == [(1, *(("B", "A") if change is swap else (None, "B")))]


def test_a_name_that_was_made_before_is_refused_until_it_is_made_again(
    spark: SparkSession, catalog: wt.Catalog
) -> None:
    widetable_spark.register_catalog(spark, catalog.warehouse)
    assert values(spark.table("shop.o")) == [(1, "A", "B")]
    swap(catalog)
    with pytest.raises(PySparkException, match=AGAIN):
        values(spark.table("shop.o"))
    widetable_spark.register_catalog(spark, catalog.warehouse)
    assert values(spark.table("shop.o")) == [(1, "B", "A")]


@pytest.mark.parametrize("is_named", [False, True], ids=["by path", "by name"])
def test_a_stream_that_was_loaded_before_is_refused(
    spark: SparkSession, catalog: wt.Catalog, tmp_path: Path, is_named: bool
) -> None:
    widetable_spark.register_catalog(spark, catalog.warehouse)
    reader = spark.readStream
    stream = reader.table("shop.o") if is_named else reader.format("widetable").load(path(catalog))
    swap(catalog)
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
    with pytest.raises(PySparkException, match=AGAIN):
        query.trigger(availableNow=True).start().awaitTermination(120)


def test_what_was_planned_before_has_the_names_of_then(
    spark: SparkSession, catalog: wt.Catalog
) -> None:
    table = catalog.table("shop.o")
    then = {"snapshot-id": str(table.snapshots()[-1].id)}
    past = spark.read.format("widetable").options(**then).load(table.path)
    read = widetable_spark.read(spark, table.path)
    left = spark.createDataFrame([(1,)], "k BIGINT")
    joined = widetable_spark.lookup_join(left, table, ["k"])
    swap(catalog)
    for frame in (past, read, joined):
        assert values(frame) == [(1, "A", "B")]


def test_a_schema_that_is_given_is_taken_by_its_names(
    spark: SparkSession, catalog: wt.Catalog
) -> None:
    """Also one of the table's own columns in part, and one of another table."""
    other = catalog.create_table("shop.p", {"k": "BIGINT", "a": "STRING"}, primary_key=["k"])
    reader = spark.read.format("widetable")
    part = reader.load(path(catalog)).select("k", "a").schema
    of_other = spark.read.format("widetable").load(other.path).schema
    swap(catalog)
    for schema, found in ((of_other, "B"), ("k BIGINT, a STRING", "B")):
        frame = spark.read.format("widetable").schema(schema).load(path(catalog))
        assert [tuple(row) for row in frame.collect()] == [(1, found)]
    with pytest.raises(PySparkException, match=AGAIN):
        spark.read.format("widetable").schema(part).load(path(catalog)).collect()
