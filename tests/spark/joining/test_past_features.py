"""Features as they were known at a time, in Spark: equal to the call in Python, from one moment, bucket by bucket."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.support.models.hostile_values import hostile_values
from tests.widetable.derive.versions.test_known_rows import (
    ASKED,
    CASE_4,
    ENGINES,
    HOUR,
    cities,
    entities,
    history,
    minutes,
)
from tests.widetable.derive.versions.timed_table import TimedTable, moments
from widetable.arguments import shown
from widetable.commit.holds.read_lease import held_snapshots
from widetable.connector.lookup_tasks import KEPT
from widetable.derive.versions.history_feed import feed_history
from widetable.format.bucket_hash import bucket_ids
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable_spark import point_in_time

HISTORY = {"history.table": "db.h"}


def frame(spark: SparkSession, rows: pa.Table, partitions: int = 3) -> DataFrame:
    """The rows in several partitions, none of which follows from the key."""
    return spark.createDataFrame(rows).repartition(partitions)


def counted_rows(rows: list[Any], names: list[str]) -> Counter[str]:
    """The rows in any order, values with their types."""
    return Counter(repr([row[name] for name in names]) for row in rows)


def equals_python(df: DataFrame, rows: pa.Table, table: wt.Table, **call: Any) -> None:
    expected = table.point_in_time(rows, "at", **call)
    given = point_in_time(df, table.path, "at", **call)
    names = expected.column_names
    assert given.columns == names
    assert counted_rows(given.collect(), names) == counted_rows(expected.to_pylist(), names)


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_random_histories_give_what_python_gives(
    spark: SparkSession, rng: random.Random, tmp_path: Path, engine: str
) -> None:
    """Some of the past in a history, the rest in snapshots."""
    options = {**HISTORY, "bucket": "3"}
    timed = history(
        rng,
        tmp_path,
        engine,
        options,
        lambda made: rng.random() < 0.2 and feed_history(made.table),
    )
    rows = entities(rng, timed, 60)
    rows = pa.concat_tables([rows, rows.slice(0, 9), rows.slice(0, 4)])  # equal rows stay
    df = frame(spark, rows)
    equals_python(df, rows, timed.table, columns=["h", "a", "b"], prefix="f ")
    equals_python(df, rows, timed.table, columns=["g"], ttl="2 h")


def test_case_4_a_row_gets_what_was_known_at_its_time(spark: SparkSession, tmp_path: Path) -> None:
    timed = cities(tmp_path)
    rows = moments([{"n": n, "id": 1, "at": minutes(at)} for n, at in enumerate(ASKED)])
    given = point_in_time(frame(spark, rows), timed.table, "at")
    assert [row.city for row in given.orderBy("n").collect()] == CASE_4


def test_a_commit_after_the_call_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Not even one that a clock has dated before the times of rows: a call now would see it."""
    timed = cities(tmp_path)
    rows = moments([{"n": n, "id": 1, "at": minutes(at)} for n, at in enumerate(ASKED)])
    given = point_in_time(frame(spark, rows), timed.path, "at")
    timed.write(minutes(4), {"id": 1, "city": "Later"})
    assert [row.city for row in given.orderBy("n").collect()] == CASE_4
    again = point_in_time(frame(spark, rows), timed.path, "at").orderBy("n").collect()
    assert [row.city for row in again] == [None, "Oslo", "Later", *["Later"] * 4]


def test_a_history_that_goes_on_after_the_call_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "city": "STRING"}, ["id"], HISTORY)
    for minute, city in ((0, "Oslo"), (5, "Rome"), (9, "Bonn")):
        timed.write(minutes(minute), {"id": 1, "city": city})
        if minute == 5:
            feed_history(timed.table)
    rows = moments([{"n": n, "id": 1, "at": minutes(n)} for n in (1, 6, 9)])
    given = point_in_time(frame(spark, rows), timed.path, "at", ttl="30 min")
    timed.write(minutes(10), {"id": 1, "city": "Kyiv"})
    feed_history(timed.table)
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    assert [row.city for row in given.orderBy("n").collect()] == ["Oslo", "Rome", "Bonn"]


def test_the_driver_keeps_what_its_tasks_read(spark: SparkSession, tmp_path: Path) -> None:
    KEPT.release_leases()
    timed = cities(tmp_path / "kept")
    rows = moments([{"id": 1, "at": minutes(5)}])
    given = point_in_time(frame(spark, rows), timed.path, "at")
    assert held_snapshots(LocalFileIO(), TablePaths(timed.path)) == [1]
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    assert [row.city for row in given.collect()] == ["Rome"]
    KEPT.release_leases()
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
    with pytest.raises(PySparkException, match="NotFoundError"):
        given.collect()


