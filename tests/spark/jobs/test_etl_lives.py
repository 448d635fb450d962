"""Jobs of Spark whose tables, sources or names are not what they were, or are not there yet."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import widetable as wt
import widetable_spark
from tests.support.faults.patience import wait_for
from widetable.errors import InvalidError


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[SparkSession]:
    key = "spark.sql.streaming.noDataMicroBatches.enabled"
    before = spark.conf.get(key)
    spark.conf.set(key, "false")
    yield spark
    spark.conf.set(key, before or "true")


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    catalog = wt.Catalog(tmp_path)
    for name in "xyz":
        make(catalog, name)
    return catalog


def make(catalog: wt.Catalog, name: str) -> wt.Table:
    return catalog.create_table(
        f"d.{name}",
        {"k": "BIGINT", "v": "BIGINT"},
        primary_key=["k"],
        options={"bucket": "1", "widetable.barrier-interval": "10 ms"},
    )


def put(writer: wt.BarrierWriter, key: int, barrier: int) -> None:
    writer.write({"k": [key], "v": [key]}, barrier=barrier, complete=True)


def copy(spark: SparkSession, catalog: wt.Catalog, to: Any, checkpoint: str) -> str:
    """Of d.x, all that is there; what is wrong, if anything is."""
    etl = widetable_spark.etl(spark, catalog.warehouse, "copy")
    changes = etl.changes("d.x", ["k", "v"])
    return run(changes, etl.sink(to), Path(catalog.warehouse, checkpoint))


def run(rows: Any, sink: Any, checkpoint: Path, mode: str = "append") -> str:
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = query.outputMode(mode).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    except StreamingQueryException as error:
        return str(error)
    return ""


def keys(catalog: wt.Catalog, name: str) -> list[int]:
    return sorted(catalog.table(f"d.{name}").scan().to_arrow()["k"].to_pylist())


def test_a_job_may_start_before_its_source_has_a_barrier(
    jobs: SparkSession, catalog: wt.Catalog
) -> None:
    """Spark runs a first batch all the same; one more of a new checkpoint takes the job over."""
    assert copy(jobs, catalog, "d.z", "a") == ""
    writer = catalog.writer("d.x", "w")
    assert copy(jobs, catalog, "d.z", "a") == ""
    put(writer, 1, 10)
    assert copy(jobs, catalog, "d.z", "a") == ""
    assert keys(catalog, "z") == [1]
    put(writer, 2, 20)
    assert copy(jobs, catalog, "d.z", "a") == ""
    assert catalog.table("d.z").scan(barrier=20).count() == 2


def test_a_job_that_writes_into_another_table_begins_there_anew(
    jobs: SparkSession, catalog: wt.Catalog
) -> None:
    writer = catalog.writer("d.x", "w")
    put(writer, 1, 10)
    assert copy(jobs, catalog, "d.z", "a") == ""
    put(writer, 2, 20)
    assert copy(jobs, catalog, "d.y", "b") == ""
    assert keys(catalog, "y") == [1, 2]
    put(writer, 3, 30)
    make(catalog, "z2")
    assert "has no earlier ones" in copy(jobs, catalog, {"d.y": None, "d.z2": None}, "b")
    assert keys(catalog, "z2") == []


def total(spark: SparkSession, catalog: wt.Catalog, checkpoint: str, stateful: bool) -> str:
    """Sums of d.x by key into d.z, or what came."""
    etl = widetable_spark.etl(spark, catalog.warehouse, "total")
    changes = etl.changes("d.x", ["k", "v"])
    if stateful:
        changes = changes.groupBy("k").agg(widetable_spark.signed_sum("v").alias("v"))
    else:
        changes = changes.where("v > 0")
    return run(changes, etl.sink("d.z"), Path(catalog.warehouse, checkpoint), "update")


@pytest.mark.parametrize("stateful", [True, False])
def test_a_job_with_state_does_not_go_on_without_it(
    jobs: SparkSession, catalog: wt.Catalog, stateful: bool
) -> None:
    writer = catalog.writer("d.x", "w")
    put(writer, 1, 10)
    assert total(jobs, catalog, "a", stateful) == ""
    put(writer, 2, 20)
    assert total(jobs, catalog, "a", stateful) == "", "with its checkpoint it goes on"
    put(writer, 3, 30)
    said = total(jobs, catalog, "b", stateful)
    if stateful:
        assert "whose state lacks the records up to barrier 20" in said
        assert "Start the job with that checkpoint" in said
        assert keys(catalog, "z") == [1, 2]
        assert total(jobs, catalog, "a", stateful) == "", "the refused query took nothing over"
    else:
        assert said == ""
    assert keys(catalog, "z") == [1, 2, 3]


def test_views_have_the_columns_of_their_barrier(jobs: SparkSession, catalog: wt.Catalog) -> None:
    put(catalog.writer("d.x", "w"), 1, 10)
    catalog.alter_table("d.x", rename_columns={"v": "w"}, add_columns=[pa.field("u", pa.int64())])
    with widetable_spark.session(jobs, catalog.warehouse, ["d.x"]) as session:
        assert session.create_views({"my view": "d.x"}) == ["my view"]
        (row,) = jobs.sql("SELECT * FROM `my view`").collect()
        assert row.asDict() == {"k": 1, "v": 1}
    assert not jobs.catalog.tableExists("`my view`")
    with pytest.raises(InvalidError, match="closed"):
        session.create_views(["d.x"])


def test_a_new_job_has_the_columns_of_now(jobs: SparkSession, catalog: wt.Catalog) -> None:
    """Its source had others when its newest barrier was complete."""
    put(catalog.writer("d.x", "w"), 1, 10)
    for name in ("d.x", "d.z"):
        catalog.alter_table(
            name, rename_columns={"v": "w"}, add_columns=[pa.field("u", pa.int64())]
        )
    etl = widetable_spark.etl(jobs, catalog.warehouse, "all")
    assert run(etl.changes("d.x"), etl.sink("d.z"), Path(catalog.warehouse, "all")) == ""
    (row,) = catalog.table("d.z").scan().to_arrow().to_pylist()
    assert row == {"k": 1, "w": 1, "u": None}


def test_changes_of_another_job_are_no_rows_of_a_root(
    jobs: SparkSession, catalog: wt.Catalog, tmp_path: Path
) -> None:
    put(catalog.writer("d.x", "w"), 1, 10)
    one = widetable_spark.etl(jobs, tmp_path, "one")
    changes = one.changes("d.x")
    one.sink("d.y")
    root = widetable_spark.etl(jobs, tmp_path, "root").sink("d.z")
    assert "from barrier to barrier" in run(changes, root, tmp_path / "c")
    assert keys(catalog, "z") == []


@pytest.mark.parametrize("name", ["a/b", "..", "widetable-barriers", "x" * 199])
def test_names_that_no_consumer_may_have_are_no_jobs(
    jobs: SparkSession, catalog: wt.Catalog, name: str
) -> None:
    etl = widetable_spark.etl(jobs, catalog.warehouse, name)
    etl.changes("d.x")
    with pytest.raises(InvalidError, match="job"):
        etl.sink("d.z")
    assert not catalog.topology().jobs()


@pytest.mark.parametrize("value", [None, 5, b"x", "", [], {}, {"a": 5}, 1.5, object()])
def test_what_is_no_argument_is_refused(
    jobs: SparkSession, catalog: wt.Catalog, value: Any
) -> None:
    etl = widetable_spark.etl(jobs, catalog.warehouse, "job")
    calls: dict[str, Any] = {
        "sink": lambda: etl.sink(value),
        "columns": lambda: etl.sink({"d.z": None}, {"d.q": value}),
        "follow": lambda: etl.sink("d.z").follow(value),
    }
    if value is not None:
        calls["rows"] = lambda: etl.sink({"d.z": value})
    if not isinstance(value, str):
        calls["sum"] = lambda: widetable_spark.signed_sum(value)
    before = threading.active_count()
    for call in calls.values():
        with pytest.raises(wt.WidetableError):
            call()
    assert threading.active_count() <= before


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_the_smallest_value_is_told_where_it_is_taken_off(spark: SparkSession, ansi: str) -> None:
    """It has no negative in its type; without ANSI Spark takes it for its own."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for type, bits in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)):
            smallest = -(1 << (bits - 1))
            rows = [(smallest, "+I"), (smallest, "-U"), (5, "+U"), (None, "-D"), (0, "-D")]
            changes = spark.createDataFrame(rows, "v bigint, _row_kind string")
            narrow = changes.select(sf.col("v").cast(type), "_row_kind")
            total = widetable_spark.signed_sum("v")
            with pytest.raises(PySparkException, match=r"ARITHMETIC_OVERFLOW|has no negative"):
                narrow.agg(total).collect()
            wider = narrow.select(sf.col("v").cast("decimal(20,0)").alias("v"), "_row_kind")
            assert int(wider.agg(total).collect()[0][0]) == 5
        of_doubles = spark.createDataFrame(
            [(float("nan"), "+I"), (float("nan"), "-D"), (0.0, "-D")], "v double, _row_kind string"
        )
        assert str(of_doubles.agg(total).collect()[0][0]) == "nan"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")


