"""Six streaming queries: three fill one wide table at the same time, one looks the weather of departures up, one keeps
all departure records as they come in an append table, and one keeps a table from the changes of the wide one. Beside
them a job brings the tables of a database along.

    schedule, departure, arrival ─► nyc.flights_wide ─► second layer ─► nyc.carrier_hourly
    database: aircraft ─► nyc.planes ────┘ widened
              weather  ─► nyc.weather ─► looked up

In: a Spark session, the files of the streams, the database, the empty tables. Files come while the queries run
(`arrivals`), those of aircraft and weather into the database; each of the first three queries takes one per micro-batch
and writes its own columns. No query knows of the others: there is no lock, and each has its own checkpoint. Streams
into tables under barriers are jobs (`widetable_spark.etl`): what Spark takes belongs to the barrier that the clock is
in, and while a stream has nothing to write it says so at each tick; the job of the database does the same. A maintainer
compacts and widens the wide table meanwhile, barrier by barrier, and so emits its changes; the second layer reads them,
fails once in the middle and goes on. Departures are let in to the query that looks the weather up when the weather of
their hours is known (`weather_first`). While all this runs a reader looks at the three tables that are under barriers
(`barrier_looks`). Out: a `PipelineRun` with what each query did. A query that fails ends the demo with its own error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import widetable as wt
import widetable_spark
from examples.flights.arrivals import Arrivals
from examples.flights.barrier_looks import BarrierChecker, BarrierChecks
from examples.flights.column_group import ColumnGroup
from examples.flights.database.database_job import USER, DatabaseJob
from examples.flights.database.source_database import SourceDatabase
from examples.flights.departure_records import RECORDS
from examples.flights.dimensions import WEATHER
from examples.flights.maintainer import CompactionRound, DemoMaintainer
from examples.flights.micro_batch import MicroBatch, files_taken, micro_batches
from examples.flights.second_layer import LayerRun, SecondLayer
from examples.flights.tables import DemoTables
from examples.flights.weather.departure_weather import with_weather
from examples.flights.weather.weather_first import LOOKUP, WeatherFirst
from examples.flights.wide_table import DEPARTURE, GROUPS, STREAMS
from examples.flights.workspace import Workspace

COMPACTION_PAUSE_SECONDS = 0.1
_TRIGGER = "250 milliseconds"
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class StreamRun:
    """What one streaming query did: its batches, in order; each took one file. arrivals: when the files came.

    query_id: its commit user. A table of a database has a batch for each file: from when the database had it until the
    table had it.
    """

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
    """All queries, the maintainer and the reader. startup_seconds: from the call until the first batch began. lookup:
    the query that looks the weather up. sources: the tables of the database.
    """

    startup_seconds: float
    streams: tuple[StreamRun, ...]
    lookup: StreamRun
    compactions: tuple[CompactionRound, ...]
    layer: LayerRun
    looks: BarrierChecks
    sources: tuple[StreamRun, ...] = ()

    @property
    def inputs(self) -> tuple[StreamRun, ...]:
        """The streams, and the tables of the database."""
        return (*self.streams, *self.sources)

    @property
    def started(self) -> float:
        """The beginning of the first batch of any stream, epoch seconds."""
        return min(stream.started for stream in self.streams)

    @property
    def seconds(self) -> float:
        """From there to the end of the last batch of any stream, or table of the database."""
        return max(stream.ended for stream in self.inputs) - self.started

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.seconds if self.seconds > 0 else 0.0

    @property
    def row_count(self) -> int:
        return sum(stream.row_count for stream in self.inputs)

    @property
    def arrivals_per_second(self) -> float:
        """Records that came per second, of all streams, from the second file of any stream to the last."""
        times = sorted(time for stream in self.inputs for time in stream.arrivals[1:])
        count = sum(sum(batch.row_count for batch in stream.batches[1:]) for stream in self.inputs)
        return count / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0


T = TypeVar("T")
# Called about twice a second with the share of files that is done, by query.
OnProgress = Callable[[dict[str, float]], None]


def run_pipeline(
    spark: SparkSession,
    workspace: Workspace,
    tables: DemoTables,
    database: SourceDatabase,
    job: DatabaseJob,
    arrivals: Arrivals,
    on_progress: OnProgress,
) -> PipelineRun:
    """Run all queries to the end of their files, and until the last barrier was read that has any of them.

    Files arrive steadily once the first file of every stream has gone all the way. In the middle the second layer fails
    once, and the register of aircraft gets a column; at the end everything is compacted. arrivals: of the first files.
    """
    called = time.time()
    maintainer = DemoMaintainer(tables.wide, COMPACTION_PAUSE_SECONDS)
    looks, let_in = BarrierChecker(workspace), WeatherFirst(workspace)
    layer = SecondLayer(spark, workspace, tables.hourly, looks)
    queries: dict[str, StreamingQuery] = {}

    def watch(shares: dict[str, float]) -> bool:
        """Whether there is nothing to wait for."""
        on_progress(shares)
        arrivals.check()
        of_streams = [shares[each.name] for each in STREAMS]
        let_in.let_in(len(arrivals.times[DEPARTURE.name]), len(job.noted[WEATHER.name]))
        looks.look()
        all_was_read = looks.barrier >= _last_barrier(tables)
        if not arrivals.has_begun and all(of_streams) and all_was_read:
            arrivals.begin()
        arrivals.adapt(_files_done(queries, job), time.time() - looks.barrier / 1000)
        if sum(of_streams) >= len(of_streams) / 2:
            layer.fail_once()
        layer.check()
        return all_was_read

    try:
        with job, arrivals, maintainer:
            for group in GROUPS:
                queries[group.name] = _start_stream(spark, workspace, group)
            queries[LOOKUP] = _start_lookup(spark, workspace, tables)
            queries[RECORDS] = _start_records(spark, workspace, tables)
            layer.start()
            _wait_for(queries, job, _by_query(arrivals.counts, let_in.count), watch)
            layer_run = layer.finish()
        job.finish()
        maintainer.compact_fully()
    finally:
        for query in spark.streams.active:
            query.stop()
    runs = _query_runs(queries, _by_query(arrivals.times, let_in.times))
    return PipelineRun(
        startup_seconds=min(stream.started for stream in runs.values()) - called,
        streams=tuple(runs[group.name] for group in GROUPS),
        lookup=runs[LOOKUP],
        compactions=tuple(maintainer.rounds),
        layer=layer_run,
        looks=looks.taken,
        sources=tuple(_database_run(name, database, job) for name in job.noted),
    )


def _by_query(of_streams: dict[str, T], of_lookup: T) -> dict[str, T]:
    """Return a fact about the files of each query. The records are those of the stream of departures."""
    return {**of_streams, LOOKUP: of_lookup, RECORDS: of_streams[DEPARTURE.name]}


def _query_runs(
    queries: dict[str, StreamingQuery], times: dict[str, list[float]]
) -> dict[str, StreamRun]:
    return {
        name: StreamRun(name, str(query.id), tuple(micro_batches(query)), tuple(times[name]))
        for name, query in queries.items()
    }


def _database_run(name: str, database: SourceDatabase, job: DatabaseJob) -> StreamRun:
    times, counts = database.times[name], database.row_counts[name]
    batches = tuple(
        MicroBatch(number, came, there, rows, "")
        for number, (came, there, rows) in enumerate(
            zip(times, job.noted[name], counts, strict=True)
        )
    )
    return StreamRun(name, USER, batches, tuple(times))


def _start_stream(spark: SparkSession, workspace: Workspace, group: ColumnGroup) -> StreamingQuery:
    records = _records(spark, workspace, group, group.name)
    written = records.select(group.written_schema.names)
    etl = widetable_spark.etl(spark, workspace.warehouse, group.name)
    sink = etl.sink(group.table, [field.name for field in group.fields])
    return _start_query(written.writeStream.foreachBatch(sink), workspace, group.name)


def _start_lookup(spark: SparkSession, workspace: Workspace, tables: DemoTables) -> StreamingQuery:
    departures = _records(spark, workspace, DEPARTURE, LOOKUP)
    found = with_weather(departures, tables.weather)
    return _start_query(_to_table(found, tables.departures), workspace, LOOKUP)


def _start_records(spark: SparkSession, workspace: Workspace, tables: DemoTables) -> StreamingQuery:
    records = _records(spark, workspace, DEPARTURE, DEPARTURE.name)
    return _start_query(_to_table(records, tables.records), workspace, RECORDS)


def _records(spark: SparkSession, workspace: Workspace, group: ColumnGroup, name: str) -> DataFrame:
    """The files of a stream as they come to the folder of the query `name`."""
    schema = spark.read.parquet(str(workspace.stream(group.name))).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return files.parquet(str(workspace.arrived(name)))


def _to_table(rows: DataFrame, table: wt.Table) -> DataStreamWriter:
    return rows.writeStream.format("widetable").option("path", table.path)


def _start_query(stream: DataStreamWriter, workspace: Workspace, name: str) -> StreamingQuery:
    context = SparkContext.getOrCreate()
    context.setLocalProperty("spark.scheduler.pool", name)  # a fair share
    return (
        stream.option("checkpointLocation", str(workspace.checkpoint(name).resolve()))
        .queryName(name)
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _files_done(queries: dict[str, StreamingQuery], job: DatabaseJob) -> dict[str, int]:
    """Files that the queries have taken, and those that are in the tables of the database."""
    done = {name: files_taken(query) for name, query in queries.items()}
    return done | {name: len(noted) for name, noted in job.noted.items()}


def _wait_for(
    queries: dict[str, StreamingQuery],
    job: DatabaseJob,
    file_counts: dict[str, int],
    watch: Callable[[dict[str, float]], bool],
) -> None:
    """Wait until all queries, and the job, have come to the end of their files, and stop the queries."""
    shares, is_over = dict.fromkeys(file_counts, 0.0), False
    while not is_over or any(share < 1 for share in shares.values()):
        time.sleep(_POLL_SECONDS)
        for query in queries.values():
            failure = query.exception()
            if failure is not None:
                raise failure
        job.note()
        done = _files_done(queries, job)
        shares = {name: done[name] / count for name, count in file_counts.items()}
        is_over = watch(shares)
    for query in queries.values():
        query.stop()


def _last_barrier(tables: DemoTables) -> int:
    """The latest that any stream has records of."""
    found = [table.inspect.barriers() for table in (tables.wide, tables.planes)]
    roots = [writers.filter(pc.field("kind") == "root") for writers in found]
    return max(pc.max(writers["last_barrier"]).as_py() or 0 for writers in roots)