def test_of_a_table_with_a_history_only_newer_snapshots_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So calls at any rate do not stop its expiry."""
    KEPT.release_leases()
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], HISTORY)
    for v in (1, 2, 3):
        timed.write(minutes(v), {"id": 1, "v": v})
    feed_history(timed.table)
    timed.write(minutes(4), {"id": 1, "v": 4})
    rows = moments([{"n": n, "id": 1, "at": minutes(n)} for n in (1, 2, 3, 4)])
    given = point_in_time(frame(spark, rows), timed.path, "at")
    assert held_snapshots(LocalFileIO(), TablePaths(timed.path)) == [3]
    assert [row.v for row in given.orderBy("n").collect()] == [1, 2, 3, 4]


def test_each_bucket_is_answered_by_one_task(spark: SparkSession, tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], {"bucket": "5"})
    timed.write(1000, *({"id": id, "v": id} for id in range(0, 100, 2)))
    rows = moments([{"id": id, "at": 2000} for id in range(100)])
    given = point_in_time(frame(spark, rows), timed.path, "at")
    got = given.withColumn("task", sf.spark_partition_id()).collect()
    keys = pa.record_batch({"id": pa.array([row.id for row in got], pa.int64())})
    buckets = bucket_ids(keys, timed.table.schema).tolist()
    pairs = {(bucket, row.task) for bucket, row in zip(buckets, got, strict=True)}
    assert len(pairs) == len(set(buckets)) == 5
    if hasattr(DataFrame, "repartitionById"):  # Spark 4.1
        assert all(bucket == task for bucket, task in pairs)
    assert {row.id: row.v for row in got} == {id: None if id % 2 else id for id in range(100)}


def test_case_6_groups_have_times_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "id": "BIGINT",
        "clicked_at": "BIGINT",
        "clicks": "INT",
        "moved_at": "TIMESTAMP(3)",
        "city": "STRING",
    }
    options = {
        "merge-engine": "partial-update",
        "fields.clicked_at.sequence-group": "clicks",
        "fields.moved_at.sequence-group": "city",
    }
    timed = TimedTable(tmp_path, columns, ["id"], options)
    at_20 = moments([{"at": minutes(20)}])["at"][0].as_py()
    timed.write(1000, {"id": 1, "clicked_at": minutes(10) // 1000, "clicks": 3})
    timed.write(2000, {"id": 1, "moved_at": at_20, "city": "Oslo"})
    rows = moments([{"n": n, "id": 1, "at": minutes(n)} for n in (9, 10, 15, 20)])
    call: dict[str, Any] = {
        "columns": ["city", "clicks"],
        "basis": "event",
        "event_times": {"clicked_at": "seconds", "moved_at": None},
    }
    df = frame(spark, rows)
    given = point_in_time(df, timed.path, "at", **call).orderBy("n").collect()
    assert [row.clicks for row in given] == [None, 3, 3, 3]
    assert [row.city for row in given] == [None, None, None, "Oslo"]
    known = point_in_time(df, timed.path, "at", as_known=True, **call).collect()
    assert {row.clicks for row in known} == {None, 3}


KEYS: list[tuple[dict[str, str], dict[str, str], list[str]]] = [
    ({"day": "DATE", "name": "STRING"}, {"bucket": "3"}, []),
    ({"day": "DATE", "name": "STRING"}, {"bucket": "3", "bucket-key": "name"}, ["day"]),
    ({"cost": "DECIMAL(9, 2)", "at_": "TIMESTAMP(6)", "raw": "BYTES"}, {"bucket": "4"}, []),
    ({"name": "STRING"}, {"bucket": "-1"}, []),
    ({"day": "DATE", "name": "STRING"}, {"bucket": "-1"}, ["day"]),
]
SQL_VALUES = {
    "day": "date_add(DATE'2024-02-29', int(id % 3))",
    "name": "concat('n', id)",
    "cost": "cast(id / 4 as decimal(9, 2))",
    "at_": "timestamp_ntz'1960-01-01 00:00:00.000001' + make_dt_interval(0, int(id))",
    "raw": "cast(concat('n', id) as binary)",
}


@pytest.mark.parametrize(("key", "options", "partitions"), KEYS)
def test_keys_of_all_layouts_find_their_rows(
    spark: SparkSession,
    tmp_path: Path,
    key: dict[str, str],
    options: dict[str, str],
    partitions: list[str],
) -> None:
    """The odd rows are in the table. Null keys get nulls."""
    columns = {**key, "v": "BIGINT"}
    timed = TimedTable(tmp_path, columns, list(key), options, partition_by=partitions)
    made = [f"{SQL_VALUES[name]} as {name}" for name in key]
    rows = spark.range(40).selectExpr(*made, "id as v", "id as label")
    timed.table.write(rows.where("v % 2 = 1").drop("label").toArrow())
    timed.stamp(1000)
    first, *rest = key
    asked = rows.selectExpr(f"if(v = 7, null, {first}) as `the key`", *rest, "label")
    asked = asked.withColumn("at", sf.expr("timestamp_millis(1000 - label % 4 div 3)"))
    on = {"the key": first, **{name: name for name in rest}}
    given = point_in_time(asked, timed.path, "at", on=on)
    expected = {n: n if n % 4 == 1 and n != 7 else None for n in range(40)}
    assert {row.label: row.v for row in given.collect()} == expected


def test_columns_come_out_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    """First those of df, in its order and with any name and type, then the features, with their metadata."""
    timed = cities(tmp_path)
    df = spark.sql(
        "SELECT 1L AS id, TIMESTAMP'1970-01-01 00:00:00+00' AS at, 'x' AS `a.b`, NULL AS `v.*`,"
        " map('k', array(1)) AS `m``m`, DATE'2020-01-01' AS task"
    )
    df = df.withColumn("at", sf.timestamp_millis(sf.lit(minutes(6))))
    given = point_in_time(df, timed.path, "at", ["city"], prefix="f.`*` ")
    assert given.columns == [*df.columns, "f.`*` city"]
    assert given.schema.fields[: len(df.columns)] == df.schema.fields
    (row,) = given.collect()
    assert list(row)[2:5] == ["x", None, {"k": [1]}]
    assert row[-1] == "Rome"
    metadata = given.schema.fields[-1].metadata
    assert metadata["widetable.basis"] == "known"
    assert int(metadata["widetable.final_before_micros"]) == minutes(9) * 1000


def test_no_rows_give_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    timed = cities(tmp_path)
    df = frame(spark, moments([{"id": 1, "at": 0}])).where("id > 1")
    given = point_in_time(df, timed.path, "at")
    assert (given.columns, given.collect()) == (["id", "at", "city"], [])


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("SELECT 1L AS id, cast(null AS timestamp) AS at", "'at'.*null in row 0"),
        ("SELECT 'x' AS id, current_timestamp() AS at", "'id'"),
        ("SELECT array(1L) AS id, current_timestamp() AS at", "'id'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_their_task(
    spark: SparkSession, tmp_path: Path, query: str, named: str
) -> None:
    given = point_in_time(spark.sql(query), cities(tmp_path).path, "at")
    with pytest.raises(PySparkException, match=f"InvalidError.*{named}"):
        given.collect()


def test_a_time_behind_the_oldest_snapshot_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    timed = cities(tmp_path)
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=2, time_retained_millis=1)
    edge = timed.times[min(snapshot.id for snapshot in timed.table.snapshots())]
    given = point_in_time(frame(spark, moments([{"id": 1, "at": edge - 1}])), timed.path, "at")
    with pytest.raises(PySparkException, match=rf"NotFoundError.*{edge - 1} "):
        given.collect()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT 1L AS id, 5L AS at", {}, "bigint|int64"),
    ("SELECT 1L AS nr, current_timestamp() AS at", {}, "'id'"),
    ("SELECT 1L AS id, current_timestamp() AS at", {"at": "then"}, "'then'"),
    ("SELECT 1L AS id, current_timestamp() AS at", {"on": {"id": "nr"}}, "on"),
    ("SELECT 1L AS id, current_timestamp() AS at, 1 AS CITY", {}, "'CITY'.*prefix"),
    ("SELECT 1L AS id, current_timestamp() AS at", {"basis": "event"}, "'city'.*time"),
    ("SELECT 1L AS id, current_timestamp() AS at", {"as_known": True}, "as_known"),
]


@pytest.mark.parametrize(("query", "more", "named"), REFUSED)
def test_what_does_not_fit_is_refused_by_the_call(
    spark: SparkSession, tmp_path: Path, query: str, more: dict[str, Any], named: str
) -> None:
    path = cities(tmp_path).path
    with pytest.raises(wt.InvalidError, match=named):
        point_in_time(spark.sql(query), path, **{"at": "at", **more})


def test_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS at")
    with pytest.raises(wt.InvalidError, match="lookup_join"):
        point_in_time(stream, cities(tmp_path).path, "at")


def test_a_table_made_again_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    timed = cities(tmp_path)
    given = point_in_time(frame(spark, moments([{"id": 1, "at": HOUR}])), timed.path, "at")
    timed.catalog.drop_table("db.t")
    cities(tmp_path)
    with pytest.raises(PySparkException, match="InvalidError"):
        given.collect()


def test_a_hostile_argument_gives_an_error_of_the_package(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    path = cities(tmp_path).path
    df = frame(spark, moments([{"id": 1, "at": 0}]))
    usual: dict[str, Any] = {
        "df": df,
        "path_or_table": path,
        "at": "no",
        "columns": ["no"],
        "on": ["no"],
    }
    more = {"basis": "no", "ttl": -1, "event_times": ["no"], "prefix": 1, "as_known": True}
    raised = []
    for name in (*usual, *more):
        for value in rng.sample([*hostile_values()], 16):
            try:
                point_in_time(**{**usual, name: value})
            except wt.WidetableError:
                pass
            except Exception as error:  # noqa: BLE001
                raised.append(f"{name}={shown(value)}: {type(error).__name__}")
    assert raised == []
