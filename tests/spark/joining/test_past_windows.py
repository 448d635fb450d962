"""Windows of time in Spark: equal to the call in Python, from one moment, bucket by bucket."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.spark.joining.test_past_features import counted_rows, frame
from tests.support.models.hostile_values import hostile_values
from tests.widetable.derive.versions.test_known_windows import (
    CLICKS,
    HISTORY,
    HOUR,
    MINUTE,
    NOON,
    SIZES,
    SUM,
    TILES,
    WINDOWS,
    clicks,
    commit,
    commit_all,
    create,
    drawn_event,
    forget,
    rows_at,
)
from tests.widetable.derive.versions.timed_table import TimedTable
from tests.widetable.operations.windows.event_windows import at
from widetable.arguments import shown
from widetable.commit.holds.read_lease import held_snapshots
from widetable.connector.lookup_tasks import KEPT
from widetable.derive.versions.history_feed import feed_history
from widetable.format.bucket_hash import bucket_ids
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable_spark import windows

BOTH: dict[str, Any] = {"as_known": True, "include_current": True}
KINDS: list[dict[str, Any]] = [{}, {"as_known": True}, {"include_current": True}, BOTH]


def answers(spark: SparkSession, timed: TimedTable, micros: int, **more: Any) -> list[Any]:
    given = windows(frame(spark, rows_at([micros])), timed.path, "at", features=CLICKS, **more)
    (row,) = given.select(list(CLICKS)).collect()
    return list(row)


@pytest.mark.parametrize("part", range(2))
def test_random_commits_give_what_python_gives(
    spark: SparkSession, rng: random.Random, tmp_path: Path, part: int
) -> None:
    """Every layout of buckets, some of the past in a history, the rest in snapshots."""
    rng.seed(rng.random() + part)
    for number in range(3):
        text, size = rng.choice(list(SIZES.items()))
        timed = create(rng, tmp_path / str(number), text)
        events = [drawn_event(rng, NOON) for _ in range(30)]
        commit_all(rng, timed, events, size, NOON)
        moments = [rng.choice(list(timed.times.values())) * 1000 for _ in range(30)]
        users = [rng.choice([1, 12, -5, 99, None]) for _ in moments]
        rows = rows_at(moments).set_column(0, "user", pa.array(users, pa.int64()))
        rows = rows.append_column("the shop", pa.array([rng.choice(["", "23"]) for _ in moments]))
        rows = pa.concat_tables([rows, rows[:5]])  # equal rows stay
        features = {
            f"f{n}": wt.window(column, name, f"{rng.randint(1, 9) * size // 1000} ms")
            for n, (column, name) in enumerate(WINDOWS)
        }
        on = {"user": "user", "the shop": "shop"}
        more: dict[str, Any] = {
            "features": features,
            "on": on,
            "prefix": "p ",
            "empty_zero": rng.random() < 0.5,
        }
        kind = rng.choice(KINDS)
        expected = timed.table.windows(rows, "at", **more, **kind)
        given = windows(frame(spark, rows), timed.path, "at", **more, **kind)
        names = expected.column_names
        assert given.columns == names
        assert counted_rows(given.collect(), names) == counted_rows(expected.to_pylist(), names)


def test_cases_14_and_15(spark: SparkSession, tmp_path: Path) -> None:
    timed = clicks(tmp_path, **HISTORY)
    commit(timed, NOON + HOUR, NOON - 80 * MINUTE, 7)  # a late one, for 10:40
    feed_history(timed.table)
    forget(timed)
    half = NOON + 30 * MINUTE
    assert answers(spark, timed, half) == [3, 12, 12]
    assert answers(spark, timed, half, as_known=True) == [3, 5, 5]
    assert answers(spark, timed, half, include_current=True) == [3, 12, 12]
    assert answers(spark, timed, NOON + 59 * MINUTE, **BOTH) == [8, 10, 10]


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_after_the_call_changes_nothing(
    spark: SparkSession, tmp_path: Path, kind: dict[str, Any]
) -> None:
    """Not even one that a clock has dated before the times of rows: a call now would see it."""
    timed = clicks(tmp_path)
    rows = rows_at([NOON + 59 * MINUTE])
    given = windows(frame(spark, rows), timed.path, "at", features=CLICKS, **kind)
    before = timed.table.windows(rows, "at", features=CLICKS, **kind).select(list(CLICKS))
    commit(timed, NOON + 30 * MINUTE, NOON - 80 * MINUTE, 100)
    feed_history(timed.table)
    assert [row.asDict() for row in given.select(list(CLICKS)).collect()] == before.to_pylist()
    after = timed.table.windows(rows, "at", features=CLICKS, **kind).select(list(CLICKS))
    assert after != before


def test_coarse_tables_by_path(spark: SparkSession, tmp_path: Path) -> None:
    timed = clicks(tmp_path / "fine")
    options = {**SUM, "widetable.tile-size": "3 h"}
    coarse = TimedTable(tmp_path / "coarse", TILES, ["user", "tile"], options)
    tile = NOON - NOON % (3 * HOUR) - 3 * HOUR
    coarse.write((NOON + 5 * HOUR) // 1000, {"user": 1, "tile": at(tile), "clicks": 1000})
    for others in ([coarse.path], {"3 h": coarse.table}):
        assert answers(spark, timed, NOON, coarse=others) == [3, 5, 1000]
        assert answers(spark, timed, NOON, coarse=others, as_known=True) == [3, 5, 5]


def test_an_older_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    timed = clicks(tmp_path)
    assert answers(spark, timed, NOON + HOUR, snapshot_id=2) == [None, 3, 5]
    with pytest.raises(wt.NotFoundError, match="snapshot"):
        answers(spark, timed, NOON, snapshot_id=99)


def test_a_table_without_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, TILES, ["user", "tile"], SUM)
    for kind in KINDS:
        assert answers(spark, timed, NOON, empty_zero=True, **kind) == [0, 0, 0]


def test_the_driver_keeps_what_its_tasks_read(spark: SparkSession, tmp_path: Path) -> None:
    KEPT.release_leases()
    timed = clicks(tmp_path)
    rows = frame(spark, rows_at([NOON]))
    given = windows(rows, timed.path, "at", features=CLICKS)
    assert held_snapshots(LocalFileIO(), TablePaths(timed.path)) == [3]
    known = windows(rows, timed.path, "at", features=CLICKS, as_known=True)
    assert min(held_snapshots(LocalFileIO(), TablePaths(timed.path))) == 1
    for hours in range(2, 5):
        commit(timed, NOON + hours * HOUR, NOON - HOUR, 1)
    forget(timed)
    assert [list(row)[2:] for row in given.collect()] == [[3, 5, 5]]
    assert [list(row)[2:] for row in known.collect()] == [[3, 5, 5]]
    KEPT.release_leases()
    forget(timed)
    with pytest.raises(PySparkException, match="NotFoundError"):
        known.collect()


def test_each_bucket_is_answered_by_one_task(spark: SparkSession, tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, TILES, ["user", "tile"], {**SUM, "bucket": "5"})
    rows = [{"user": id, "tile": at(NOON - HOUR), "clicks": id} for id in range(0, 100, 2)]
    timed.write(NOON // 1000, *rows)
    df = frame(spark, rows_at([NOON] * 100, list(range(100))))
    given = windows(df, timed.path, "at", features={"f": wt.window("clicks", "sum", "1 h")})
    got = given.withColumn("task", sf.spark_partition_id()).collect()
    keys = pa.record_batch({"user": pa.array([row.user for row in got], pa.int64())})
    buckets = bucket_ids(keys, timed.table.schema).tolist()
    pairs = {(bucket, row.task) for bucket, row in zip(buckets, got, strict=True)}
    assert len(pairs) == len(set(buckets)) == 5
    assert {row.user: row.f for row in got} == {id: None if id % 2 else id for id in range(100)}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT 1L AS user, 5L AS at", {}, "int64"),
    ("SELECT 1L AS nr, current_timestamp() AS at", {}, "'user'"),
    ("SELECT 1L AS user, current_timestamp() AS at", {"at": "then"}, "'then'"),
    ("SELECT 1L AS user, current_timestamp() AS at, 1 AS F1", {}, "'F1'.*prefix"),
    ("SELECT 1L AS user, current_timestamp() AS at", {"features": {}}, "features"),
    ("SELECT 1L AS user, current_timestamp() AS at", {"coarse": 7}, "coarse"),
    ("SELECT 1L AS user, current_timestamp() AS at", {"as_known": 1}, "as_known"),
    (
        "SELECT 1L AS user, current_timestamp() AS at",
        {"as_known": True, "snapshot_id": 1},
        "snapshot_id",
    ),
]


@pytest.mark.parametrize(("query", "more", "named"), REFUSED)
def test_what_does_not_fit_is_refused_by_the_call(
    spark: SparkSession, tmp_path: Path, query: str, more: dict[str, Any], named: str
) -> None:
    path = clicks(tmp_path).path
    with pytest.raises(wt.InvalidError, match=named):
        windows(spark.sql(query), path, **{"at": "at", "features": CLICKS, **more})


def test_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS user", "timestamp AS at")
    with pytest.raises(wt.InvalidError, match="lookup session"):
        windows(stream, clicks(tmp_path).path, "at", features=CLICKS)


def test_rows_that_do_not_fit_are_refused_by_their_task(
    spark: SparkSession, tmp_path: Path
) -> None:
    timed = clicks(tmp_path)
    df = spark.sql("SELECT 1L AS user, cast(null AS timestamp) AS at")
    with pytest.raises(PySparkException, match=r"InvalidError.*'at'.*null in row 0"):
        windows(df, timed.path, "at", features=CLICKS).collect()
    forget(timed)
    early = windows(frame(spark, rows_at([0])), timed.path, "at", features=CLICKS, as_known=True)
    with pytest.raises(PySparkException, match=r"NotFoundError.*1970-01-01"):
        early.collect()


def test_a_table_made_again_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    timed = clicks(tmp_path)
    given = windows(frame(spark, rows_at([NOON])), timed.path, "at", features=CLICKS)
    timed.catalog.drop_table("db.t")
    clicks(tmp_path)
    with pytest.raises(PySparkException, match="InvalidError"):
        given.collect()


def test_a_hostile_argument_gives_an_error_of_the_package(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    usual: dict[str, Any] = {
        "df": frame(spark, rows_at([NOON])),
        "path_or_table": clicks(tmp_path).path,
        "at": "at",
        "features": CLICKS,
    }
    more = ("tile", "tile_size", "on", "prefix", "snapshot_id", "empty_zero", "coarse", *BOTH)
    raised = []
    for name in (*usual, *more):
        for value in rng.sample([*hostile_values()], 16):
            try:
                windows(**{**usual, name: value})
            except wt.WidetableError:
                pass
            except Exception as error:  # noqa: BLE001
                raised.append(f"{name}={shown(value)}: {type(error).__name__}")
    assert raised == []
