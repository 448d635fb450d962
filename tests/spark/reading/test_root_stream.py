"""A stream of Spark that is a root: its rows come from outside, its barriers from the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage

import widetable as wt
from widetable_spark.frames.source_options import parse_options
from widetable_spark.frames.spark_types import spark_schema
from widetable_spark.writing.stream_sink import StreamSink
from widetable_spark.writing.task_results import TaskMessage

ROWS = 300_000


def test_its_changelog_is_there_when_it_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    """However large: the process that commits is Spark's, which ends it by force."""
    table = wt.Catalog(tmp_path / "wh").create_table(
        "db.t",
        {"k": pa.int64(), "a": pa.int64()},
        primary_key=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "lookup",
            "widetable.barrier-interval": "100 ms",
            "widetable.inline-compaction-size": "0 b",
        },
    )
    (tmp_path / "in").mkdir()
    rows = pa.array(range(ROWS))
    pq.write_table(pa.table({"k": rows, "a": rows}), tmp_path / "in" / "1.parquet")
    stream = spark.readStream.schema("k bigint, a bigint").parquet(str(tmp_path / "in"))
    query = (
        stream.writeStream.format("widetable")
        .option("path", table.path)
        .option("barrier.writer", "root")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert 0 not in table.inspect.files()["level"].to_pylist()
    (root,) = table.inspect.barriers().to_pylist()
    changes = table.changes(0, root["table_barrier"], mode="barrier")
    assert changes.num_rows == ROWS
    assert set(changes["_row_kind"].to_pylist()) == {"+I"}


ROOT = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.int64())])


def tasks_of(
    table: wt.Table, number: int, query_ids: Sequence[str], options: dict[str, str]
) -> tuple[StreamSink, list[WriterCommitMessage | None]]:
    """What Spark does for a batch, without it: a task for each query id that one says."""
    given = parse_options({"path": table.path, **options})
    sink = StreamSink(given, spark_schema(ROOT), overwrite=False)
    messages: list[WriterCommitMessage | None] = []
    for query_id in query_ids:
        message = sink.write(iter([pa.record_batch({"k": [1], "a": [number]}, ROOT)]))
        assert isinstance(message, TaskMessage)
        messages.append(replace(message, query_id=query_id))
    return sink, messages


def batch_of(table: wt.Table, number: int, *query_ids: str, **options: str) -> None:
    sink, messages = tasks_of(table, number, query_ids, options)
    sink.commit(messages, number)


@pytest.fixture
def plain(tmp_path: Path) -> wt.Table:
    options = {"bucket": "1", "write-only": "true"}
    return wt.Catalog(tmp_path).create_table("db.t", ROOT, primary_key=["k"], options=options)


@pytest.fixture
def root(tmp_path: Path) -> wt.Table:
    options = {"bucket": "1", "write-only": "true", "widetable.barrier-interval": "100 ms"}
    return wt.Catalog(tmp_path).create_table("db.t", ROOT, primary_key=["k"], options=options)


