"""Lookup joins in Spark: what they may be put together with, what they keep, and what is refused."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.spark.joining.joined_query import Query, Rows, drop, fail_once, pins, put, tuples
from tests.support.models.hostile_values import hostile_values
from widetable.arguments import shown
from widetable.commit.holds.read_lease import held_snapshots
from widetable.connector import lookup_tasks
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths
from widetable_spark import lookup_join


def test_columns_may_have_any_name(spark: SparkSession, dim: wt.Table, tmp_path: Path) -> None:
    """Also those that Spark reads as paths, quotes or patterns: of either side, and of a join of a join."""
    odd = ["a.b", "a`b", "`a`", "*", ".", "a b", "'\"", "[k]", "k.x", "column_1", "", "ä", "a\nb"]
    left = spark.range(1, 4).select(*(sf.col("id").alias(name) for name in odd))
    for name in odd:
        joined = lookup_join(left, dim, {name: "k"}, ["name"], prefix="p.`*` ")
        twice = lookup_join(joined, dim, {name: "k"}, ["city"], prefix="*", how="inner")
        assert twice.columns == [*odd, "p.`*` name", "*city"]
        assert tuples(twice) == [(*[k] * len(odd), *dim_of[k]) for k in dim_of]
        schema = {name or "e": pa.int64(), f"v {name}": pa.string()}
        odd_dim = wt.Catalog(tmp_path).create_table(
            f"db.d{odd.index(name)}", schema, primary_key=[name or "e"]
        )
        odd_dim.write([dict(zip(schema, (1, "x"), strict=True))])
        found = lookup_join(spark.range(1, 3).toDF("z"), odd_dim, {"z": name or "e"})
        assert (found.columns, tuples(found)) == (["z", f"v {name}"], [(1, "x"), (2, None)])


dim_of = {1: ("Ann", "Oslo"), 2: ("Bob", "Rome")}


def test_rows_that_wait_may_have_columns_of_any_name(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    waits: dict[str, Any] = {
        "retry_batches": 1,
        "pending": tmp_path / "pending",
        "pending_key": "i.d",
        "name": "late",
    }

    def join(left: DataFrame) -> DataFrame:
        return lookup_join(left.toDF("i.d", "*"), dim, {"*": "k"}, ["name"], **waits)

    query = Query(spark, tmp_path, join)
    drop(query.source, 0, (10, 1), (11, 9), (12, 8))
    query.run()
    put(dim, (9, "Ida", "Bonn"))
    drop(query.source, 1, (20, 2))
    query.run()
    second = [(11, 9, "Ida"), (12, 8, None), (20, 2, "Bob")]
    assert query.got == [(0, [(10, 1, "Ann")]), (1, second)]


@pytest.mark.parametrize("value", ["interval 1 month", "make_interval(1, 2)"])
def test_a_column_that_no_task_could_get_is_named_at_the_call(
    spark: SparkSession, dim: wt.Table, value: str
) -> None:
    left = spark.sql(f"select 1L k, {value} as lasts")
    with pytest.raises(wt.UnsupportedError, match=r"'lasts'.*interval.*[Cc]ast or drop"):
        lookup_join(left, dim, ["k"])


def test_joins_of_joins_have_pins_of_their_own(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    def join(left: DataFrame) -> DataFrame:
        once = lookup_join(left, dim, ["k"], ["name"]).where("id > 0")
        twice = lookup_join(once, dim, ["k"], ["name"], prefix="b_")
        return lookup_join(twice, dim.path, ["k"], ["city"], name="the third")

    query = Query(spark, tmp_path, join)
    drop(query.source, 0, (10, 1), (14, 9))
    query.run()
    assert query.got == [(0, [(10, 1, "Ann", "Ann", "Oslo"), (14, 9, None, None, None)])]
    assert [name.split("-", 8)[8] for name in pins(dim)] == ["0-0", "1-0", "the third-0"]


def test_names_of_joins_are_the_same_after_a_restart_and_in_a_plan_of_views(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    def join(left: DataFrame) -> DataFrame:
        lookup_join(left, dim, ["k"], ["name"]).createOrReplaceTempView("joined_once")
        return lookup_join(spark.sql("select * from joined_once"), dim, ["k"], ["city"])

    query = Query(spark, tmp_path, join)
    query.fails = fail_once(0)
    drop(query.source, 0, (10, 1))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    made = pins(dim)
    assert len(made) == 2
    put(dim, (1, "Anna", "Bergen"))
    query.run()
    assert pins(dim) == made
    assert query.got[1] == (0, [(10, 1, "Ann", "Oslo")])


def test_joins_of_other_partitions_do_not_share_a_pin(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"dt": pa.int32(), "k": pa.int64(), "v": pa.string()}
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.days", fields, primary_key=["dt", "k"], partition_by=["dt"]
    )
    put(table, (1, 1, "a"), (2, 1, "b"))

    def join(left: DataFrame) -> DataFrame:
        newest = lookup_join(left, table, ["k"], partitions="max_pt()")
        return newest.union(lookup_join(left, table, ["k"], partitions="dt=1"))

    query = Query(spark, tmp_path, join)
    drop(query.source, 0, (10, 1))
    query.run()
    assert query.got == [(0, [(10, 1, "a"), (10, 1, "b")])]
    assert len(pins(table)) == 2


def test_the_watermark_stays_with_its_column(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    """A window in append mode is refused without one."""

    def join(left: DataFrame) -> DataFrame:
        timed = left.withColumn("at", sf.timestamp_seconds("id")).withWatermark("at", "1 second")
        joined = lookup_join(timed, dim, ["k"], ["city"])
        return joined.groupBy(sf.window("at", "5 seconds"), "city").count().select("city", "count")

    query = Query(spark, tmp_path, join)
    for number, id in enumerate((10, 100)):
        drop(query.source, number, (id, 1))
        query.run()
    assert [rows for _, rows in query.got if rows] == [[("Oslo", 1)]]


def test_in_foreach_batch_a_replay_joins_the_same(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    """Where it is called anew for each try, on a DataFrame that is no stream."""
    got: list[Rows] = []
    leases: list[int] = []
    query = Query(spark, tmp_path, lambda left: left)
    fail = fail_once(0)

    def sink(rows: DataFrame, batch_id: int) -> None:
        got.append(tuples(lookup_join(rows, dim, ["k"])))
        leases.append(len(held_snapshots(LocalFileIO(), TablePaths(dim.path))))
        fail(batch_id)

    query._sink = sink  # type: ignore[method-assign]
    drop(query.source, 0, (10, 1))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    put(dim, (1, "Ann", "Bergen"))
    drop(query.source, 1, (20, 1))
    query.run()
    oslo, bergen = [(10, 1, "Ann", "Oslo")], [(20, 1, "Ann", "Bergen")]
    assert got == [oslo, oslo, bergen]
    assert leases == [0, 0, 0], "the pins hold what is needed"


def test_a_data_frame_keeps_the_snapshot_of_the_call(spark: SparkSession, dim: wt.Table) -> None:
    left = spark.createDataFrame([(10, 1)], "id long, k long")
    joined = lookup_join(left, dim, ["k"])
    chosen = dim.snapshots()[-1].id
    for city in ("Bergen", "Narvik"):
        put(dim, (1, "Ann", city))
    dim.compact(full=True)
    assert chosen not in dim.expire_snapshots(1, 1, 0).ids
    assert tuples(joined) == [(10, 1, "Ann", "Oslo")]
    assert tuples(lookup_join(left, dim, ["k"])) == [(10, 1, "Ann", "Narvik")]
    lookup_tasks.KEPT.release_leases()
    assert chosen in dim.expire_snapshots(1, 1, 0).ids
    with pytest.raises(Exception, match=r"snapshot.*joined by a DataFrame.*Call lookup_join again"):
        joined.collect()


def test_a_replay_that_cannot_be_the_same_stops_the_query(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, lambda left: lookup_join(left, dim, ["k"]))
    query.fails = fail_once(0)
    drop(query.source, 0, (10, 1))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    (name,) = pins(dim)
    pin, over = Path(dim.path, "service", name), int(time.time() * 1000) - 1
    pin.write_text(json.dumps({**json.loads(pin.read_text()), "expires_millis": over}))
    put(dim, (1, "Ann", "Bergen"))
    dim.compact(full=True)
    assert dim.expire_snapshots(1, 1, 0).ids
    with pytest.raises(
        StreamingQueryException, match=r"NotFoundError: batch 0 of query .*snapshot 2"
    ):
        query.run()
    assert len(query.got) == 1
    pin.unlink()  # as the error says
    query.run()
    assert query.got[1] == (0, [(10, 1, "Ann", "Bergen")])


def test_values_of_every_type_arrive(spark: SparkSession, tmp_path: Path) -> None:
    fields = {
        "k": pa.string(),
        "t": pa.timestamp("ns"),
        "z": pa.timestamp("ms", "UTC"),
        "d": pa.decimal128(20, 4),
        "l": pa.list_(pa.int16()),
        "s": pa.struct({"x": pa.float32()}),
        "b": pa.binary(),
    }
    table = wt.Catalog(tmp_path).create_table("db.t", fields, primary_key=["k"])
    at = dt.datetime(2024, 2, 29, 10, 30, 1, 250_000)
    row = {"t": at, "z": at.replace(tzinfo=dt.timezone.utc), "d": Decimal("1.5000"), "l": [1, None]}
    table.write([{"k": "a", **row, "s": {"x": 0.5}, "b": b"\0"}])
    left = spark.createDataFrame([("a",), ("b",)], "k string")
    found, missed = lookup_join(left, table, ["k"]).sort("k").collect()
    assert found.asDict(recursive=True) == {
        "k": "a",
        **row,
        "z": at,
        "s": {"x": 0.5},
        "b": bytearray(b"\0"),
    }
    assert missed.asDict() == dict.fromkeys(fields) | {"k": "b"}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"df": "rows"}, "df.*DataFrame"),
        ({"dim": 7}, "path"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"partitions": 7}, "partitions"),
        ({"retractions": True}, "retractions.*'refuse' or 'key-only'"),
        ({"how": "full"}, "how"),
        ({"on": "k"}, "on"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(
    spark: SparkSession, dim: wt.Table, arguments: dict[str, Any], match: str
) -> None:
    df = spark.createDataFrame([(10, 1)], "id long, k long")
    with pytest.raises(wt.InvalidError, match=match):
        lookup_join(**{"df": df, "dim": dim, "on": ["k"], **arguments})


def test_a_hostile_argument_gives_an_error_of_the_package(
    spark: SparkSession, dim: wt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"df": spark.createDataFrame([(10, 1)], "id long, k long"), "dim": dim, "on": ["k"]}
    raised = []
    for name in inspect.signature(lookup_join).parameters:
        for value in hostile_values():
            try:
                lookup_join(**{**usual, name: value})
            except wt.WidetableError:
                pass
            except Exception as error:  # noqa: BLE001
                raised.append(f"{name}={shown(value)}: {type(error).__name__}")
    assert raised == []
