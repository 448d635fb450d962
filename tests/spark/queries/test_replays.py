"""Batches that come again: a real replay commits nothing, all else of the same user and number is an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

import widetable as wt
from widetable_spark import WidetableDataSource
from widetable_spark.frames.declared_options import WRITE
from widetable_spark.startup.spark_version import StreamArrowWriter
from widetable_spark.writing.stream_sink import StreamSink

DDL = "k long, a_seq long, a string"
SIDE = pa.schema([("k", pa.int64()), ("a_seq", pa.int64()), ("a", pa.string())])


def put(folder: Path, number: int, keys: range) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"k": k, "a_seq": number, "a": f"a{number}"} for k in keys]
    pq.write_table(pa.Table.from_pylist(rows, schema=SIDE), folder / f".{number}.tmp")
    (folder / f".{number}.tmp").rename(folder / f"{number:04}.parquet")


class Query:
    """Of one source, into one table; each run takes what is there, in batches of at most `files` files."""

    def __init__(self, spark: SparkSession, table: wt.Table, folder: Path, mode: str) -> None:
        self.spark, self.table, self.folder, self.mode = spark, table, folder, mode
        self.source, self.checkpoint = folder / "source", folder / "checkpoint"

    def run(
        self, *, files: int = 1, user: str | None = "loader", format: str = "widetable"
    ) -> None:
        frame = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", files)
        rows = frame.parquet(str(self.source))
        if self.mode == "complete":
            rows = rows.groupBy("k").agg(sf.max("a_seq").alias("a_seq"), sf.max("a").alias("a"))
        writer = rows.writeStream.format(format).outputMode(self.mode)
        if user is not None:
            writer = writer.option("commit-user", user)
        writer = writer.option("path", self.table.path)
        writer = writer.option("checkpointLocation", f"file:{self.checkpoint}")
        writer.trigger(availableNow=True).start().awaitTermination()

    def commits(self) -> list[int]:
        """The batches that are in, in order."""
        kinds = ("APPEND", "OVERWRITE")
        return [s.commit_identifier for s in self.table.snapshots() if s.commit_kind in kinds]

    def keys(self) -> list[int]:
        found: list[int] = self.table.scan(columns=["k"]).to_arrow()["k"].to_pylist()
        return sorted(found)


@pytest.fixture(params=["append", "complete"])
def query(
    request: pytest.FixtureRequest, spark: SparkSession, wide_table: wt.Table, tmp_path: Path
) -> Query:
    """One that has committed the batches 0 and 1."""
    query = Query(spark, wide_table, tmp_path, request.param)
    for number in range(2):
        put(query.source, number, range(number, number + 2))
    query.run()
    assert query.commits() == [0, 1]
    return query


def files_of(table: wt.Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*.parquet")}


def assert_refused(query: Query, batch: int) -> None:
    """The error says all that is needed, and nothing of the batch is left."""
    before, files, commits = query.keys(), files_of(query.table), query.commits()
    with pytest.raises(Exception, match="InvalidError") as raised:
        query.run(files=9)
    reported = str(raised.value)
    assert f"batch {batch} of checkpoint 'file:{query.checkpoint}'" in reported
    for part in ("user 'loader'", "made in snapshot", "another commit user", "empty table"):
        assert part in reported
    assert query.commits() == commits
    assert query.keys() == before
    assert files_of(query.table) == files


def test_a_new_checkpoint_under_the_same_commit_user_is_refused(query: Query) -> None:
    shutil.rmtree(query.checkpoint)
    assert_refused(query, 0)


def test_a_checkpoint_that_is_put_back_makes_other_batches_of_the_same_number(
    query: Query,
) -> None:
    shutil.copytree(query.checkpoint, query.folder / "kept")
    put(query.source, 2, range(2, 4))
    query.run()
    shutil.rmtree(query.checkpoint)
    shutil.move(query.folder / "kept", query.checkpoint)
    put(query.source, 3, range(10, 14))
    assert_refused(query, 2)


@pytest.mark.parametrize(
    ("mode", "user"), [("append", "loader"), ("append", None), ("complete", "loader")]
)
def test_a_replay_commits_nothing_and_the_query_goes_on(
    spark: SparkSession, wide_table: wt.Table, tmp_path: Path, mode: str, user: str | None
) -> None:
    """The sink fails after the table's commit, before Spark's commit log."""

    class FailingSink(StreamSink):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            super().commit(messages, batchId)
            if batchId == 1:
                raise RuntimeError("fails here")

    class FailingSource(WidetableDataSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamArrowWriter:
            return FailingSink(self._options_of(WRITE), schema, overwrite=overwrite)

    spark.dataSource.register(FailingSource)
    query = Query(spark, wide_table, tmp_path, mode)
    for number in range(3):
        put(query.source, number, range(number, number + 2))
    with pytest.raises(Exception, match="fails here"):
        query.run(user=user, format="failing")
    assert query.commits() == [0, 1]
    files = files_of(wide_table)
    query.run(user=user)
    assert query.commits() == [0, 1, 2]
    assert query.keys() == [0, 1, 2, 3]
    assert files < files_of(wide_table)
    digests = [s.properties["widetable.digest"] for s in wide_table.snapshots() if s.id < 4]
    assert len(set(digests)) == 3
