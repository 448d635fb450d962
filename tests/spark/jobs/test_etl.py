"""Derived tables by jobs of Spark: whole barriers, every batch once, the same moment in all tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
import widetable_spark
from tests.meta.service_process import serving
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.hostile_values import hostile_values
from widetable.errors import InvalidError, NotFoundError, UnsupportedError

SHOPPING = "shop.shopping"
AMOUNT, PRICE = "shop.user_item_amount", "shop.user_item_price"
KEY = {"user": "BIGINT NOT NULL", "item": "BIGINT NOT NULL"}


def table(catalog: wt.Catalog, name: str, columns: dict[str, Any], **options: str) -> wt.Table:
    return catalog.create_table(
        name,
        {**KEY, **columns},
        primary_key=["user", "item"],
        options={"bucket": "1", "widetable.barrier-interval": "10 ms", **options},
    )


def shop(warehouse: Path) -> wt.Catalog:
    catalog = wt.Catalog(warehouse)
    table(
        catalog,
        SHOPPING,
        {"amount": "BIGINT", "price": "BIGINT"},
        **{
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "sum",
            "changelog-producer": "lookup",
        },
    )
    table(catalog, AMOUNT, {"amount": "BIGINT"})
    table(catalog, PRICE, {"price": "BIGINT"})
    return catalog


class SumJob:
    """One column of shopping by user and item."""

    def __init__(self, spark: SparkSession, warehouse: Path, column: str, target: str) -> None:
        self.spark, self.warehouse, self.column, self.target = spark, warehouse, column, target

    def run(self) -> None:
        """All that is there."""
        etl = widetable_spark.etl(self.spark, self.warehouse, f"{self.column}s")
        changes = etl.changes(SHOPPING, ["user", "item", self.column])
        summed = changes.groupBy("user", "item").agg(
            widetable_spark.signed_sum(self.column).alias(self.column)
        )
        assert run(summed, etl.sink(self.target), self.warehouse / self.column) is None


def seen(session: wt.Session) -> tuple[int, int, float]:
    amount, price = (
        session.table(name).scan().to_arrow()[column].to_pylist()
        for name, column in ((AMOUNT, "amount"), (PRICE, "price"))
    )
    return price[0], amount[0], round(price[0] / amount[0], 3)


def test_case_1_sessions_see_one_moment_of_two_jobs(jobs: SparkSession, tmp_path: Path) -> None:
    catalog = shop(tmp_path)
    root = catalog.writer(SHOPPING, "clicks")
    amounts = SumJob(jobs, tmp_path, "amount", AMOUNT)
    prices = SumJob(jobs, tmp_path, "price", PRICE)
    root.write(
        {"user": [1], "item": [1], "amount": [100], "price": [1000]}, barrier=10, complete=True
    )
    amounts.run()
    prices.run()
    root.write(
        {"user": [1], "item": [1], "amount": [200], "price": [1500]}, barrier=20, complete=True
    )
    prices.run()
    with catalog.session(tables=[AMOUNT, PRICE], consistency="ReadUncommitted") as session:
        assert seen(session) == (2500, 100, 25)
    for consistency in ("RepeatableRead", "ReadCommitted"):
        with catalog.session(tables=[AMOUNT, PRICE], consistency=consistency) as session:
            assert (session.barrier, *seen(session)) == (10, 1000, 100, 10)
    with catalog.session(tables=[AMOUNT, PRICE]) as before:
        amounts.run()
        with catalog.session(tables=[AMOUNT, PRICE]) as after:
            assert (after.barrier, *seen(after)) == (20, 2500, 300, 8.333)
        assert (before.barrier, *seen(before)) == (10, 1000, 100, 10)
    with widetable_spark.session(jobs, tmp_path, [AMOUNT, PRICE]) as views:
        assert views.create_views([AMOUNT, PRICE]) == ["user_item_amount", "user_item_price"]
        joined = (
            "SELECT price, amount FROM user_item_amount JOIN user_item_price USING (user, item)"
        )
        root.write({"user": [1], "item": [1], "amount": [1]}, barrier=30, complete=True)
        amounts.run()
        for name in (AMOUNT, PRICE):
            catalog.table(name).compact(full=True)
            catalog.table(name).expire_snapshots(1, 1, 0)
        assert views.barrier == 20
        assert [tuple(row) for row in jobs.sql(joined).collect()] == [(2500, 300)]
    assert not jobs.catalog.tableExists("user_item_amount")
    jobs_by_name = {job.name: job for job in catalog.topology().jobs()}
    assert jobs_by_name["amounts"].sources == (SHOPPING,)
    assert catalog.topology().downstream(SHOPPING) == [AMOUNT, PRICE]


def test_a_service_says_which_moment_views_show(jobs: SparkSession, tmp_path: Path) -> None:
    catalog = shop(tmp_path)
    for name, column in ((AMOUNT, "amount"), (PRICE, "price")):
        rows = {"user": [1], "item": [1], column: [7]}
        catalog.writer(name, "w").write(rows, barrier=10, complete=True)
    catalog.writer(AMOUNT, "w").write({"user": [2], "item": [1], "amount": [8]}, barrier=20)
    with (
        serving(tmp_path) as (service,),
        widetable_spark.session(jobs, tmp_path, [AMOUNT, PRICE], uri=service.url) as views,
    ):
        service.kill()
        assert views.barrier == 10
        assert [row.amount for row in views.table(AMOUNT).collect()] == [7]


class Fails(Exception):
    """What ends a query between a commit and Spark's log."""


