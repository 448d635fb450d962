"""What derived jobs of Spark sustain, and how fresh what sessions see is.

Jobs: 1, 5 and 20 queries over one table whose writer completes a barrier every 100 ms, each keeps a table of sums; how
many barriers a second each of them commits, the slowest one, for so many seconds. Freshness: one job, a barrier a
second by the clock; the age of the barrier that a session over the source and the job's table sees, against that of a
session over the source alone, asked by turns every 50 ms. Catching up: one job that was down for an hour of barriers,
of ten rows each; it need not take each of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from benchmarks.harness import Row, scratch
from benchmarks.spark_session import session

_JOBS: Final = (1, 5, 20)
_SECONDS: Final = 30.0
_BARRIERS_OF_AN_HOUR: Final = 3_600
_SOURCE: Final = "d.x"


def run() -> list[Row]:
    spark = session()
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        with scratch("derived") as work:
            found = [_sustained(spark, work / f"jobs-{jobs}", jobs) for jobs in _JOBS]
            found.append(_freshness(spark, work / "freshness"))
            return [*found, _catching_up(spark, work / "catching_up")]
    finally:
        spark.stop()


def _source(warehouse: Path, interval_millis: int) -> wt.Table:
    return wt.Catalog(warehouse).create_table(
        _SOURCE,
        {"id": "BIGINT", "v": "BIGINT"},
        primary_key=["id"],
        options=_options(interval_millis),
    )


def _options(interval_millis: int) -> dict[str, str]:
    return {"bucket": "1", "widetable.barrier-interval": f"{interval_millis} ms"}


def _job(spark: SparkSession, warehouse: Path, name: str, interval_millis: int) -> StreamingQuery:
    """New, or as it was left."""
    if f"d.{name}" not in wt.Catalog(warehouse).list_tables("d"):
        wt.Catalog(warehouse).create_table(
            f"d.{name}",
            {"id": "BIGINT", "s": "BIGINT"},
            primary_key=["id"],
            options=_options(interval_millis),
        )
    etl = widetable_spark.etl(spark, warehouse, name)
    changes = etl.changes(_SOURCE).selectExpr("id % 10 AS id", "v", "_row_kind")
    summed = changes.groupBy("id").agg(widetable_spark.signed_sum("v").alias("s"))
    writer = summed.writeStream.outputMode("update").foreachBatch(etl.sink(f"d.{name}"))
    return writer.option("checkpointLocation", str(warehouse / "checkpoints" / name)).start()


@contextmanager
def _written(warehouse: Path, interval_millis: int) -> Iterator[None]:
    """Ten new rows, and a barrier complete, at each tick of the clock."""
    writer, stop = wt.Catalog(warehouse).writer(_SOURCE, "w"), threading.Event()

    def write() -> None:
        at = 0
        while not stop.wait(interval_millis / 1000 - time.time() % (interval_millis / 1000)):
            writer.write({"id": [*range(at, at + 10)], "v": [1] * 10}, complete=True)
            at += 10

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _sustained(spark: SparkSession, warehouse: Path, jobs: int) -> Row:
    _source(warehouse, 100)
    names = [f"j{number}" for number in range(jobs)]
    with _written(warehouse, 100):
        queries: list[StreamingQuery] = []
        try:
            for name in names:  # one after the other: each starts processes
                queries.append(_job(spark, warehouse, name, 100))
                while not _committed(warehouse, name):
                    _check(queries)
                    time.sleep(0.2)
            before = [_committed(warehouse, name) for name in names]
            time.sleep(_SECONDS)
            _check(queries)
            after = [_committed(warehouse, name) for name in names]
        finally:
            for query in queries:
                query.stop()
    rates = [(b - a) / _SECONDS for a, b in zip(before, after, strict=True)]
    return Row(
        f"{jobs} derived jobs, barriers/s of each",
        f"median {float(np.median(rates)):.2f}, slowest {min(rates):.2f}, all {sum(rates):.2f}",
        details={"rates": rates},
    )


def _committed(warehouse: Path, name: str) -> int:
    """Barriers that a job has committed."""
    kept = wt.Catalog(warehouse).table(f"d.{name}").snapshots()
    return sum("widetable.barrier-begin" in one.properties for one in kept)


def _check(queries: list[StreamingQuery]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


def _freshness(spark: SparkSession, warehouse: Path) -> Row:
    _source(warehouse, 1000)
    catalog = wt.Catalog(warehouse)
    ages: dict[bool, list[float]] = {True: [], False: []}
    with _written(warehouse, 1000):
        query = _job(spark, warehouse, "j", 1000)
        try:
            while not _committed(warehouse, "j"):
                _check([query])
                time.sleep(0.2)
            until = time.monotonic() + _SECONDS
            while time.monotonic() < until:
                for is_both in (True, False):
                    with catalog.session([_SOURCE, *(["d.j"] * is_both)]) as opened:
                        ages[is_both].append(time.time() - (opened.barrier or 0) / 1000)
                time.sleep(0.05)
        finally:
            query.stop()
    both, alone = (float(np.median(ages[side])) for side in (True, False))
    return Row(
        "age of what a session sees, source and derived table",
        f"{both:.2f} s",
        f"{alone:.2f} s, the source alone",
        both / alone,
        "<= 2x",
        both / alone <= 2,
        {"p99": [float(np.percentile(ages[side], 99)) for side in (True, False)]},
    )


def _catching_up(spark: SparkSession, warehouse: Path) -> Row:
    _source(warehouse, 1000)
    writer = wt.Catalog(warehouse).writer(_SOURCE, "w")
    first = int(time.time()) - _BARRIERS_OF_AN_HOUR

    def write(second: int) -> None:
        keys = [*range(10 * second, 10 * second + 10)]
        writer.write({"id": keys, "v": [1] * 10}, barrier=1000 * (first + second), complete=True)

    write(0)
    _seconds_to(spark, warehouse, first)
    for second in range(1, _BARRIERS_OF_AN_HOUR + 1):
        write(second)
    before = _committed(warehouse, "j")
    seconds = _seconds_to(spark, warehouse, first + _BARRIERS_OF_AN_HOUR)
    taken = _committed(warehouse, "j") - before
    return Row(
        f"a job catches up with {_BARRIERS_OF_AN_HOUR:,} barriers, its start included",
        f"{seconds:.1f} s, {taken} barriers",
        details={"seconds": seconds, "taken": taken},
    )


def _seconds_to(spark: SparkSession, warehouse: Path, second: int) -> float:
    """Until the job, started now, has what its source has as of that second. It is stopped then."""
    began = time.monotonic()
    query = _job(spark, warehouse, "j", 1000)
    try:
        while not _is_at(warehouse, 1000 * second):
            _check([query])
            time.sleep(0.05)
        return time.monotonic() - began
    finally:
        query.stop()


def _is_at(warehouse: Path, barrier: int) -> bool:
    try:
        with wt.Catalog(warehouse).session([_SOURCE, "d.j"]) as opened:
            return opened.barrier == barrier
    except wt.NotFoundError:
        return False
