"""Option `row-columns`: rows of one DataFrame that carry different columns, in batches and in streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark

COLUMNS = {"id": "BIGINT", "city": "STRING", "street": "STRING", "at": "BIGINT", "note": "STRING"}
DDL = "id BIGINT, city STRING, street STRING, at BIGINT, note STRING, written ARRAY<STRING>"
GROUP = {"merge-engine": "partial-update", "fields.at.sequence-group": "city,street", "bucket": "1"}
PLACE = ["city", "street", "at"]


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    catalog = wt.Catalog(tmp_path / "wh")
    return catalog.create_table("db.t", COLUMNS, primary_key=["id"], options=GROUP)


def write(rows: DataFrame, table: wt.Table, **options: str) -> None:
    writer = rows.coalesce(1).write.format("widetable").mode("append")
    writer.options(**{"row-columns": "written", **options}).save(table.path)


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), DDL)


def rows_of(table: wt.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]


def test_a_row_writes_the_columns_that_it_names(spark: SparkSession, table: wt.Table) -> None:
    """One key, whose rows alternate between sets of columns; what is not named does not count."""
    rows = frame(
        spark,
        (1, "Bergen", "Strand", 1, "?", PLACE),
        (1, "?", "?", 9, "first", ["note"]),
        (1, "Bari", "Corso", 2, None, ["id", *PLACE]),
        (1, None, None, None, "second", ["note"]),
        (1, "?", "?", 9, "?", []),
        (2, "Oslo", None, 1, None, PLACE),
    )
    write(rows, table)
    assert rows_of(table) == [(1, "Bari", "Corso", 2, "second"), (2, "Oslo", None, 1, None)]


def test_a_null_list_stands_for_all_columns(spark: SparkSession, table: wt.Table) -> None:
    write(frame(spark, (1, "Bergen", "Strand", 1, "a", [*PLACE, "note"])), table)
    write(
        frame(spark, (1, "Bari", None, 2, "b", None), (2, None, None, None, "c", ["note"])), table
    )
    assert rows_of(table) == [(1, "Bari", None, 2, "b"), (2, None, None, None, "c")]


def test_an_explanation_of_a_stream_s_rows_says_what_was_written(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    """The stream starts again from a checkpoint without its last commit: its batch is a replay."""
    folder, checkpoint = tmp_path / "in", tmp_path / "cp"
    folder.mkdir()
    table.write([{"id": 1, "city": "Oslo", "street": "Gate", "at": 0}, {"id": 2, "note": "old"}])
    lines: list[dict[str, object]] = [
        {"id": 1, "city": "Bergen", "street": None, "at": 1},
        {"id": 2, "note": None, "city": "Bari", "street": "Via", "at": 1},
    ]
    text = "".join(json.dumps({**line, "written": list(line)}) + "\n" for line in lines)
    (folder / "1.json").write_text(text)
    for _ in range(2):
        stream = spark.readStream.schema(DDL).json(str(folder)).coalesce(1).writeStream
        stream = stream.format("widetable").option("row-columns", "written")
        query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query.start(table.path).awaitTermination(120)
        for commit in (checkpoint / "commits").glob("*"):
            commit.unlink()
    assert len([s for s in table.snapshots() if s.commit_kind == "APPEND"]) == 2
    cells = {
        (key, column.name): (column.value, column.record, column.events[-1].why)
        for key in (1, 2)
        for column in table.explain(key).columns
    }
    assert cells[1, "street"] == (None, 2, "at = 1 is not below at = 0 of #1")
    assert cells[1, "note"] == (None, None, "written without this column")
    assert cells[2, "note"] == ("old", 1, "null keeps the value")
    assert cells[2, "city"] == ("Bari", 2, "at = 1 is the first")


def test_a_row_without_its_group_leaves_the_group(spark: SparkSession, table: wt.Table) -> None:
    write(frame(spark, (1, "Bergen", "Strand", 5, "a", [*PLACE, "note"])), table)
    write(frame(spark, (1, "?", "?", 6, "b", ["note"]), (2, "Bari", "Via", 1, "?", PLACE)), table)
    assert rows_of(table) == [(1, "Bergen", "Strand", 5, "b"), (2, "Bari", "Via", 1, None)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["city", "at"], "the row with id = 7, columns to write.*'street'"),
        (["note", "nota"], "id = 7: found 'nota'"),
    ],
    ids=["part of a group", "unknown"],
)
def test_a_row_is_refused_as_it_is_alone(
    spark: SparkSession, table: wt.Table, names: list[str] | None, message: str
) -> None:
    rows = frame(spark, (1, "Oslo", "Gate", 1, "a", PLACE), (7, "Bergen", "Strand", 1, "b", names))
    with pytest.raises(PySparkException, match=message):
        write(rows, table)
    assert not table.snapshots()


def test_kinds_of_rows_and_the_key_need_no_name(spark: SparkSession, tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    columns = {"id": "BIGINT", "a": "INT", "b": "INT"}
    catalog = wt.Catalog(tmp_path / "wh")
    table = catalog.create_table("db.u", columns, primary_key=["id"], options=options)
    table.write([{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 2, "b": 2}])
    ddl = "id BIGINT, a INT, b INT, _row_kind STRING, written ARRAY<STRING>"
    rows = [(1, 9, 9, "-D", []), (2, 3, 9, "+U", ["a"])]
    write(spark.createDataFrame(rows, ddl), table)
    assert rows_of(table) == [(2, 3, 2)]


def test_the_column_of_names_must_hold_names(spark: SparkSession, table: wt.Table) -> None:
    rows = frame(spark, (1, "Bergen", "Strand", 1, "a", PLACE))
    for column, message in (("note", "a column of the table"), ("nowhere", "no such column")):
        with pytest.raises(PySparkException, match=message):
            write(rows, table, **{"row-columns": column})
    texts = rows.selectExpr("id", "note", "'note' AS written")
    with pytest.raises(PySparkException, match="a column of string"):
        write(texts, table)
    assert not table.snapshots()


def test_columns_that_the_option_leaves_out_cannot_be_named(
    spark: SparkSession, table: wt.Table
) -> None:
    rows = frame(spark, (1, "Bergen", "Strand", 1, "a", ["note"]))
    write(rows, table, columns="id, note")
    assert rows_of(table) == [(1, None, None, None, "a")]
    with pytest.raises(PySparkException, match="id = 1: found 'city'"):
        write(frame(spark, (1, "Bergen", "Strand", 1, "a", PLACE)), table, columns="id, note")


def test_nulls_that_are_not_written_are_no_nulls_of_an_insert(
    spark: SparkSession, table: wt.Table
) -> None:
    """Rows of the table itself have its path in their columns, as those of an INSERT do."""
    table.write([{"id": 1, "city": "Bergen", "street": "Strand", "at": 1}])
    read = spark.read.format("widetable").load(table.path)
    rows = read.selectExpr("id", "city", "CAST(NULL AS STRING) AS street", "at", "note")
    write(rows.selectExpr("*", "array('note') AS written"), table)
    assert rows_of(table) == [(1, "Bergen", "Strand", 1, None)]


def test_a_stream_takes_rows_of_different_columns(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [
        {"id": 1, "city": "Bergen", "street": "Strand", "at": 1},
        {"id": 1, "note": "a"},
        {"id": 2, "city": "Bari", "street": None, "at": 2},
        {"id": 1, "note": "b"},
    ]
    text = "".join(json.dumps({**line, "written": list(line)}) + "\n" for line in lines)
    (folder / "1.json").write_text(text)
    stream = spark.readStream.schema(DDL).json(str(folder)).writeStream.format("widetable")
    query = (
        stream.option("row-columns", "written")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start(table.path)
    )
    query.awaitTermination(120)
    assert rows_of(table) == [(1, "Bergen", "Strand", 1, "b"), (2, "Bari", None, 2, None)]


def test_a_batch_of_a_query_takes_rows_of_different_columns(
    spark: SparkSession, table: wt.Table
) -> None:
    rows = frame(spark, (1, "Bergen", "Strand", 1, "?", PLACE), (1, "?", "?", 3, "a", ["note"]))
    for _ in range(2):
        widetable_spark.write_batch(
            rows.coalesce(1), 0, table.path, commit_user="q", options={"row-columns": "written"}
        )
    assert rows_of(table) == [(1, "Bergen", "Strand", 1, "a")]
    assert len([s for s in table.snapshots() if s.commit_kind == "APPEND"]) == 1


def test_a_stream_under_barriers_takes_rows_of_different_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The column of names is none that the writer claims."""
    options = GROUP | {"widetable.barrier-interval": "100 ms"}
    catalog = wt.Catalog(tmp_path / "wh")
    table = catalog.create_table("db.b", COLUMNS, primary_key=["id"], options=options)
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [{"id": 1, "note": "a", "written": ["note"]}, {"id": 2, "note": "?", "written": []}]
    (folder / "1.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    stream = spark.readStream.schema(DDL).json(str(folder)).writeStream.format("widetable")
    query = (
        stream.options(**{"row-columns": "written", "barrier.writer": "root"})
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start(table.path)
    )
    query.awaitTermination(120)
    assert [(row["id"], row["note"]) for row in table.scan().to_arrow().to_pylist()] == [
        (1, "a"),
        (2, None),
    ]