def run(df: DataFrame, sink: Any, checkpoint: Path, mode: str = "update") -> BaseException | None:
    query = (
        df.writeStream.outputMode(mode)
        .foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    except StreamingQueryException as error:
        return error
    return None


def rows(scan: wt.TableScan) -> list[dict[str, Any]]:
    return sorted(scan.to_arrow().to_pylist(), key=str)


def test_cases_6_and_7_a_batch_of_two_sources_that_is_in_comes_again(
    jobs: SparkSession, tmp_path: Path
) -> None:
    """The sink fails behind its commit: operator state is that of before, and everything that may has expired."""
    catalog = wt.Catalog(tmp_path)
    for name in ("x", "y"):
        table(catalog, f"d.{name}", {"v": "BIGINT"})
    table(catalog, "d.z", {"x": "BIGINT", "y": "BIGINT"})
    x, y = (catalog.writer(f"d.{name}", "w") for name in ("x", "y"))

    def put(writer: wt.BarrierWriter, ids: range, barrier: int) -> None:
        values = {"user": list(ids), "item": list(ids), "v": list(ids)}
        writer.write(values, barrier=barrier, complete=True)

    def once(*, fails: bool = False) -> BaseException | None:
        etl = widetable_spark.etl(jobs, tmp_path, "counts")
        parts = [
            etl.changes(f"d.{name}", ["user"]).select(
                sf.lit(0).cast("long").alias("user"),
                sf.lit(0).cast("long").alias("item"),
                *(sf.lit(int(name == other)).cast("long").alias(other) for other in ("x", "y")),
                "_row_kind",
            )
            for name in ("x", "y")
        ]
        sums = [widetable_spark.signed_sum(name).alias(name) for name in ("x", "y")]
        counted = parts[0].unionByName(parts[1]).groupBy("user", "item").agg(*sums)
        sink = etl.sink("d.z")

        def failing(df: DataFrame, batch: int) -> None:
            sink(df, batch)
            raise Fails

        return run(counted, failing if fails else sink, tmp_path / "checkpoint")

    put(x, range(1, 101), 10)
    put(x, range(101, 201), 20)
    put(y, range(1, 51), 10)
    put(y, range(51, 101), 20)
    assert once() is None
    assert rows(catalog.table("d.z").scan(barrier=20)) == [
        {"user": 0, "item": 0, "x": 200, "y": 100}
    ]
    put(x, range(201, 301), 30)
    assert once() is None  # y is not there yet
    assert catalog.session(tables=["d.z"]).barrier == 20
    put(y, range(101, 111), 30)
    assert once(fails=True) is not None
    put(x, range(301, 302), 40)
    put(y, range(301, 302), 40)
    for name in ("x", "y"):
        catalog.table(f"d.{name}").compact(full=True)
        catalog.table(f"d.{name}").expire_snapshots(1, 1, 0)
    error = once()
    assert error is None, str(error)
    z = catalog.table("d.z")
    assert rows(z.scan(barrier=30)) == [{"user": 0, "item": 0, "x": 300, "y": 110}]
    assert rows(z.scan(barrier=40)) == [{"user": 0, "item": 0, "x": 301, "y": 111}]
    labels = [snapshot.properties.get("widetable.barrier") for snapshot in z.snapshots()]
    assert [label for label in labels if label] == ["20", "30", "40"]
    for name in ("x", "y", "z"):
        assert not catalog.table(f"d.{name}").audit().findings


def test_case_8_a_root_of_two_tables_that_dies_between_them_finishes(
    jobs: SparkSession, tmp_path: Path
) -> None:
    catalog = wt.Catalog(tmp_path)
    for name in ("a", "b"):
        table(catalog, f"d.{name}", {"v": "BIGINT"})
    folder = tmp_path / "in"
    folder.mkdir()
    left = [Fails()]

    def fail_once(df: DataFrame) -> DataFrame:
        if left:
            raise left.pop()
        return df

    def once() -> BaseException | None:
        etl = widetable_spark.etl(jobs, tmp_path, "load")
        stream = jobs.readStream.schema("user long, item long, v long").json(str(folder))
        sink = etl.sink({"d.a": None, "d.b": fail_once})
        return run(stream, sink, tmp_path / "checkpoint", "append")

    (folder / "1.json").write_text('{"user": 1, "item": 1, "v": 1}')
    assert once() is not None
    assert rows(catalog.table("d.a").scan()) == [{"user": 1, "item": 1, "v": 1}]
    assert rows(catalog.table("d.b").scan()) == []
    with pytest.raises(NotFoundError):
        catalog.session(tables=["d.a", "d.b"])
    assert once() is None
    (folder / "2.json").write_text('{"user": 2, "item": 2, "v": 2}')
    assert once() is None
    with catalog.session(tables=["d.a", "d.b"]) as session:
        assert session.table("d.a").scan().count() == session.table("d.b").scan().count() == 2
    labels = [
        [
            s.properties["widetable.barrier"]
            for s in catalog.table(name).snapshots()
            if s.commit_identifier in (0, 1)
        ]
        for name in ("d.a", "d.b")
    ]
    assert labels[0] == labels[1]


def test_case_9_an_idle_root_completes_barriers_while_it_lives(
    jobs: SparkSession, tmp_path: Path
) -> None:
    catalog = wt.Catalog(tmp_path)
    shared = table(
        catalog,
        "d.t",
        {"a": "BIGINT", "b": "BIGINT"},
        **{"merge-engine": "partial-update", "widetable.barrier-interval": "500 ms"},
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"user": 1, "item": 1, "b": 1}')
    etl = widetable_spark.etl(jobs, tmp_path, "idle")
    stream = jobs.readStream.schema("user long, item long, b long").json(str(tmp_path / "in"))
    a = catalog.writer("d.t", "a", ["a"])
    a.write({"user": [1], "item": [1], "a": [5]}, complete=True)
    query = (
        stream.writeStream.foreachBatch(etl.sink("d.t", columns=["b"]))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(lambda: len(shared.snapshots()) > 3)
        (first,) = [s.id for s in shared.snapshots() if s.properties.get("widetable.barrier-begin")]
        label = int(shared.snapshots()[first - 1].properties["widetable.barrier"])
        wait_for(lambda: a.complete() is not None and (a.frontier or 0) > label)
        wanted = a.frontier or 0
        wait_for(lambda: (catalog.topology().tables()[0].barrier or 0) >= wanted)
        with pytest.raises(wt.ConflictError, match="'idle'"):
            catalog.writer("d.t", "other", ["b"])
    finally:
        query.stop()
    later = [
        s for s in shared.snapshots() if s.id > first and s.properties["widetable.writer"] == "idle"
    ]
    assert later
    assert all(not s.delta_record_count for s in later)
    assert rows(shared.scan(barrier=wanted)) == [{"user": 1, "item": 1, "a": 5, "b": 1}]


def test_a_job_whose_table_went_back_goes_on_with_a_new_checkpoint(
    jobs: SparkSession, tmp_path: Path
) -> None:
    catalog = wt.Catalog(tmp_path)
    for name in ("x", "y"):
        table(catalog, f"d.{name}", {"v": "BIGINT"})
    root = catalog.writer("d.x", "w")

    def once(checkpoint: str, factor: int) -> BaseException | None:
        etl = widetable_spark.etl(jobs, tmp_path, "copy")
        made = etl.changes("d.x").withColumn("v", sf.col("v") * factor)
        return run(made, etl.sink("d.y"), tmp_path / checkpoint, "append")

    for barrier in (10, 20):
        root.write({"user": [barrier], "item": [1], "v": [1]}, barrier=barrier, complete=True)
        assert once("old", -1) is None
    assert catalog.revise("d.y", to=10).jobs == ("copy",)
    assert "Start it with a new checkpoint" in str(once("old", 1))
    error = once("new", 1)
    assert error is None, str(error)
    with catalog.session() as session:
        assert session.barrier == 20
        found = rows(session.table("d.y").scan())
    assert [(row["user"], row["v"]) for row in found] == [(10, -1), (20, 1)]
    root.write({"user": [30], "item": [1], "v": [1]}, barrier=30, complete=True)
    assert once("new", 1) is None
    assert catalog.session().barrier == 30
    plans = [file.name for file in (tmp_path / "d.db/y/service").glob("*plan*")]
    assert plans == ["widetable-barrier-plan-copy%revision-1-20"]


def test_read_committed_is_refused_where_commits_are_staged(
    jobs: SparkSession, tmp_path: Path
) -> None:
    catalog = wt.Catalog(tmp_path)
    table(catalog, "d.x", {"v": "BIGINT"})
    table(catalog, "d.y", {"v": "BIGINT"}, **{"widetable.barrier-stage": "true"})
    root = catalog.writer("d.x", "w")
    root.write({"user": [1], "item": [1], "v": [1]}, barrier=10, complete=True)
    etl = widetable_spark.etl(jobs, tmp_path, "copy")
    assert run(etl.changes("d.x"), etl.sink("d.y"), tmp_path / "checkpoint", "append") is None
    assert list((tmp_path / "d.db/y/service").glob("widetable-staged-copy")), "jobs stage, too"
    with pytest.raises(UnsupportedError, match=r"d\.y: found widetable\.barrier-stage"):
        widetable_spark.session(jobs, tmp_path, consistency="ReadCommitted")
    with widetable_spark.session(jobs, tmp_path, ["d.x"], consistency="ReadCommitted") as views:
        assert views.table("d.x").count() == 1


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_is_no_job_is_refused_by_name(jobs: SparkSession, tmp_path: Path) -> None:
    catalog = shop(tmp_path)
    etl = widetable_spark.etl(jobs, tmp_path, "amounts")
    changes = etl.changes(SHOPPING, ["user", "item", "amount"])
    with pytest.raises(InvalidError, match="streaming query"):
        etl.sink(AMOUNT)(jobs.range(1), 0)
    jobs.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    with pytest.raises(InvalidError, match="noDataMicroBatches"):
        etl.sink(AMOUNT)
    jobs.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    with pytest.raises(InvalidError, match="job: found ' '"):
        widetable_spark.etl(jobs, tmp_path, " ")
    other = widetable_spark.etl(jobs, tmp_path, "back")
    plain = catalog.create_table("shop.plain", {"k": "BIGINT"}, primary_key=["k"])
    with pytest.raises(InvalidError, match=f"{plain.path}: .*expected a table under barriers"):
        other.changes("shop.plain")
    other.changes(AMOUNT)
    catalog.topology().running("amounts")
    with pytest.raises(wt.ConflictError, match="cycle"):
        other.sink(SHOPPING)
    root = catalog.writer(SHOPPING, "clicks")
    root.write({"user": [1], "item": [1], "amount": [1]}, barrier=10, complete=True)
    declared = etl.sink(AMOUNT, columns=[])
    error = run(changes.drop("_row_kind"), declared, tmp_path / "c", "append")
    assert "a column of another writer" in str(error)
    wrong = (
        jobs.readStream.format("rate")
        .load()
        .select(sf.col("value").alias("user"), sf.col("value").alias("item"))
    )
    query = (
        wrong.writeStream.foreachBatch(etl.sink(AMOUNT))
        .option("checkpointLocation", str(tmp_path / "d"))
        .start()
    )
    with pytest.raises(StreamingQueryException, match="at no barrier"):
        query.awaitTermination(120)


def test_a_writer_by_option_is_refused_where_it_is_no_stream_of_new_rows(
    jobs: SparkSession, tmp_path: Path
) -> None:
    path = shop(tmp_path).table(AMOUNT).path
    rows = jobs.createDataFrame([(1, 1, 1)], "user long, item long, amount long")
    for mode in ("append", "overwrite"):
        writer = rows.write.format("widetable").option("path", path).mode(mode)
        with pytest.raises(PySparkException, match="is no stream"):
            writer.option("barrier.writer", "w").save()
    stream = jobs.readStream.format("rate").load()
    counted = stream.groupBy((sf.col("value") * 0).alias("user")).count()
    query = (
        counted.select("user", sf.col("user").alias("item"), sf.col("count").alias("amount"))
        .writeStream.format("widetable")
        .outputMode("complete")
        .option("path", path)
        .option("barrier.writer", "w")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    with pytest.raises(PySparkException, match="output mode complete"):
        query.start().awaitTermination(120)


def test_hostile_arguments_are_refused_by_the_package(jobs: SparkSession, tmp_path: Path) -> None:
    catalog = shop(tmp_path)
    etl = widetable_spark.etl(jobs, tmp_path, "amounts")
    views = widetable_spark.session(jobs, tmp_path, [SHOPPING], consistency="ReadUncommitted")
    calls: list[Callable[[Any], Any]] = [
        lambda value: widetable_spark.etl(jobs, value, "amounts"),
        lambda value: widetable_spark.etl(jobs, tmp_path, value),
        lambda value: widetable_spark.etl(jobs, tmp_path, "amounts", drop_when_stopped=value),
        etl.changes,
        lambda value: etl.changes(SHOPPING, value),
        etl.sink,
        lambda value: etl.sink(AMOUNT, value),
        lambda value: etl.sink({AMOUNT: value}),
        lambda value: widetable_spark.session(jobs, tmp_path, value),
        lambda value: widetable_spark.session(jobs, tmp_path, consistency=value),
        lambda value: widetable_spark.session(jobs, tmp_path, as_of=value),
        lambda value: widetable_spark.session(jobs, tmp_path, [SHOPPING], uri=value),
        views.table,
        views.create_views,
        lambda value: views.create_views({value: SHOPPING} if isinstance(value, str) else value),
    ]
    for call in calls:
        for value in hostile_values():
            try:
                call(value)
            except wt.WidetableError:
                continue
    views.close()
    assert catalog.list_tables() == [SHOPPING, AMOUNT, PRICE]
