"""Samples as a stream of Spark: the same as Python follows, over restarts of the query."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.widetable.derive.samples.sample_model import Commit, made, random_commits
from tests.widetable.derive.samples.test_samples import CASE_10, given, table_of

Row = tuple[Any, ...]


def streamed(
    spark: SparkSession, table: wt.Table, checkpoint: Path, *, fail: bool = False, **rule: Any
) -> list[Row]:
    """Run the query to the newest snapshot. fail: it dies after it has given its first batch with rows."""
    rows: list[Row] = []

    def each(frame: DataFrame, _: int) -> None:
        rows.extend(tuple(row) for row in frame.collect())
        if fail and rows:
            raise RuntimeError("the query is killed here")

    frame = widetable_spark.samples(spark, table.path, **rule)
    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    if fail:
        with pytest.raises(StreamingQueryException, match="killed here"):
            query.awaitTermination()
    else:
        query.awaitTermination()
    return rows


def test_case_10_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    rule = {**CASE_10, "late": "correct", "columns": ["label"]}
    here = tmp_path / "checkpoint"
    given(table, **rule)  # samples begin with the empty table
    Commit("e", 1, [{"id": 1, "exposed_at": 0}, {"id": 2, "exposed_at": 0}], reached=0).make(table)
    Commit("c", 1, [{"id": 1, "clicked_at": 5, "label": 1}], reached=30).make(table)
    first = [(1, 1, 2, False, "+I")]
    assert streamed(spark, table, here, fail=True, **rule) == first
    assert streamed(spark, table, here, **rule) == first  # the batch that was not done
    Commit("e", 2, reached=30).make(table)
    assert streamed(spark, table, here, **rule) == [(2, 0, 3, False, "+I")]
    Commit("c", 2, [{"id": 2, "clicked_at": 20, "label": 1}], reached=40).make(table)
    assert streamed(spark, table, here, **rule) == [(2, 1, 4, True, "+U")]


def test_spark_gives_what_python_follows(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    table = made(tmp_path)
    rule = {
        **CASE_10,
        "wait": "15 min",
        "late": "correct",
        "labels": {"soon": wt.label("clicked_at", within="20 min", value="price")},
        "negatives": 0.5,
    }
    rows = streamed(spark, table, tmp_path / "checkpoint", **rule)
    commits = random_commits(rng, 24, 8)
    for place, commit in enumerate(commits):
        commit.make(table)
        if place % 12 == 11:
            rows += streamed(spark, table, tmp_path / "checkpoint", **rule)
    alone = made(tmp_path / "alone")
    expected = given(alone, **rule)
    for commit in commits:
        commit.make(alone)
    expected += given(alone, **rule)
    assert Counter(rows) == Counter(tuple(row.values()) for row in expected)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_the_zone_of_a_session_moves_no_due_time(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The watermark of Spark and the times of the table are compared in UTC."""
    own = "TIMESTAMP_LTZ(6)" if kind == "TIMESTAMP" else "TIMESTAMP(6)"
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"id": "BIGINT", "exposed_at": own}, primary_key=["id"]
    )
    rule: dict[str, Any] = {"complete": ["exposed_at"], "on": "exposed_at", "wait": "30 min"}
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    zone = "Z" if kind == "TIMESTAMP" else ""
    try:
        assert given(table, **rule) == []
        for number, time in enumerate(("00:00:00", "00:29:59.999", "00:30:00"), 1):
            row = f"SELECT {number}L AS id, {kind}'2026-01-01 {time}{zone}' AS exposed_at"
            writer = spark.sql(row).write.format("widetable").mode("append")
            writer = writer.option("watermark-column", "exposed_at").option("commit-user", "e")
            writer.option("commit-identifier", str(number)).save(table.path)
            expected = [1] if number == 3 else []
            assert [each["id"] for each in given(table, **rule)] == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_plain_stream_of_samples_does_not_feed_them(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    given(table, **CASE_10)
    Commit("e", 1, [{"id": 1, "exposed_at": 0, "clicked_at": 0}], reached=0).make(table)
    frame = spark.readStream.format("widetable").load(table_of(table).path)
    query = frame.writeStream.format("memory").queryName("plain").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("plain").count() == 0


def test_what_has_no_samples_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    frame = spark.readStream.format("widetable").option("samples.feed", "true").load(table.path)
    query = frame.writeStream.format("memory").queryName("none").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="a table without samples"):
        query.awaitTermination()
    with pytest.raises(wt.InvalidError, match="complete"):
        widetable_spark.samples(spark, table.path, [])
