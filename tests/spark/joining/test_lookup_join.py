"""Lookup joins in Spark: the acceptance cases, by their numbers."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import widetable as wt
from tests.spark.joining.joined_query import JOINED, LEFT, Query, drop, fail_once, pins, put, tuples
from tests.support.faults.patience import PATIENCE_SECONDS, wait_for
from widetable.storage.local import LocalFileIO
from widetable_spark import lookup_join

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def wait_for_more(folder: Path, snapshots: int) -> None:
    wait_for(lambda: len(list(folder.glob("snapshot-*"))) > snapshots)


# Case 1


@pytest.mark.parametrize("how", ["left", "inner"])
def test_case_1_rows_with_their_keys(spark: SparkSession, dim: wt.Table, how: str) -> None:
    left = spark.createDataFrame(LEFT, "id long, k long")
    joined = lookup_join(left, dim, ["k"], how=how)
    assert joined.schema.simpleString() == "struct<id:bigint,k:bigint,name:string,city:string>"
    assert tuples(joined) == [row for row in JOINED if how == "left" or row[2]]
    ordered = lookup_join(left.coalesce(1), dim.path, {"k": "k"}, how=how).collect()
    assert [row.id for row in ordered] == (
        [10, 11, 12, 13, 14, 15] if how == "left" else [10, 11, 15]
    )


def test_case_1_in_a_stream(spark: SparkSession, dim: wt.Table, tmp_path: Path) -> None:
    query = Query(spark, tmp_path, lambda left: lookup_join(left, dim, ["k"]))
    drop(query.source, 0, *LEFT)
    query.run()
    assert query.got == [(0, JOINED)]


# Case 2


def test_case_2_a_replay_joins_what_the_batch_joined_before(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, lambda left: lookup_join(left, dim, ["k"]))
    query.fails = fail_once(0)
    drop(query.source, 0, (10, 1))
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run()
    put(dim, (1, "Ann", "Bergen"))
    drop(query.source, 1, (20, 1))
    query.run()
    oslo, bergen = [(10, 1, "Ann", "Oslo")], [(20, 1, "Ann", "Bergen")]
    assert query.got == [(0, oslo), (0, oslo), (1, bergen)]


def test_case_2_when_the_jvm_is_killed(java_home: str, dim: wt.Table, tmp_path: Path) -> None:
    assert java_home
    source, out = tmp_path / "source", tmp_path / "out"
    drop(source, 0, (10, 1))
    program = [sys.executable, "-m", "tests.spark.joining.killed_join"]
    program += [dim.path, str(source), str(tmp_path / "checkpoint"), str(out)]
    died = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == -9, died.stderr[-2000:]
    put(dim, (1, "Ann", "Bergen"))
    drop(source, 1, (20, 1))
    went = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert went.returncode == 0, went.stderr[-2000:]
    got = [json.loads(line) for line in out.read_text().splitlines()]
    oslo, bergen = [[10, 1, "Ann", "Oslo"]], [[20, 1, "Ann", "Bergen"]]
    assert got == [[0, oslo], [0, oslo], [1, bergen]]


# Case 3


def test_case_3_all_tasks_of_a_batch_join_one_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """Every task waits until the table has changed since its rows came, so what is newest differs among them."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.versions", {"k": pa.int64(), "city": pa.string()}, primary_key=["k"]
    )
    put(table, *((k, "v0") for k in range(100)))

    def later(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        folder = Path(table.path) / "snapshot"
        for batch in batches:
            wait_for_more(folder, len(list(folder.glob("snapshot-*"))))
            yield batch

    def join(left: DataFrame) -> DataFrame:
        rows = left.select("id", (sf.col("k") % 100).alias("k")).repartition(8)
        return lookup_join(rows.mapInArrow(later, rows.schema), table, ["k"])

    query = Query(spark, tmp_path, join)
    for number in range(3):
        drop(query.source, number, *((id, id) for id in range(8_000)))
    stop = threading.Event()

    def write() -> None:
        version = 0
        while not stop.is_set():
            version += 1
            put(table, *((k, f"v{version}") for k in range(100)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        query.run()
    finally:
        stop.set()
        writer.join(PATIENCE_SECONDS)
    versions = [{row[2] for row in rows} for _, rows in query.got]
    assert [len(rows) for _, rows in query.got] == [8_000] * 3
    assert [len(found) for found in versions] == [1, 1, 1]
    assert len(set.union(*versions)) > 1


# Case 4


def test_case_4_the_next_batch_sees_what_was_committed(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path, lambda left: lookup_join(left, dim, ["k"], ["city"]))
    query.fails = lambda batch_id: put(dim, (2, "Bob", "Milan")) if batch_id == 0 else None
    drop(query.source, 0, (10, 2))
    drop(query.source, 1, (20, 2))
    query.run()
    assert query.got == [(0, [(10, 2, "Rome")]), (1, [(20, 2, "Milan")])]


def test_case_4_a_static_side_of_spark_stays_as_it_was(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    """The claim for which lookup_join is there. Spark 4.0 plans it anew for each batch, and reads all of it."""
    static = spark.read.format("widetable").load(dim.path).select("k", "city")
    query = Query(
        spark, tmp_path, lambda left: left.join(static, "k", "left").select("id", "k", "city")
    )
    query.fails = lambda batch_id: put(dim, (2, "Bob", "Milan")) if batch_id == 0 else None
    drop(query.source, 0, (10, 2))
    drop(query.source, 1, (20, 2))
    query.run()
    city = "Milan" if spark.version.startswith("4.0") else "Rome"
    assert query.got == [(0, [(10, 2, "Rome")]), (1, [(20, 2, city)])]


# Case 5


def test_case_5_expiry_leaves_what_a_batch_may_need_again(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    def expire() -> tuple[int, ...]:
        return dim.expire_snapshots(1, 1, 0).ids

    query = Query(spark, tmp_path, lambda left: lookup_join(left, dim, ["k"]))
    pinned = dim.snapshots()[-1].id

    def change_and_fail(batch_id: int) -> None:
        for city in ("Bergen", "Narvik"):
            put(dim, (1, "Ann", city))
        dim.compact()
        assert pinned not in expire()
        raise OSError("the sink hangs no more")

    query.fails = change_and_fail
    drop(query.source, 0, (10, 1))
    with pytest.raises(StreamingQueryException, match="hangs no more"):
        query.run()
    assert dim.snapshots()[0].id == pinned
    query.fails = lambda batch_id: None
    for number in (1, 2):
        drop(query.source, number, (10 + number, 1))
    query.run()
    assert query.got[1] == (0, [(10, 1, "Ann", "Oslo")])
    assert [name[-2:] for name in pins(dim)] == ["-1", "-2"]
    assert pinned in expire()


# Case 6


def test_case_6_names_that_clash_are_refused_at_the_call(
    spark: SparkSession, dim: wt.Table
) -> None:
    left = spark.createDataFrame([(10, 1, "x")], "id long, k long, city string")
    with pytest.raises(wt.InvalidError, match=r"'city'.*prefix="):
        lookup_join(left, dim, ["k"])
    joined = lookup_join(left.drop("city"), dim, ["k"], prefix="d_")
    assert joined.columns == ["id", "k", "d_name", "d_city"]
    with pytest.raises(wt.InvalidError, match=r"'city'.*'CITY'.*prefix="):
        lookup_join(left.withColumnRenamed("city", "CITY"), dim, ["k"])


# Case 7


def test_case_7_types_become_the_keys_as_writes_take_them(
    spark: SparkSession, dim: wt.Table
) -> None:
    left = spark.createDataFrame([(10, 1)], "id long, k int")
    assert tuples(lookup_join(left, dim, ["k"])) == [(10, 1, "Ann", "Oslo")]
    texts = spark.createDataFrame([(10, "1")], "id long, k string")
    with pytest.raises(wt.InvalidError, match=r"'k'.*string.*BIGINT"):
        lookup_join(texts, dim, ["k"])


# Case 8


def test_case_8_the_newest_partition(spark: SparkSession, tmp_path: Path) -> None:
    fields = {"dt": pa.date32(), "k": pa.int64(), "v": pa.string()}
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.days", fields, primary_key=["dt", "k"], partition_by=["dt"]
    )
    put(table, (dt.date(2025, 1, 1), 1, "a"), (dt.date(2025, 1, 2), 1, "b"))
    query = Query(
        spark, tmp_path, lambda left: lookup_join(left, table, ["k"], partitions="max_pt()")
    )
    query.fails = lambda batch_id: put(table, (dt.date(2025, 1, 3), 2, "c"))
    drop(query.source, 0, (10, 1))
    drop(query.source, 1, (11, 1), (12, 2))
    query.run()
    assert query.got == [(0, [(10, 1, "b")]), (1, [(11, 1, None), (12, 2, "c")])]


# Case 10


@pytest.mark.parametrize("name", ["_row_kind", "_ROW_KIND"])
def test_case_10_rows_that_retract(spark: SparkSession, dim: wt.Table, name: str) -> None:
    """Spark's names are the same in any case."""
    left = spark.createDataFrame([("-D", 10, 1), ("+I", 11, 1)], f"{name} string, id long, k long")
    with pytest.raises(wt.InvalidError, match=rf"{name}.*key-only"):
        lookup_join(left, dim, ["k"])
    for how in ("left", "inner"):
        joined = lookup_join(left, dim, ["k"], how=how, retractions="key-only")
        assert tuples(joined) == [("+I", 11, 1, "Ann", "Oslo"), ("-D", 10, 1, None, None)]


# Case 12


class LoggingFileIO(LocalFileIO):
    """Notes in a file which data files are opened: also those of workers are seen."""

    def __init__(self, log: Path) -> None:
        super().__init__(fsync=False)
        self._log = log

    def open_input(self, path: str) -> pa.NativeFile:
        if Path(path).name.startswith("data-"):
            with self._log.open("a") as file:
                file.write(f"{os.getpid()} {path}\n")
        return super().open_input(path)


def test_case_12_new_workers_find_what_others_have_cached(
    spark: SparkSession, dim: wt.Table, tmp_path: Path
) -> None:
    dim.alter_options({"widetable.lookup-strategy": "lookup"})
    dim.compact(full=True)
    log = tmp_path / "log"
    logged = wt.Table.open(dim.path, file_io=LoggingFileIO(log))
    query = Query(spark, tmp_path, lambda left: lookup_join(left, logged, ["k"]))
    drop(query.source, 0, *LEFT)
    query.run()
    opened = log.read_text()
    assert opened, "nobody has read it before"
    before = workers()
    for worker in before:
        worker.kill()
        worker.wait()
    drop(query.source, 1, *LEFT)
    query.run()
    assert query.got == [(0, JOINED), (1, JOINED)]
    assert not {worker.pid for worker in workers()} & {worker.pid for worker in before}
    assert log.read_text() == opened


def workers() -> list[psutil.Process]:
    """The Python workers of this session, which its daemon forks."""
    processes = psutil.Process().children(recursive=True)
    processes = [p for p in processes if p.status() != psutil.STATUS_ZOMBIE]
    daemons = {p.pid for p in processes if "pyspark.daemon" in p.cmdline()}
    return [p for p in processes if p.ppid() in daemons]
