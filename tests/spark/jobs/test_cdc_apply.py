"""Streams of Debezium's JSON: the table is the source, whatever dies and however records are spread."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import widetable as wt
import widetable_spark
from tests.cdc.debezium.test_debezium_histories import Source
from tests.cdc.debezium.written_records import UNAVAILABLE, T, record
from widetable_cdc import DebeziumSettings
from widetable_spark.jobs import cdc_apply as module

BIG = "x" * 96_000
COLUMNS = {"id": "INT", "name": "STRING", "big": "STRING"}


def row(id: int, name: str | None = None, big: str | None = None) -> dict[str, Any]:
    return {"id": id, "name": name, "big": big}


def put(folder: Path, number: int, values: list[str]) -> None:
    """A file with a modification time of its own, in the order of the numbers."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:03}.txt"
    path.write_text("".join(f"{value}\n" for value in values))
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def run(lines: DataFrame, tmp_path: Path, **settings: Any) -> None:
    writer = widetable_spark.cdc_apply(lines, tmp_path / "wh", "db.t", **settings)
    query = (
        writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    )
    query.awaitTermination(300)


def text(spark: SparkSession, tmp_path: Path, files: int = 1) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", files).text(str(tmp_path / "in"))


def rows_of(tmp_path: Path, name: str = "db.t") -> list[dict[str, Any]]:
    table = wt.Catalog(str(tmp_path / "wh")).table(name)
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(row))


def test_lines_of_files_make_a_table_and_change_it(spark: SparkSession, tmp_path: Path) -> None:
    """Case 20: c, u, u, d of a key; a value that is not carried; a line that is no JSON."""
    put(tmp_path / "in", 1, [record("c", None, row(1, "a", BIG), columns=T), "{"])
    more = (*T, ("extra", "int64", True))
    put(
        tmp_path / "in",
        2,
        [
            record("u", None, row(1, "b", UNAVAILABLE), columns=T),
            record("c", None, row(2, "a"), columns=T),
            record("u", None, row(2, "b"), columns=T),
            record("u", None, row(2, "c"), columns=T),
            record("d", row(2), None, columns=T),
            record("c", None, {**row(3), "extra": 2**40}, columns=more),
        ],
    )
    run(text(spark, tmp_path), tmp_path, key=["id"])
    assert rows_of(tmp_path) == [
        {**row(1, "b", BIG), "extra": None},
        {**row(3), "extra": 2**40},
    ]
    (error,) = rows_of(tmp_path, "db.__cdc_errors")
    assert (error["lsn"], error["position"], error["row"]) == (0, 1, "{")
    table = wt.Catalog(str(tmp_path / "wh")).table("db.t")
    assert [each.commit_identifier for each in table.snapshots()] == [0, 1]


@pytest.mark.parametrize("dies", ["before", "behind"])
def test_a_batch_whose_driver_died_is_in_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    put(tmp_path / "in", 1, [record("c", None, row(1, "a"), columns=T), "{"])
    commit = module._commit

    def died(*arguments: Any) -> None:
        if dies == "behind":
            commit(*arguments)
        raise RuntimeError("died")

    monkeypatch.setattr(module, "_commit", died)
    with pytest.raises(StreamingQueryException, match="died"):
        run(text(spark, tmp_path), tmp_path, key=["id"])
    monkeypatch.undo()
    run(text(spark, tmp_path), tmp_path, key=["id"])
    assert rows_of(tmp_path) == [row(1, "a")]
    assert len(rows_of(tmp_path, "db.__cdc_errors")) == 1
    assert len(wt.Catalog(str(tmp_path / "wh")).table("db.t").snapshots()) == 1


