"""Four streaming queries fill one table at the same time, and a fifth keeps a second table from its changes.

In: a Spark session, the files of the streams, the two empty tables. Files come
while the queries run (`arrivals`); each of the four takes one per micro-batch and writes its own columns with
`format("widetable")`. No query knows of the others: there is no join and no lock, and each has its own
checkpoint. A maintainer compacts meanwhile, which is also what tells the changes; the second layer
reads them, fails once in the middle and goes on. Out: a `PipelineRun` with what each query
did. A query that fails ends the demo with its own error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from examples.flights.arrivals import Arrivals
from examples.flights.maintainer import CompactionRound, DemoMaintainer
from examples.flights.micro_batch import MicroBatch, last_batch, micro_batches
from examples.flights.second_layer import LayerRun, SecondLayer
from examples.flights.wide_table import (
    GROUPS,
    KEY,
    PARTITION,
    TABLE_NAME,
    TABLE_OPTIONS,
    TABLE_SCHEMA,
    ColumnGroup,
)
from examples.flights.workspace import Workspace

COMPACTION_PAUSE_SECONDS = 0.1
_TRIGGER = "250 milliseconds"
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class StreamRun:
    """What one streaming query did: its batches, in order; each took one file. arrivals: when the files came."""

    group: str
    query_id: str
    batches: tuple[MicroBatch, ...]
    arrivals: tuple[float, ...]

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
        """That its batches took, without the time in which it waited for files."""
        return sum(batch.ended - batch.started for batch in self.batches)

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
    record_count: int,
    on_progress: OnProgress,
) -> PipelineRun:
    """Run the four queries to the end of their files and the second layer to the end of their changes.

    The steady arrival of files begins when the first file of every stream has gone all the way. In the middle the
    second layer fails once; at the end everything is compacted once more, fully. record_count: of all streams.
    """
    called = time.time()
    maintainer = DemoMaintainer(wide, COMPACTION_PAUSE_SECONDS)
    layer = SecondLayer(spark, workspace, wide, hourly)
    queries: dict[str, StreamingQuery] = {}

    def watch(shares: dict[str, float]) -> None:
        on_progress(shares)
        if not arrivals.has_begun and all(shares.values()) and layer.has_read(_last_change(wide)):
            arrivals.begin()
        if sum(shares.values()) >= len(shares) / 2:
            layer.fail_once()
        layer.check()

    try:
        with Arrivals(workspace, record_count) as arrivals, maintainer:
            layer.start()
            for group in GROUPS:
                queries[group.name] = _start_query(spark, workspace, wide, group)
            _wait_for(queries, arrivals.counts, watch)
        maintainer.compact_fully()
        layer_run = layer.finish(_last_change(wide))
    finally:
        for query in spark.streams.active:
            query.stop()
    streams = tuple(
        StreamRun(name, str(query.id), tuple(micro_batches(query)), tuple(arrivals.times[name]))
        for name, query in queries.items()
    )
    return PipelineRun(
        startup_seconds=min(stream.started for stream in streams) - called,
        streams=streams,
        compactions=tuple(maintainer.rounds),
        layer=layer_run,
    )


def _start_query(
    spark: SparkSession, workspace: Workspace, table: wt.Table, group: ColumnGroup
) -> StreamingQuery:
    schema = spark.read.parquet(str(workspace.stream(group.name))).schema
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", group.name)  # a fair share for each
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return (
        files.parquet(str(workspace.arrived(group.name)))
        .writeStream.format("widetable")
        .option("path", str(table.path))
        .option("checkpointLocation", str(workspace.checkpoint(group.name).resolve()))
        .queryName(group.name)
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _wait_for(
    queries: dict[str, StreamingQuery], file_counts: dict[str, int], watch: OnProgress
) -> None:
    """Wait until all queries have come to the end of their files, and stop them."""
    shares = dict.fromkeys(queries, 0.0)
    while any(share < 1 for share in shares.values()):
        time.sleep(_POLL_SECONDS)
        for name, query in queries.items():
            failure = query.exception()
            if failure is not None:
                raise failure
            shares[name] = _files_taken(query) / file_counts[name]
        watch(shares)
    for query in queries.values():
        query.stop()


def _files_taken(query: StreamingQuery) -> int:
    """By the batches that are done; each takes one."""
    last = last_batch(query)
    return 0 if last is None else int(json.loads(last.end_offset)["logOffset"]) + 1


def _last_change(table: wt.Table) -> int:
    """The newest snapshot that has a changelog; 0 when none has."""
    told = [snapshot.id for snapshot in table.snapshots() if snapshot.changelog_record_count]
    return max(told, default=0)
