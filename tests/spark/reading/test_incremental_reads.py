"""`incremental-between` in a batch read: what was committed after one snapshot up to another, as in `Table.changes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import texts

COLUMNS = {"k": "BIGINT", "v": "STRING"}


def made(folder: Path, options: dict[str, str], *, has_key: bool) -> wt.Table:
    table = wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["k"] if has_key else None,
        options={"widetable.fsync": "false", **options},
    )
    for number in range(4):
        table.write([{"k": k, "v": f"v{number}"} for k in range(number, number + 3)])
        if number == 1:
            table.create_tag("second")
    return table


def between(spark: SparkSession, table: wt.Table, span: str, **options: str) -> DataFrame:
    reader = spark.read.format("widetable").option("incremental-between", span)
    for key, value in options.items():
        reader = reader.option(key.replace("__", "."), value)
    return reader.load(table.path)


def rows(frame: DataFrame) -> list[str]:
    return texts(python_rows(frame.toArrow()))


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "k"}])
def test_what_was_appended_comes(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options, has_key=False)
    table.compact(full=True)
    for span, start, end in (
        ("1,3", 1, 3),
        ("0, 4", 0, 4),
        ("second,4", 2, 4),
        ("1,second", 1, 2),
    ):
        expected = table.changes(start, end).drop_columns(["_row_kind"])
        assert rows(between(spark, table, span)) == texts(python_rows(expected))
    assert between(spark, table, "3,3").count() == 0
    frame = between(spark, table, "1,3", columns="v")
    assert frame.columns == ["v"]
    assert sorted(row.v for row in frame.collect()) == ["v1"] * 3 + ["v2"] * 3


def test_changes_of_a_key_come_with_their_kinds_or_as_new_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, {"changelog-producer": "lookup", "bucket": "2"}, has_key=True)
    table.delete_keys([3])
    last = table.snapshots()[-1].id
    expected = table.changes(2, last)
    frame = between(spark, table, f"2,{last}", read__changelog="true")
    assert frame.columns == ["k", "v", "_row_kind"]
    assert rows(frame) == texts(python_rows(expected))
    kept = [row for row in python_rows(expected) if row.pop("_row_kind") in ("+I", "+U")]
    assert rows(between(spark, table, f"2,{last}")) == texts(kept)
    forms = {"read__changelog": "true", "read__change-columns": "commit"}
    commits = between(spark, table, f"2,{last}", **forms)
    assert commits.columns[-2:] == ["_snapshot_id", "_commit_time"]
    ids = {row["_snapshot_id"] for row in commits.collect()}
    assert ids == set(table.changes(2, last, commit_columns=True)["_snapshot_id"].to_pylist())


@pytest.mark.parametrize(
    ("span", "options", "expected"),
    [
        ("3", {}, "two snapshots or tags"),
        ("1,2,3", {}, "two snapshots or tags"),
        (",2", {}, "two snapshots or tags"),
        ("3,1", {}, "the start, or more"),
        ("1,99", {}, "up to 4"),
        ("1,nowhere", {}, "nowhere"),
        ("1,2", {"snapshot-id": "1"}, "those between two"),
        ("1,2", {"tag": "second"}, "those between two"),
        ("1,2", {"scan.mode": "latest"}, "a streaming read"),
        (None, {"read.changelog": "true"}, "the range of snapshots"),
    ],
)
def test_a_wrong_range_is_refused_by_name(
    spark: SparkSession,
    tmp_path: Path,
    span: str | None,
    options: dict[str, Any],
    expected: str,
) -> None:
    table = made(tmp_path, {}, has_key=False)
    reader = spark.read.format("widetable").options(**options)
    if span is not None:
        reader = reader.option("incremental-between", span)
    with pytest.raises(Exception, match=expected):
        reader.load(table.path).collect()


def test_a_stream_has_no_range(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path, {}, has_key=False)
    reader = spark.readStream.format("widetable").option("incremental-between", "1,2")
    with pytest.raises(Exception, match="a batch read"):
        reader.load(table.path).writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "cp")
        ).trigger(availableNow=True).start().awaitTermination()
