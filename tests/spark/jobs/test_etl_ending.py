"""Jobs of Spark that end: those that are dropped when they have stopped, and those that tables go on to wait for."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for

ROW = "k long, a long, b long"


def catalog_of(warehouse: Path, interval: str = "500 ms") -> wt.Catalog:
    catalog = wt.Catalog(warehouse)
    for name in "xyz":
        catalog.create_table(
            f"d.{name}",
            {"k": "BIGINT", "a": "BIGINT", "b": "BIGINT"},
            primary_key=["k"],
            options={
                "bucket": "1",
                "merge-engine": "partial-update",
                "widetable.barrier-interval": interval,
            },
        )
    (warehouse / "in").mkdir()
    return catalog


def put(writer: wt.BarrierWriter, column: str, barrier: int) -> None:
    writer.write({"k": [barrier], column: [barrier]}, barrier=barrier, complete=True)


def start(rows: DataFrame, sink: Any, checkpoint: Path, *, all_now: bool = True) -> StreamingQuery:
    stream = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (stream.trigger(availableNow=True) if all_now else stream).start()


def copied(spark: SparkSession, catalog: wt.Catalog, job: str, to: str, *, drop: bool) -> None:
    """The column a of d.x, all that is there."""
    etl = widetable_spark.etl(spark, catalog.warehouse, job, drop_when_stopped=drop)
    changes, sink = etl.changes("d.x", ["k", "a"]), etl.sink(to, columns=["a"])
    query = start(changes, sink, Path(catalog.warehouse, job))
    assert query.awaitTermination(int(PATIENCE_SECONDS))


def loads(spark: SparkSession, catalog: wt.Catalog) -> DataFrame:
    return spark.readStream.schema(ROW).json(str(Path(catalog.warehouse, "in")))


def bring(catalog: wt.Catalog, key: int) -> None:
    row = f'{{"k": {key}, "a": {key}, "b": {key}}}'
    Path(catalog.warehouse, "in", f"{key}.json").write_text(row)


def until_there(query: StreamingQuery, found: Callable[[], dict[int, int]], key: int) -> None:
    wait_for(lambda: key in found() or not query.isActive)
    assert query.isActive, str(query.exception())


def states(catalog: wt.Catalog) -> dict[str, str]:
    return {job.name: job.state for job in catalog.topology().jobs()}


def waited_for(catalog: wt.Catalog, table: str) -> set[str]:
    return set(catalog.table(table).inspect.barriers()["writer"].to_pylist())


def rows(catalog: wt.Catalog, table: str, column: str) -> dict[int, int]:
    return values(catalog.table(table).scan(), column)


def values(scan: wt.TableScan, column: str) -> dict[int, int]:
    """By key; nulls are left out."""
    found = scan.to_arrow()
    pairs = zip(found["k"].to_pylist(), found[column].to_pylist(), strict=True)
    return {key: value for key, value in pairs if value is not None}


def comes_to(catalog: wt.Catalog, table: str, other: str) -> bool:
    """Whether a table is as far as another one."""
    barriers = {one.table: one.barrier or 0 for one in catalog.topology().tables()}
    return barriers[table] >= barriers[other]


def listeners(spark: SparkSession) -> int:
    return len(spark.streams._jsqm.listListeners())


def test_a_job_that_has_done_all_is_dropped_and_may_come_back(
    jobs: SparkSession, tmp_path: Path
) -> None:
    """Another one of the same session, that does not say so, is waited for."""
    catalog, before = catalog_of(tmp_path, "10 ms"), listeners(jobs)
    source, beside = catalog.writer("d.x", "source"), catalog.writer("d.y", "beside", ["b"])
    put(source, "a", 10)
    put(beside, "b", 10)
    copied(jobs, catalog, "stays", "d.z", drop=False)
    copied(jobs, catalog, "goes", "d.y", drop=True)
    wait_for(lambda: "goes" not in states(catalog))
    assert states(catalog) == dict.fromkeys(("source", "beside", "stays"), "running")
    put(source, "a", 20)
    put(beside, "b", 20)
    with catalog.session(tables=["d.x", "d.y"]) as session:
        assert session.barrier == 20
    with catalog.session(tables=["d.x", "d.z"]) as session:
        assert session.barrier == 10
    assert catalog.topology().downstream("d.x") == ["d.z"]
    put(beside, "b", 30)
    put(source, "a", 40)
    copied(jobs, catalog, "goes", "d.y", drop=False)
    assert states(catalog)["goes"] == "running"
    put(beside, "b", 40)
    assert rows(catalog, "d.y", "a") == {10: 10, 20: 20, 40: 40}
    with catalog.session(tables=["d.x", "d.y"]) as session:
        assert session.barrier == 40
    wait_for(lambda: listeners(jobs) == before)


def test_a_root_that_is_stopped_is_dropped_each_time(jobs: SparkSession, tmp_path: Path) -> None:
    """It says at each tick that nothing is to come: not any more. The other query of the session goes on."""
    catalog, before = catalog_of(tmp_path), listeners(jobs)
    goes = widetable_spark.etl(jobs, tmp_path, "goes", drop_when_stopped=True)
    sink = goes.sink({"d.x": None, "d.y": lambda df: df.select("k", "a")}, {"d.y": ["a"]})
    stays = widetable_spark.etl(jobs, tmp_path, "stays", drop_when_stopped=True)
    beside = start(
        loads(jobs, catalog).select("k", "b"),
        stays.sink("d.y", columns=["b"]),
        tmp_path / "stays",
        all_now=False,
    )
    try:
        for key in (1, 2):
            bring(catalog, key)
            query = start(loads(jobs, catalog), sink, tmp_path / "goes", all_now=False)
            until_there(query, partial(rows, catalog, "d.y", "a"), key)
            assert states(catalog) == {"goes": "running", "stays": "running"}
            query.stop()
            wait_for(lambda: "goes" not in states(catalog))
            assert waited_for(catalog, "d.y") == {"stays"}
            assert waited_for(catalog, "d.x") == set()
            wait_for(partial(comes_to, catalog, "d.y", "d.x"))
            with catalog.session(tables=["d.x", "d.y"]) as session:
                for table in ("d.x", "d.y"):
                    found = values(session.table(table).scan(), "a")
                    assert found == {one: one for one in range(1, key + 1)}
        last = catalog.table("d.x").snapshots()[-1].id
        newest = catalog.session(tables=["d.y"]).barrier or 0
        wait_for(lambda: (catalog.session(tables=["d.y"]).barrier or 0) > newest)
        assert catalog.table("d.x").snapshots()[-1].id == last
        wait_for(lambda: listeners(jobs) == before + 1)
    finally:
        beside.stop()
    wait_for(lambda: states(catalog) == {} and listeners(jobs) == before)


class Fails(Exception):
    """What ends a query."""


def test_a_job_that_an_exception_ends_is_waited_for(jobs: SparkSession, tmp_path: Path) -> None:
    catalog, before = catalog_of(tmp_path), listeners(jobs)
    bring(catalog, 1)
    etl = widetable_spark.etl(jobs, tmp_path, "fails", drop_when_stopped=True)
    sink = etl.sink("d.x")

    def failing(df: DataFrame, batch: int) -> None:
        sink(df, batch)
        raise Fails

    for _ in range(2):
        query = start(loads(jobs, catalog), failing, tmp_path / "c")
        with pytest.raises(StreamingQueryException, match="Fails"):
            query.awaitTermination(int(PATIENCE_SECONDS))
        wait_for(lambda: listeners(jobs) == before)
        assert states(catalog) == {"fails": "running"}
        assert waited_for(catalog, "d.x") == {"fails"}


def test_a_query_that_stops_between_its_tables_stays_until_it_has_finished(
    jobs: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog, before = catalog_of(tmp_path), listeners(jobs)
    arrived = tmp_path / "arrived"
    etl = widetable_spark.etl(jobs, tmp_path, "load", drop_when_stopped=True)

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived.touch()
        time.sleep(PATIENCE_SECONDS)  # Spark ends it
        yield from batches

    def run(make: Callable[[DataFrame], DataFrame] | None) -> StreamingQuery:
        sink = etl.sink({"d.x": None, "d.y": make})
        return start(loads(jobs, catalog), sink, tmp_path / "c")

    bring(catalog, 1)
    query = run(lambda df: df.mapInArrow(held, ROW))
    wait_for(arrived.exists)
    with caplog.at_level(logging.ERROR, "widetable.spark"):
        query.stop()
        wait_for(lambda: listeners(jobs) == before)
    assert "has ended, and its tables wait for it still: start it again" in caplog.text
    assert "d.db/x has 0" in caplog.text
    assert states(catalog) == {"load": "running"}
    assert run(None).awaitTermination(int(PATIENCE_SECONDS))
    wait_for(lambda: states(catalog) == {})
    assert rows(catalog, "d.x", "b") == rows(catalog, "d.y", "b") == {1: 1}


def test_a_query_without_a_batch_is_dropped_where_it_was_followed(
    jobs: SparkSession, tmp_path: Path
) -> None:
    """No tick of the clock comes meanwhile: at its first one a query joins, and speaks for its job."""
    catalog, before = catalog_of(tmp_path, "1 d"), listeners(jobs)
    for is_followed in (False, True):
        etl = widetable_spark.etl(jobs, tmp_path, "idle", drop_when_stopped=True)
        sink = etl.sink("d.x")
        query = start(loads(jobs, catalog), sink, tmp_path / str(is_followed), all_now=False)
        if is_followed:
            sink.follow(query)
            assert states(catalog) == {"idle": "running"}
            etl.sink("d.x")
            query.stop()
            wait_for(lambda: listeners(jobs) == before)
        else:
            query.stop()
        assert states(catalog) == {"idle": "pending"}
    query = start(loads(jobs, catalog), sink, tmp_path / "c", all_now=False)
    sink.follow(query)
    query.stop()
    wait_for(lambda: states(catalog) == {})
    sink = etl.sink("d.x")
    query = start(loads(jobs, catalog), sink, tmp_path / "c")
    assert query.awaitTermination(int(PATIENCE_SECONDS))
    sink.follow(query)
    wait_for(lambda: states(catalog) == {} and listeners(jobs) == before)


DRIVER = """
import sys

from pyspark.sql import SparkSession

import widetable_spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
etl = widetable_spark.etl(spark, sys.argv[1], "load", drop_when_stopped=True)
stream = spark.readStream.schema("k long, a long, b long").json(f"{sys.argv[1]}/in").writeStream
stream = stream.option("checkpointLocation", f"{sys.argv[1]}/c").trigger(availableNow=True)
stream.foreachBatch(etl.sink("d.x")).start().awaitTermination()
spark.stop()
"""


def test_a_driver_that_stops_its_session_ends_when_its_job_is_dropped(
    java_home: str, tmp_path: Path
) -> None:
    assert java_home
    catalog = catalog_of(tmp_path)
    bring(catalog, 1)
    command = [sys.executable, "-c", DRIVER, catalog.warehouse]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    assert states(catalog) == {}
    assert rows(catalog, "d.x", "b") == {1: 1}
