"""Streams whose changes carry their commit, in our names or in Spark's: the same as `Table.changes` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import widetable as wt

WORDS = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}


def create(folder: Path, column: str = "v") -> wt.Table:
    table = wt.Catalog(str(folder / "wh")).create_table(
        "db.source",
        {"k": "BIGINT", column: "BIGINT"},
        primary_key=["k"],
        options={"bucket": "1", "changelog-producer": "lookup", "widetable.fsync": "false"},
    )
    for value in range(3):
        table.write({"k": [1, 2 + value], column: [value, value]})
    table.write({"k": [1], column: [0], "_row_kind": ["-D"]})
    return table


def streamed(
    spark: SparkSession, table: wt.Table, folder: Path, form: str
) -> list[tuple[Any, ...]]:
    """All changes from the first snapshot on. Times as epoch milliseconds."""
    found: list[tuple[Any, ...]] = []
    stream = (
        spark.readStream.format("widetable")
        .option("read.changelog", "true")
        .option("read.change-columns", form)
        .option("scan.mode", "from-snapshot")
        .option("scan.snapshot-id", "1")
        .load(table.path)
    )
    time = stream.columns[-1]
    millis = stream.withColumn(time, F.unix_millis(F.col(time)))

    def keep(rows: DataFrame, _: int) -> None:
        found.extend(tuple(row) for row in rows.collect())

    query = millis.writeStream.foreachBatch(keep).trigger(availableNow=True)
    query.option("checkpointLocation", str(folder / "cp")).start().awaitTermination()
    return found


@pytest.mark.parametrize("form", ["commit", "standard"])
def test_changes_carry_their_commit(spark: SparkSession, tmp_path: Path, form: str) -> None:
    table = create(tmp_path)
    changes = table.changes(0, table.snapshots()[-1].id, commit_columns=True)
    expected = [
        (
            row["k"],
            row["v"],
            row["_row_kind"] if form == "commit" else WORDS[row["_row_kind"]],
            row["_snapshot_id"],
            round(row["_commit_time"].timestamp() * 1000),
        )
        for row in changes.to_pylist()
    ]
    assert {row[2] for row in expected} >= {"+I", "-U", "+U", "-D"} or form == "standard"
    assert sorted(streamed(spark, table, tmp_path, form)) == sorted(expected)


def test_names_are_those_of_the_form(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path)
    stream = spark.readStream.format("widetable").option("read.changelog", "true")
    names = {
        form: stream.option("read.change-columns", form).load(table.path).columns[2:]
        for form in ("kind", "commit", "standard")
    }
    assert names == {
        "kind": ["_row_kind"],
        "commit": ["_row_kind", "_snapshot_id", "_commit_time"],
        "standard": ["_change_type", "_commit_version", "_commit_timestamp"],
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read.change-columns": "commit"}, "requires read.changelog"),
        ({"read.change-columns": "all", "read.changelog": "true"}, "one of kind, commit, standard"),
    ],
)
def test_wrong_options_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    table = create(tmp_path)

    def run() -> None:
        stream = spark.readStream.format("widetable").options(**options).load(table.path)
        query = stream.writeStream.format("noop").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "cp")).start().awaitTermination()

    with pytest.raises(Exception, match=message):
        run()


def test_a_column_of_such_a_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "_commit_version")
    stream = spark.readStream.format("widetable").option("read.changelog", "true")
    with pytest.raises(Exception, match="a column of the table"):
        stream.option("read.change-columns", "standard").load(table.path)
