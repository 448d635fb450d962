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

COMPACTION_PAUSE_SECONDS = 3.0
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class StreamRun:
    """What one streaming query did. `seconds`: from the start of all queries to its last commit."""

    group: str
    query_id: str
    row_count: int
    batch_count: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class PipelineRun:
    """All queries and the maintainer. `started`: epoch seconds; `seconds`: until the last query ended."""

    started: float
    seconds: float
    streams: tuple[StreamRun, ...]
    compactions: tuple[CompactionRound, ...]

    @property
    def row_count(self) -> int:
        return sum(stream.row_count for stream in self.streams)


# Called about twice a second with the seconds since the start and the rows done per group.
OnProgress = Callable[[float, dict[str, int]], None]


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
    started = time.time()
    maintainer = Maintainer(table, COMPACTION_PAUSE_SECONDS)
    with maintainer:
        queries: dict[str, StreamingQuery] = {}
        try:
            for group in GROUPS:
                queries[group.name] = _start_query(spark, workspace, table, group.name)
            ended = _wait_for(queries, started, on_progress)
        finally:
            for query in queries.values():
                query.stop()
    seconds = time.time() - started
    maintainer.compact(full=True)
    return PipelineRun(
        started=started,
        seconds=seconds,
        streams=tuple(_outcome(name, query, ended[name]) for name, query in queries.items()),
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


def _wait_for(
    queries: dict[str, StreamingQuery], started: float, on_progress: OnProgress
) -> dict[str, float]:
    """Wait until all queries ended; return after how many seconds each did."""
    ended: dict[str, float] = {}
    while len(ended) < len(queries):
        time.sleep(_POLL_SECONDS)
        for name, query in queries.items():
            if name not in ended and not query.isActive:
                query.awaitTermination()  # raises the query's own error, if it failed
                ended[name] = time.time() - started
        rows = {name: _row_count(query) for name, query in queries.items()}
        on_progress(time.time() - started, rows)
    return ended


def _row_count(query: StreamingQuery) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def _outcome(name: str, query: StreamingQuery, seconds: float) -> StreamRun:
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    return StreamRun(
        group=name,
        query_id=str(query.id),
        row_count=_row_count(query),
        batch_count=len(batches),
        seconds=seconds,
    )