def test_a_history_in_files_gives_the_rows_of_the_source(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    source = Source(rng, T, is_full=False)
    for _ in range(120):
        source.change()
    values = [value for _, value in source.records if value is not None]
    ends = {at + 1 for at in source.moves}
    files: list[list[str]] = [[]]
    for at, (_, value) in enumerate(source.records, 1):
        if value is not None:
            files[-1].append(value)
        if len(files[-1]) >= 20 and at not in ends and at - 1 not in ends:
            files.append([])
    assert sum(map(len, files)) == len(values)
    for number, lines in enumerate(files):
        put(tmp_path / "in", number, lines)
    run(text(spark, tmp_path, files=2), tmp_path, key=["id"])
    assert {each["id"]: each for each in rows_of(tmp_path)} == source.rows


def test_a_changed_key_may_lie_in_two_batches(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 1, [record("c", None, row(1, "a", BIG), columns=T, lsn=900)])
    put(tmp_path / "in", 2, [record("d", row(1), None, columns=T, lsn=901)])
    put(tmp_path / "in", 3, [record("c", None, row(2, "a", UNAVAILABLE), columns=T, lsn=901)])
    run(text(spark, tmp_path), tmp_path, key=["id"])
    assert rows_of(tmp_path) == [row(2, "a", BIG)]


def kafka_like(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Lines as Kafka's source shows records: topic, partition, offset, key, value."""
    shape = "topic STRING, partition INT, offset BIGINT, key STRING, value STRING"
    return spark.readStream.schema(shape).json(str(tmp_path / "in"))


def test_two_partitions_that_are_interleaved_keep_the_order_of_their_keys(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    wt.Catalog(str(tmp_path / "wh")).create_table("db.t", COLUMNS, primary_key=["id"])
    records: list[dict[str, Any]] = []
    for offset in range(40):
        for partition in (0, 1):
            value = record("u", None, row(partition, f"n{offset}", UNAVAILABLE))
            if offset == 0:
                value = record("c", None, row(partition, "first", f"big{partition}"))
            key = json.dumps({"id": partition})
            records.append(
                {"topic": "t", "partition": partition, "offset": offset, "key": key, "value": value}
            )
    records.append({"topic": "t", "partition": 1, "offset": 40, "key": None, "value": "x"})
    rng.shuffle(records)
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = [json.dumps(each) for each in records[number::4]]
        (tmp_path / f"in/{number}.json").write_text("\n".join(lines))
    run(kafka_like(spark, tmp_path), tmp_path)
    assert rows_of(tmp_path) == [row(0, "n39", "big0"), row(1, "n39", "big1")]
    (error,) = rows_of(tmp_path, "db.__cdc_errors")
    assert error["position"] == (1 << 44) | 40


def test_a_truncate_beside_other_partitions_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    wt.Catalog(str(tmp_path / "wh")).create_table("db.t", COLUMNS, primary_key=["id"])
    values = [record("c", None, row(1)), record("t", None, None)]
    (tmp_path / "in").mkdir()
    lines = [
        json.dumps({"topic": "t", "partition": at, "offset": 0, "key": None, "value": value})
        for at, value in zip((0, 1), values, strict=True)
    ]
    (tmp_path / "in/1.json").write_text("\n".join(lines))
    with pytest.raises(StreamingQueryException, match="a truncate beside records of 2 partitions"):
        run(kafka_like(spark, tmp_path), tmp_path)
    assert rows_of(tmp_path) == []
    run(kafka_like(spark, tmp_path), tmp_path, settings=DebeziumSettings(truncate="ignore"))
    assert rows_of(tmp_path) == [row(1)]


def test_a_frame_without_an_order_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    with pytest.raises(wt.InvalidError, match="of neither Kafka nor files"):
        widetable_spark.cdc_apply(rate, tmp_path / "wh", "db.t")
    with pytest.raises(wt.InvalidError, match="a stream with a column 'value'"):
        widetable_spark.cdc_apply(spark.range(1), tmp_path / "wh", "db.t")
    with pytest.raises(wt.InvalidError, match="format"):
        widetable_spark.cdc_apply(rate, tmp_path / "wh", "db.t", format="avro")
