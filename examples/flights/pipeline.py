"""Four streaming queries fill one table at the same time, and a fifth keeps a second table from its changes.

In: a Spark session, the files of the streams, the two empty tables. Each of the four takes one file
per micro-batch, as if files came in while it runs, and writes its own columns with
`format("widetable")`. No query knows of the others: there is no join and no lock, and each has its own
checkpoint. A maintainer compacts meanwhile, which is also what tells the changes; the second layer
reads them, fails once in the middle and goes on. Out: a `PipelineRun` with what each query
did. A query that fails ends the demo with its own error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from examples.flights.inputs import FILE_COUNTS
from examples.flights.maintainer import CompactionRound, Maintainer
from examples.flights.micro_batch import MicroBatch, last_batch, micro_batches
from examples.flights.second_layer import LayerRun, SecondLayer
from examples.flights.wide_table import (
    GROUPS,
    KEY,
    PARTITION,
    TABLE_NAME,
    TABLE_OPTIONS,
    TABLE_SCHEMA,
)
from examples.flights.workspace import Workspace

COMPACTION_PAUSE_SECONDS = 0.5
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class StreamRun:
    """What one streaming query did: its batches, in order."""

    group: str
    query_id: str
    batches: tuple[MicroBatch, ...]

    def batch(self, batch_id: int) -> MicroBatch:
        """Raises KeyError for a batch that is not among them."""
        return {batch.batch_id: batch for batch in self.batches}[batch_id]

    @property
    def row_count(self) -> int:
        return sum(batch.row_count for batch in self.batches)

    @property
    def started(self) -> float:
        """When its first batch began, epoch seconds."""
        return self.batches[0].started

    @property
    def ended(self) -> float:
        """When its last batch ended, epoch seconds."""
        return self.batches[-1].ended

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
    layer: LayerRun

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


# Called about twice a second with the share of files that is done, by group.
OnProgress = Callable[[dict[str, float]], None]


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
    spark: SparkSession,
    workspace: Workspace,
    wide: wt.Table,
    hourly: wt.Table,
    on_progress: OnProgress,
) -> PipelineRun:
    """Run the four queries to the end of their files and the second layer to the end of their changes.

    In the middle the second layer fails once; at the end everything is compacted once more, fully.
    """
    called = time.time()
    maintainer = Maintainer(wide, COMPACTION_PAUSE_SECONDS)
    layer = SecondLayer(spark, workspace, wide, hourly)

    def watch(shares: dict[str, float]) -> None:
        on_progress(shares)
        if sum(shares.values()) >= len(shares) / 2:
            layer.fail_once()
        layer.check()

    queries: dict[str, StreamingQuery] = {}
    try:
        with maintainer:
            layer.start()
            for group in GROUPS:
                queries[group.name] = _start_query(spark, workspace, wide, group.name)
            _wait_for(queries, watch)
        maintainer.compact_fully()
        layer_run = layer.finish(_last_change(wide))
    finally:
        for query in spark.streams.active:
            query.stop()
    streams = tuple(_outcome(name, query) for name, query in queries.items())
    return PipelineRun(
        startup_seconds=min(stream.started for stream in streams) - called,
        streams=streams,
        compactions=tuple(maintainer.rounds),
        layer=layer_run,
    )


def _start_query(
    spark: SparkSession, workspace: Workspace, table: wt.Table, name: str
) -> StreamingQuery:
    folder = str(workspace.stream(name))
    schema = spark.read.parquet(folder).schema
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)  # a fair share for each query
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
        on_progress(
            {
                name: 1.0 if name not in waiting else _share(name, query)
                for name, query in queries.items()
            }
        )


def _share(name: str, query: StreamingQuery) -> float:
    """Of the files of a stream; a batch takes one."""
    last = last_batch(query)
    return 0.0 if last is None else min((last.batch_id + 1) / FILE_COUNTS[name], 1.0)


def _outcome(name: str, query: StreamingQuery) -> StreamRun:
    return StreamRun(name, str(query.id), tuple(micro_batches(query)))


def _last_change(table: wt.Table) -> int:
    """The newest snapshot that has a changelog."""
    return max(snapshot.id for snapshot in table.snapshots() if snapshot.changelog_record_count)