def test_a_query_that_was_dropped_and_goes_on_is_registered_again(
    jobs: SparkSession, catalog: wt.Catalog
) -> None:
    """By force, from elsewhere; unless another job has its columns by then."""
    writer = catalog.writer("d.x", "w")
    etl = widetable_spark.etl(jobs, catalog.warehouse, "copy")
    stream = etl.changes("d.x").drop("_row_kind").writeStream.foreachBatch(etl.sink("d.y"))
    checkpoint = str(Path(catalog.warehouse, "a"))
    elsewhere = (
        "import sys, widetable; widetable.Catalog(sys.argv[1]).topology().drop('copy', force=True)"
    )
    query = stream.option("checkpointLocation", checkpoint).start()

    def copied(*barriers: int) -> None:
        put(writer, barriers[-1], barriers[-1])
        wait_for(lambda: not query.isActive or keys(catalog, "y") == list(barriers))

    try:
        for barriers in ((10,), (10, 20)):
            copied(*barriers)
            subprocess.run([sys.executable, "-c", elsewhere, catalog.warehouse], check=True)
            assert [job.name for job in catalog.topology().jobs()] == ["w"]
        copied(10, 20, 30)
        (job, _) = catalog.topology().jobs()
        assert (job.name, job.sources, job.tables) == ("copy", ("d.x",), ("d.y",))
        subprocess.run([sys.executable, "-c", elsewhere, catalog.warehouse], check=True)
        catalog.writer("d.y", "other")
        put(writer, 40, 40)
        with pytest.raises(StreamingQueryException, match="that job 'other' writes, too"):
            query.awaitTermination(120)
    finally:
        query.stop()
    assert keys(catalog, "y") == [10, 20, 30]
