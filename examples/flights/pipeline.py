"""Four streaming queries fill one table at the same time, each its own columns.

In: a Spark session, the files of the streams, the empty table. Each query takes one file per
micro-batch, as if files came in while it runs, and writes with `format("widetable")`. No query knows
of the others: there is no join and no lock, and each has its own checkpoint. A maintainer compacts
meanwhile. Out: a `PipelineRun` with what each query did. A query that fails ends the demo with its
own error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from examples.flights.maintainer import CompactionRound, Maintainer
from examples.flights.wide_table import (
    GROUPS,
    KEY,
    PARTITION,
    TABLE_NAME,
    TABLE_OPTIONS,
    TABLE_SCHEMA,
)
from examples.flights.workspace import Workspace

COMPACTION_PAUSE_SECONDS = 2.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class StreamRun:
    """What one streaming query did. started, ended: of its first and last batch, epoch seconds."""

    group: str
    query_id: str
    row_count: int
    batch_count: int
    started: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class PipelineRun:
    """All queries and the maintainer. startup_seconds: from the call until the first batch began."""

    startup_seconds: float
    streams: tuple[StreamRun, ...]
    compactions: tuple[CompactionRound, ...]

    @property
    def started(self) -> float:
        """The beginning of the first batch of any stream, epoch seconds."""
        return min(stream.started for stream in self.streams)

    @property
    def seconds(self) -> float:
        """From there to the end of the last batch of any stream."""
        return max(stream.ended for stream in self.streams) - self.started

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.seconds if self.seconds > 0 else 0.0

    @property
    def row_count(self) -> int:
        return sum(stream.row_count for stream in self.streams)


# Called about twice a second with the rows done per group.
OnProgress = Callable[[dict[str, int]], None]


def create_table(workspace: Workspace) -> wt.Table:
    """A new, empty `nyc.flights_wide` in the workspace's warehouse."""
    catalog = wt.Catalog(str(workspace.warehouse))
    return catalog.create_table(
        TABLE_NAME,
        TABLE_SCHEMA,
        primary_key=list(KEY),
        partition_by=list(PARTITION),
        options=TABLE_OPTIONS,
    )


def run_pipeline(
    spark: SparkSession, workspace: Workspace, table: wt.Table, on_progress: OnProgress
) -> PipelineRun:
    """Run the four queries to the end of their files, then compact once more, fully."""
    called = time.time()
    maintainer = Maintainer(table, COMPACTION_PAUSE_SECONDS)
    with maintainer:
        queries: dict[str, StreamingQuery] = {}
        try:
            for group in GROUPS:
                queries[group.name] = _start_query(spark, workspace, table, group.name)
            _wait_for(queries, on_progress)
            streams = tuple(_outcome(name, query) for name, query in queries.items())
        finally:
            for query in queries.values():
                query.stop()
    maintainer.compact(full=True)
    return PipelineRun(
        startup_seconds=min(stream.started for stream in streams) - called,
        streams=streams,
        compactions=tuple(maintainer.rounds),
    )


def _start_query(
    spark: SparkSession, workspace: Workspace, table: wt.Table, name: str
) -> StreamingQuery:
    folder = str(workspace.stream(name))
    schema = spark.read.parquet(folder).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
    return (
        files.writeStream.format("widetable")
        .option("path", str(table.path))
        .option("checkpointLocation", str(workspace.checkpoint(name).resolve()))
        .queryName(name)
        .trigger(availableNow=True)
        .start()
    )


def _wait_for(queries: dict[str, StreamingQuery], on_progress: OnProgress) -> None:
    """Wait until all queries have come to the end of their files."""
    waiting = set(queries)
    while waiting:
        time.sleep(_POLL_SECONDS)
        for name in sorted(waiting):
            if not queries[name].isActive:
                queries[name].awaitTermination()  # raises the query's own error, if it failed
                waiting.remove(name)
        on_progress({name: _row_count(query) for name, query in queries.items()})


def _row_count(query: StreamingQuery) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def _outcome(name: str, query: StreamingQuery) -> StreamRun:
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    return StreamRun(
        group=name,
        query_id=str(query.id),
        row_count=sum(batch.numInputRows for batch in batches),
        batch_count=len(batches),
        started=_epoch_seconds(batches[0].timestamp),
        ended=_epoch_seconds(batches[-1].timestamp) + batches[-1].batchDuration / 1000,
    )


def _epoch_seconds(timestamp: str) -> float:
    """Of the ISO text in UTC by which Spark tells when a trigger began."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