@pytest.mark.parametrize("left_millis", [-1, 5_000])
def test_batches_renew_the_registration(tmp_path: Path, root: wt.Table, left_millis: int) -> None:
    batch_of(root, 0, "q", **{"barrier.writer": "w"})
    (note,) = Path(root.path).rglob("widetable-writer-*")
    values = json.loads(note.read_text())
    note.write_text(json.dumps({**values, "expires_millis": time.time_ns() // 10**6 + left_millis}))
    batch_of(root, 1, "q", **{"barrier.writer": "w"})
    assert json.loads(note.read_text())["expires_millis"] >= values["expires_millis"]
    ((writer,),) = [table.writers for table in wt.Catalog(tmp_path).topology().tables()]
    assert (writer.name, writer.alive) == ("w", True)


def test_a_registration_of_another_run_is_not_renewed(root: wt.Table) -> None:
    batch_of(root, 0, "q", **{"barrier.writer": "w"})
    (note,) = Path(root.path).rglob("widetable-writer-*")
    values = json.loads(note.read_text())
    other = json.dumps({**values, "run": "another", "expires_millis": 1})
    note.write_text(other)
    batch_of(root, 1, "q", **{"barrier.writer": "w"})
    assert note.read_text() == other


def files_of(table: wt.Table) -> set[str]:
    return {file.name for file in Path(table.path).rglob("data-*")}


@pytest.mark.parametrize("options", [{}, {"commit-user": "loader"}, {"barrier.writer": "w"}])
def test_a_batch_whose_files_are_committed_again_keeps_them(
    request: pytest.FixtureRequest, options: dict[str, str]
) -> None:
    """Spark asks for that: it may not know whether the first commit went through."""
    table = request.getfixturevalue("root" if "barrier.writer" in options else "plain")
    sink, messages = tasks_of(table, 0, ["q"], options)
    for _ in range(2):
        sink.commit(messages, 0)
    batch_of(table, 0, "q", **options)
    assert table.scan().to_arrow()["a"].to_pylist() == [0]
    assert len(table.remove_orphan_files(older_than_millis=0, dry_run=True).paths) == 1


@pytest.mark.parametrize("options", [{}, {"barrier.writer": "w"}])
def test_a_batch_that_is_refused_leaves_no_files(
    request: pytest.FixtureRequest, options: dict[str, str]
) -> None:
    table = request.getfixturevalue("root" if "barrier.writer" in options else "plain")
    with pytest.raises(wt.InvalidError, match="2 query ids"):
        batch_of(table, 0, "q", "r", **options)
    assert files_of(table) == set()


def test_files_that_are_in_stay_where_another_job_has_the_columns_by_now(
    tmp_path: Path, root: wt.Table
) -> None:
    sink, messages = tasks_of(root, 0, ["q"], {"barrier.writer": "w"})
    sink.commit(messages, 0)
    wt.Catalog(tmp_path).topology().drop("w", force=True)
    batch_of(root, 0, "r", **{"barrier.writer": "x"})
    with pytest.raises(wt.ConflictError):
        sink.commit(messages, 0)
    assert root.scan().count() == 1


@pytest.mark.parametrize("how", [{}, {"barrier.writer": "w"}])
def test_a_new_query_that_may_count_again_is_told(
    tmp_path: Path, how: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint that was lost makes another query, whose batches come from the beginning."""
    options = {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "bucket": "1",
        "widetable.fsync": "false",
        **({"widetable.barrier-interval": "100 ms"} if how else {}),
    }
    table = wt.Catalog(tmp_path).create_table("db.t", ROOT, primary_key=["k"], options=options)
    for number in (0, 1):
        batch_of(table, number, "first", **how)
    assert "WT-W607" not in caplog.text
    batch_of(table, 0, "second", **how)
    assert "WT-W607" in caplog.text
    assert "the query second is new to the table, and column 'a'" in caplog.text
    caplog.clear()
    batch_of(table, 1, "second", **how)
    batch_of(table, 0, "third", **{**how, "commit-user": "loader"})
    assert "WT-W607" not in caplog.text


def test_a_stream_goes_on_when_its_table_was_put_under_barriers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch that was refused comes again, in the query's next life, which says a name; no row is lost or twice."""
    catalog = wt.Catalog(tmp_path / "wh")
    table = catalog.create_table(
        "db.t",
        {"k": pa.int64(), "a": pa.int64()},
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
        },
    )
    (tmp_path / "in").mkdir()

    def run(number: int, **options: str) -> None:
        pq.write_table(pa.table({"k": [1], "a": [10**number]}), tmp_path / f"in/{number}.parquet")
        stream = spark.readStream.schema("k bigint, a bigint").parquet(str(tmp_path / "in"))
        writer = stream.writeStream.format("widetable").option("path", table.path)
        writer = writer.option("checkpointLocation", str(tmp_path / "c")).options(**options)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    run(0)
    catalog.alter_table("db.t", set_options={"widetable.barrier-interval": "100 ms"})
    with pytest.raises(StreamingQueryException, match=r"without a writer|barrier\.writer"):
        run(1)
    assert table.scan().to_arrow()["a"].to_pylist() == [1]
    run(2, **{"barrier.writer": "root"})
    (root,) = table.inspect.barriers().to_pylist()
    scan = table.scan(barrier=root["table_barrier"])
    assert scan.to_arrow()["a"].to_pylist() == [111]
    assert not table.audit().findings
