"""A database is copied by tasks of Spark and followed by the driver, beside jobs without Spark, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from tests.support.databases.clock_targets import (
    GROUPS,
    INTERVAL,
    WIDE,
    barriers_of,
    by_clock,
    ids_at,
)
from tests.support.databases.module_server import server
from tests.support.databases.postgres_server import PostgresServer
from tests.support.databases.synced_database import SyncedDatabase
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable_cdc import Sync

__all__ = ["server"]  # a fixture

LIMITS = {"chunk-rows": 10, "max-delay": "20 ms"}


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


def test_a_bad_row_in_a_task_is_named(spark: SparkSession, shop: SyncedDatabase) -> None:
    """By its table, its key and its column, whether it ends the query or is set aside."""
    shop.execute(
        "drop table t",
        "create table n (id int, at int, v numeric(5, 2), primary key (id, at))",
        "insert into n values (1, 7, 1.5), (2, 8, 'NaN'), (3, 9, 2.5)",
    )
    stopping = shop.config(limits=LIMITS, rules={"on-error": "stop"})
    query = widetable_spark.cdc(spark, stopping, until="copied")
    with pytest.raises(StreamingQueryException) as failure:
        query.awaitTermination(int(PATIENCE_SECONDS))
    for word in ("table public.n", '{"id": "2", "at": "8"}', "column 'v'"):
        assert word in str(failure.value)
    ended(widetable_spark.cdc(spark, shop.config(limits=LIMITS), until="copied"))
    assert [row["id"] for row in shop.target("n")] == [1, 3]
    (bad,) = shop.table("__cdc_errors").scan().to_arrow().to_pylist()
    assert (bad["relation"], bad["key"]) == ("public.n", '{"id": "2", "at": "8"}')
    assert bad["reason"].startswith("column 'v': ")


def test_a_query_that_is_stopped_within_a_chunk_goes_on_later(
    spark: SparkSession, shop: SyncedDatabase
) -> None:
    """Its tasks wait for the table, which another session has locked meanwhile."""
    config = shop.config(limits=LIMITS)
    held = (
        "select count(*) > 0 from pg_locks where mode = 'AccessShareLock' and not granted "
        "and relation = 't'::regclass"
    )
    query = widetable_spark.cdc(spark, config)
    with psycopg.connect(shop.dsn) as other:
        other.execute("lock table t in access exclusive mode")
        wait_for(lambda: shop.execute(held) == [(True,)])
        query.stop()
        assert query.exception() is None
    (table,) = Sync(config).status().tables
    assert table.chunks_done < table.chunks == 4
    shop.execute("delete from t where id in (1, 40)", "update t set id = 50 where id = 20")
    ended(widetable_spark.cdc(spark, config, until="caught-up"))
    assert shop.target() == shop.source()
    assert shop.folded() == shop.target()


def test_targets_under_barriers_of_the_clock_are_copied_by_tasks(
    spark: SparkSession, shop: SyncedDatabase
) -> None:
    """A mirror, and a group of a wide table beside clicks, which have come to no barrier meanwhile."""
    catalog = wt.Catalog(str(shop.warehouse))
    catalog.create_table("shop.wide", WIDE, primary_key=["id"], options=INTERVAL | GROUPS)
    shop.execute(
        "create table crm (id int primary key, name text)",
        "insert into crm select i, 'c' || i from generate_series(1, 20) i",
        "analyze crm",
    )
    group = {"columns": ["name"], "sequence": "crm_lsn"}
    entries = {"public.crm": {"target": "wide", "group": group}}
    config = by_clock(shop, table=entries, limits=LIMITS | {"chunk-rows": 20})
    clicks = catalog.writer("shop.wide", "clicks", ["clicks", "click_seq"])
    clicks.write([{"id": 1, "clicks": 5, "click_seq": 1}], barrier=200)
    query = widetable_spark.cdc(spark, config)
    query.processAllAvailable()
    shop.transaction("insert into t values (41, 'x')", "insert into crm values (41, 'x')")
    query.processAllAvailable()
    query.stop()
    shop.transaction("delete from t where id = 1", "delete from crm where id = 1")
    Sync(config).run("caught-up")
    newest = max(barriers_of(shop.table()) & barriers_of(shop.table("wide")))
    clicks.complete(newest)
    for barrier in sorted(barriers_of(shop.table()) & barriers_of(shop.table("wide"))):
        ours, others = ids_at(shop, ["t", "wide"], barrier)
        assert (41 in ours) == (41 in others)
    assert ids_at(shop, ["t", "wide"], newest) == [
        list(range(2, 42)),
        [*range(1, 21), 41],  # the row of the clicks stays
    ]
    assert shop.target() == shop.source()


def test_a_database_that_debezium_reads_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    config = {
        "name": "shop",
        "tables": ["shop.*"],
        "source": {
            "kind": "debezium",
            "connector": "mariadb",
            "properties": {"database.hostname": "db"},
        },
        "target": {"warehouse": str(tmp_path / "warehouse"), "database": "shop"},
    }
    with pytest.raises(wt.UnsupportedError, match=r"'mariadb'.*`widetable cdc run`"):
        widetable_spark.cdc(spark, config)
    assert not (tmp_path / "warehouse").exists()


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
