"""`maintain` on executors: the changelog of tables that nobody else compacts, beside other maintainers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from tests.spark.conftest import GROUPS, WIDE
from tests.support.faults import patience
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.connector import Upkeep, compaction_by
from widetable_spark.jobs.maintaining import _Executors

OPTIONS = {
    **GROUPS,
    "bucket": "3",
    "changelog-producer": "lookup",
    "write-only": "true",
    "widetable.fsync": "false",
}


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    return wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.wide", WIDE, primary_key=["k"], options=OPTIONS
    )


def a_side(number: int, keys: int = 20) -> pa.Table:
    schema = pa.schema([WIDE.field(name) for name in ("k", "a_seq", "a")])
    columns = {"k": range(keys), "a_seq": [number] * keys, "a": [f"a{number}"] * keys}
    return pa.table({name: list(values) for name, values in columns.items()}, schema)


@contextlib.contextmanager
def maintained(
    spark: SparkSession, table: wt.Table, **arguments: object
) -> Iterator[StreamingQuery]:
    query = widetable_spark.maintain(spark, table.path, trigger_millis=50, **arguments)  # type: ignore[arg-type]
    try:
        yield query
    finally:
        query.stop()


def wait_for(condition: Callable[[], bool], query: StreamingQuery) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def waiting_files(table: wt.Table) -> int:
    return table.inspect().backlog.files


def test_a_query_makes_the_changelog_and_gives_the_lease_back(
    spark: SparkSession, table: wt.Table, tmp_path: Path
) -> None:
    with maintained(spark, table, checkpoint=str(tmp_path / "cp"), name="upkeep") as query:
        assert query.name == "upkeep"
        for number in range(2):
            table.write(a_side(number))
            wait_for(lambda: waiting_files(table) == 0, query)
        assert table.inspect().warnings == ()
        assert table.inspect().lease_holder is not None
    assert (tmp_path / "cp" / "offsets").exists()
    kinds = [s.commit_kind for s in table.snapshots()]
    assert kinds == ["APPEND", "COMPACT"] * 2
    assert table.changes(2, 4).num_rows == 40
    report = table.audit()
    assert report.ok, report.findings
    patience.wait_for(lambda: table.inspect().lease_holder is None)


def test_rows_that_are_too_old_go_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    expiry = {"record-level.expire-time": "1 d", "record-level.time-field": "a_seq"}
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.wide", WIDE, primary_key=["k"], options={**OPTIONS, **expiry}
    )
    table.write(a_side(int(time.time()), keys=20))
    table.write(a_side(1, keys=30).slice(20))
    with maintained(spark, table) as query:
        wait_for(lambda: table.scan().count() == 20, query)
        wait_for(lambda: waiting_files(table) == 0, query)
    assert table.audit().ok


def test_two_queries_and_a_plain_maintainer_leave_one_right_changelog(
    spark: SparkSession, table: wt.Table
) -> None:
    stop = threading.Event()
    with (
        maintained(spark, table) as first,
        maintained(spark, table) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        # With `once` it does not wait for the lease: it takes what the queries are at.
        def compact_always() -> None:
            while not stop.is_set():
                with contextlib.suppress(wt.ConflictError):
                    table.maintain(once=True)
                stop.wait(0.1)

        plain = pool.submit(compact_always)
        try:
            for number in range(6):
                table.write(a_side(number))
                time.sleep(0.2)
            wait_for(lambda: waiting_files(table) == 0, first)
        finally:
            stop.set()
        plain.result(PATIENCE_SECONDS)
        assert second.isActive
    report = table.audit()
    assert report.ok, report.findings
    assert report.checks["chain"] >= 20


def test_a_second_query_takes_over(spark: SparkSession, table: wt.Table) -> None:
    with maintained(spark, table) as second:
        with maintained(spark, table) as first:
            table.write(a_side(0))
            wait_for(lambda: waiting_files(table) == 0, first)
        table.write(a_side(1))
        wait_for(lambda: waiting_files(table) == 0, second)
    assert table.audit().ok


def test_a_damaged_bucket_costs_the_others_nothing(spark: SparkSession, table: wt.Table) -> None:
    table.write(a_side(0))
    damaged = next(Path(table.path, "bucket-1").glob("data-*"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])

    def waiting() -> set[int]:
        entries = table._committer.live_files.live_entries(table.snapshots()[-1])
        return {entry.bucket for entry in entries if entry.file.level == 0}

    query = widetable_spark.maintain(spark, table.path, trigger_millis=50)
    try:
        wait_for(lambda: waiting() == {1}, query)
        damaged.write_bytes(whole)
        table.write(a_side(1))
        wait_for(lambda: waiting() == set(), query)
    finally:
        query.stop()


class OneByOne:
    """What `maintain` asks of a SparkContext, done here. ran: of each job, the slots that it ran."""

    def __init__(self) -> None:
        self.ran: list[list[int]] = []

    def parallelize(self, slots: range, partitions: int) -> Any:
        assert len(slots) == partitions > 0
        return SimpleNamespace(persist=lambda: slots, unpersist=lambda: None)

    def broadcast(self, value: object) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: None)

    def runJob(
        self, pinned: range, function: Callable[[Iterator[int]], Iterator[Any]], slots: list[int]
    ) -> list[Any]:
        self.ran.append(slots)
        return [outcome for slot in slots for outcome in function(iter([pinned[slot]]))]


DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "1"}


@pytest.mark.parametrize(
    ("options", "keys"), [({"bucket": "3"}, ["k"]), ({"bucket": "1"}, ["k", "a"]), (DYNAMIC, ["k"])]
)
def test_buckets_of_all_partitions_are_compacted_at_once(
    tmp_path: Path, options: dict[str, str], keys: list[str]
) -> None:
    schema = {"k": pa.int64(), "a": pa.string()}
    options = {"changelog-producer": "lookup", "write-only": "true", **options}
    table = wt.Catalog(str(tmp_path / "wh")).create_table(
        "db.t", schema, primary_key=keys, partition_by=keys[1:], options=options
    )
    for _ in range(2):
        table.write(
            pa.table({"k": range(8), "a": [f"a{i % 3}" for i in range(8)]}, pa.schema(schema))
        )
    buckets = {read.split.bucket for read in table.scan().split_reads()}
    assert len(buckets) >= 3
    context: Any = OneByOne()
    executors = _Executors(context, table.path)
    maintainer = table.maintainer(Upkeep(1000, None, False, None), compaction_by(executors.run))
    assert maintainer.round().failures == 0
    maintainer.close()
    assert waiting_files(table) == 0
    assert [len(slots) for slots in context.ran] == [len(buckets)]


def test_a_table_that_is_not_there_is_reported_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(wt.NotFoundError):
        widetable_spark.maintain(spark, str(tmp_path / "nothing"))
    with pytest.raises(wt.InvalidError, match="trigger_millis"):
        widetable_spark.maintain(spark, str(tmp_path), trigger_millis=-1)
