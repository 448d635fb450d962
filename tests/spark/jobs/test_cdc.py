"""A database is copied by tasks of Spark and followed by the driver, beside jobs without Spark, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable_spark
from tests.support.databases.postgres_server import PostgresServer, postgres_server
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable_cdc import Sync

LIMITS = {"chunk-rows": 10, "max-delay": "20 ms"}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture
def shop(server: PostgresServer, tmp_path: Path) -> Iterator[SyncedDatabase]:
    with SyncedDatabase.made(server, tmp_path) as made:
        made.execute(
            "create table t (id int primary key, name text)",
            "insert into t select i, 'n' || i from generate_series(1, 40) as i",
            "analyze t",
        )
        yield made


def ended(query: StreamingQuery) -> None:
    assert query.awaitTermination(int(PATIENCE_SECONDS))
    assert not query.isActive
    assert query.exception() is None


def test_a_query_copies_by_tasks_and_follows(spark: SparkSession, shop: SyncedDatabase) -> None:
    query = widetable_spark.cdc(spark, shop.config(limits=LIMITS))
    assert isinstance(query, StreamingQuery)
    assert query.isActive
    assert query.name == shop.name
    assert query.id in [each.id for each in spark.streams.active]
    query.processAllAvailable()
    assert shop.target() == shop.source()
    tracker = spark.sparkContext.statusTracker()
    assert len(tracker.getJobIdsForGroup(query.runId)) == 2, "four chunks, two at once"
    shop.execute("update t set name = 'x' where id = 1", "delete from t where id = 2")
    query.processAllAvailable()
    assert shop.target() == shop.source()
    query.stop()
    assert shop.folded() == shop.target()
    assert query.exception() is None
    assert query.status["isTriggerActive"] is False
    last = query.lastProgress
    assert last is not None
    assert last.batchId == query.recentProgress[-1].batchId
    metrics = last.observedMetrics[shop.name]
    assert (metrics.rows_copied, metrics.chunks_copied, metrics.changes) == (40, 4, 2)
    assert metrics.server_lsn >= metrics.confirmed_lsn > 0
    (table,) = metrics.tables
    assert (table["relation"], table["status"]) == ("public.t", "streaming")
    assert f'"rows_copied": {metrics.rows_copied}' in last.prettyJson


def test_a_job_goes_on_with_and_without_spark(spark: SparkSession, shop: SyncedDatabase) -> None:
    """One slot and one state: whoever begins has all that the others have done."""
    config = shop.config(limits=LIMITS)
    copying = widetable_spark.cdc(spark, config, until="copied")
    ended(copying)
    progress = copying.lastProgress
    assert progress is not None
    assert progress.observedMetrics[shop.name].rows_copied == 40
    shop.execute("insert into t values (100, 'a')")
    assert Sync(config).run("caught-up").tables[0].status.value == "streaming"
    before = len(shop.table().snapshots())
    ended(widetable_spark.cdc(spark, config, until="caught-up"))
    assert len(shop.table().snapshots()) == before, "a job that begins has all of it"
    shop.execute("update t set id = 200 where id = 100")
    ended(widetable_spark.cdc(spark, config, until="caught-up"))
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_the_slot_is_free_when_somebody_has_stopped_the_query(
    spark: SparkSession, shop: SyncedDatabase
) -> None:
    query = widetable_spark.cdc(spark, shop.config(limits=LIMITS))
    active = spark.streams.get(query.id)
    assert active is not None
    active.stop()
    assert query.awaitTermination(int(PATIENCE_SECONDS))
    Sync(shop.config()).prepare()


def test_an_error_of_the_job_ends_the_query(spark: SparkSession, shop: SyncedDatabase) -> None:
    shop.execute("create table n (id int primary key, v numeric(5, 2))")
    query = widetable_spark.cdc(spark, shop.config(limits=LIMITS, rules={"on-error": "stop"}))
    query.processAllAvailable()
    shop.execute("insert into n values (1, 1.5)", "insert into n values (2, 'NaN')")
    with pytest.raises(StreamingQueryException, match="1 row that cannot be applied"):
        query.processAllAvailable()
    with pytest.raises(StreamingQueryException, match="on-error = 'park'"):
        query.awaitTermination(int(PATIENCE_SECONDS))
    status = Sync(shop.config()).run("caught-up")
    assert status.errors == 1
    assert [row["id"] for row in shop.target("n")] == [1]


@pytest.mark.slow
def test_killed_workers_and_drivers_leave_each_row_once(shop: SyncedDatabase) -> None:
    """The first worker dies when its chunk is written, the driver when the third one is committed."""
    marks = shop.warehouse.parent / "marks"
    program = [sys.executable, "-m", "tests.spark.jobs.killed_cdc", shop.name, shop.dsn]
    killed = subprocess.run(
        [*program, str(shop.warehouse), str(marks)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert marks.read_text().splitlines() == ["worker", "committed", "committed", "committed"]
    assert "Lost task" in killed.stderr, "Spark noticed that a worker died"
    assert "geheim" not in killed.stdout + killed.stderr
    (table,) = Sync(shop.config()).status().tables
    # The state of a chunk is written behind its commit.
    assert (table.chunks, table.chunks_done) == (4, 2)
    shop.execute("delete from t where id in (1, 40)", "insert into t values (0, 'new')")
    shop.run(limits=LIMITS)
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()
    report = shop.table().audit(start=0)
    assert report.ok, report.findings
