"""Streaming writes: exactly once through replays and failures, several queries at once, columns
checked at the start.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import QueryProgressEvent
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from tests.support.faults.patience import PATIENCE_SECONDS

A_SIDE = pa.schema(
    [pa.field("k", pa.int64()), pa.field("a_seq", pa.int64()), pa.field("a", pa.string())]
)
B_SIDE = pa.schema(
    [pa.field("k", pa.int64()), pa.field("b_seq", pa.int64()), pa.field("b", pa.float64())]
)


def _drop(folder: Path, number: int, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f".{number:04d}.tmp")
    (folder / f".{number:04d}.tmp").rename(folder / f"{number:04d}.parquet")


def _start(
    spark: SparkSession,
    source: Path,
    ddl: str,
    table: wt.Table,
    checkpoint: Path,
    mode: str = "append",
    **options: str,
) -> StreamingQuery:
    frame = spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(source))
    if mode == "complete":
        frame = frame.groupBy("k").agg(sf.max("a_seq").alias("a_seq"), sf.max("a").alias("a"))
    writer = frame.writeStream.format("widetable").outputMode(mode).options(**options)
    return (
        writer.option("path", table.path)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def _finish(query: StreamingQuery) -> None:
    query.awaitTermination()


A_DDL, B_DDL = "k long, a_seq long, a string", "k long, b_seq long, b double"


def test_two_queries_of_one_session_fill_their_own_columns(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    for number in range(3):
        _drop(
            tmp_path / "a",
            number,
            [{"k": k, "a_seq": number, "a": f"a{number}"} for k in range(10)],
            A_SIDE,
        )
        _drop(
            tmp_path / "b",
            number,
            [{"k": k, "b_seq": -number, "b": float(number)} for k in range(5, 15)],
            B_SIDE,
        )
    queries = [
        _start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp-a"),
        _start(spark, tmp_path / "b", B_DDL, wide_table, tmp_path / "cp-b"),
    ]
    for query in queries:
        _finish(query)
    rows = {r["k"]: (r["a"], r["b"]) for r in wide_table.scan().to_arrow().to_pylist()}
    assert rows == {k: ("a2" if k < 10 else None, 0.0 if k >= 5 else None) for k in range(15)}
    appends = [s for s in wide_table.snapshots() if s.commit_kind == "APPEND"]
    assert len({s.commit_user for s in appends}) == 2
    assert len(appends) == 6


def test_a_batch_replayed_after_its_commit_log_was_lost_commits_nothing(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    for number in range(2):
        _drop(tmp_path / "a", number, [{"k": number, "a_seq": 1, "a": f"a{number}"}], A_SIDE)
    _finish(_start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp"))
    before = [s.id for s in wide_table.snapshots()]
    # What is left when a query dies between the table's commit and Spark's commit log.
    (tmp_path / "cp" / "commits" / "1").unlink()
    (tmp_path / "cp" / "commits" / ".1.crc").unlink(missing_ok=True)
    _finish(_start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp"))
    assert (tmp_path / "cp" / "commits" / "1").exists()
    assert [s.id for s in wide_table.snapshots()] == before
    _drop(tmp_path / "a", 2, [{"k": 2, "a_seq": 1, "a": "a2"}], A_SIDE)
    _finish(_start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp"))
    assert wide_table.scan().to_arrow().num_rows == 3
    assert len([s for s in wide_table.snapshots() if s.commit_kind == "APPEND"]) == 3


def test_a_wrong_column_set_is_refused_at_the_start_of_the_query(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    _drop(tmp_path / "a", 0, [{"k": 1, "a_seq": 1, "a": "x"}], A_SIDE)
    query = _start(spark, tmp_path / "a", "k long, a string", wide_table, tmp_path / "cp")
    with pytest.raises(Exception, match="a_seq"):
        query.awaitTermination()
    assert wide_table.snapshots() == []
    assert not list((tmp_path / "cp" / "commits").glob("[0-9]*"))


def test_complete_mode_replaces_the_table_in_every_batch(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    _drop(tmp_path / "a", 0, [{"k": 1, "a_seq": 1, "a": "x"}], A_SIDE)
    _drop(tmp_path / "a", 1, [{"k": 2, "a_seq": 1, "a": "y"}], A_SIDE)
    _finish(_start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp", mode="complete"))
    assert {s.commit_kind for s in wide_table.snapshots()} == {"OVERWRITE"}
    assert sorted(r["k"] for r in wide_table.scan().to_arrow().to_pylist()) == [1, 2]


def test_progress_counts_rows_files_and_retries(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    for number in range(2):
        _drop(
            tmp_path / "a", number, [{"k": k, "a_seq": number, "a": "x"} for k in range(7)], A_SIDE
        )
    seen = threading.Event()
    listener = widetable_spark.CommitProgressListener(
        wide_table.path, on_commit=lambda commit: seen.set() if commit.batch_id == 1 else None
    )
    spark.streams.addListener(listener)
    try:
        query = _start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp")
        _finish(query)
        assert seen.wait(PATIENCE_SECONDS)
    finally:
        spark.streams.removeListener(listener)
    appends = [s for s in wide_table.snapshots() if s.commit_kind == "APPEND"]
    assert [(c.batch_id, c.rows, c.retries, c.snapshot_id) for c in listener.commits] == [
        (0, 7, 0, appends[0].id),
        (1, 7, 0, appends[1].id),
    ]
    assert all(1 <= c.files <= 2 for c in listener.commits)


def test_a_listener_of_a_long_query_keeps_the_last_commits(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "d.t", pa.schema([("k", pa.int64())]), primary_key=["k"]
    )
    for batch_id in range(2):
        table.write(pa.table({"k": [1]}), "query", batch_id)
    seen: list[int] = []
    listener = widetable_spark.CommitProgressListener(
        table.path, "query", lambda commit: seen.append(commit.batch_id)
    )
    for number in range(1100):
        progress = SimpleNamespace(id="-", name=None, batchId=number // 1000, batchDuration=1)
        listener.onQueryProgress(cast("QueryProgressEvent", SimpleNamespace(progress=progress)))
    assert len(seen) == 1100
    assert [commit.batch_id for commit in listener.commits] == [0] * 900 + [1] * 100


def test_a_listener_opens_its_table_with_the_options_of_the_storage(
    wide_table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide_table.write({"k": [1]}, "query", 0)
    given: list[object] = []

    def opened(path: str, *, storage_options: dict[str, str] | None = None) -> wt.Table:
        given.append(storage_options)
        return wide_table

    monkeypatch.setattr(wt.Table, "open", opened)
    listener = widetable_spark.CommitProgressListener(
        wide_table.path, "query", storage_options={"s3.region": "x"}
    )
    progress = SimpleNamespace(id="-", name=None, batchId=0, batchDuration=1)
    listener.onQueryProgress(cast("QueryProgressEvent", SimpleNamespace(progress=progress)))
    assert (len(listener.commits), given) == (1, [{"s3.region": "x"}])


def test_an_empty_batch_commits_nothing(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    _drop(tmp_path / "a", 0, [], A_SIDE)
    _finish(_start(spark, tmp_path / "a", A_DDL, wide_table, tmp_path / "cp"))
    assert wide_table.snapshots() == []


def test_a_running_query_goes_on_after_a_column_joined_its_group(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> None:
    """With the option; without it the next batch fails, and says which one that is."""
    catalog, option = wt.Catalog(tmp_path / "wh"), "widetable.absent-group-columns"
    source, checkpoint = tmp_path / "a", tmp_path / "cp"
    _drop(source, 0, [{"k": k, "a_seq": 0, "a": "old"} for k in range(3)], A_SIDE)
    frame = spark.readStream.schema(A_DDL).parquet(str(source))
    writer = frame.writeStream.format("widetable").option("path", wide_table.path)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.processAllAvailable()
    catalog.alter_table(
        "db.wide",
        add_columns={"more": pa.int64()},
        set_options={"fields.a_seq.sequence-group": "a,more", option: "null"},
    )
    row = {"a_seq": [1, 1], "a": ["new", "new"], "more": [7, 8]}
    wide_table.write({"k": [1, 2], **row})
    _drop(source, 1, [{"k": 1, "a_seq": 2, "a": "newer"}], A_SIDE)
    query.processAllAvailable()
    found = wide_table.scan(columns=["k", "a", "more"]).to_arrow().to_pylist()
    rows = {each["k"]: (each["a"], each["more"]) for each in found}
    assert rows == {0: ("old", None), 1: ("newer", None), 2: ("new", 8)}
    catalog.alter_table("db.wide", remove_options=[option])
    _drop(source, 2, [{"k": 1, "a_seq": 3, "a": "no"}], A_SIDE)
    with pytest.raises(StreamingQueryException, match=f"'more'.*{option}"):
        query.processAllAvailable()
