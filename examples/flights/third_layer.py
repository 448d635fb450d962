"""The third layer: streams fill tables under barriers, a job counts flights, and all is read meanwhile.

    schedule, departure, arrival ─► nyc.flights_at_barriers ─► job ─► nyc.hourly_at_barriers
    aircraft ─► nyc.planes_at_barriers ──────┘ widened

The streams are roots: what Spark takes belongs to the barrier that the clock is in, and while a stream has nothing to
write it says so at each tick. A maintainer widens flights by their aircraft, barrier by barrier. The job takes whole
barriers and keeps flights and delays by month, carrier and hour from the changes (`widetable_spark.etl`). While all
this runs a reader opens sessions over the tables: one for each barrier that all have come to, and others for the newest
rows. What the newest rows say is looked at once more by the job itself, before it writes a batch: then the flights of
the batch are in the one table, and their counts surely not in the other. Out: a `LayerLooks`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from examples.flights.barrier_files import FILE_COUNT, BarrierFiles
from examples.flights.barrier_looks import BarrierLook, Looks
from examples.flights.barrier_tables import (
    BARRIER_STREAMS,
    COUNTS_NAME,
    FLIGHTS_NAME,
    FLIGHTS_READ,
)
from examples.flights.carrier_hourly import ROW_KIND
from examples.flights.column_group import ColumnGroup
from examples.flights.maintainer import DemoMaintainer
from examples.flights.micro_batch import files_taken, last_batch
from examples.flights.workspace import Workspace

JOB = "hourly-at-barriers"
_TRIGGER = "250 milliseconds"
_POLL_SECONDS = 0.3
_MAX_FAILED_STARTS = 5
_MAINTENANCE_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class LayerLooks:
    """began: when the first files came, epoch seconds. Looks by time."""

    began: float
    at_barriers: tuple[BarrierLook, ...]
    newest: tuple[BarrierLook, ...]

    @property
    def disagreements(self) -> tuple[BarrierLook, ...]:
        """Newest rows of which one table has flights that the other has not counted."""
        return tuple(look for look in self.newest if look.difference)

    @property
    def passed(self) -> bool:
        """Whether all that was read at a barrier agrees, and newest rows did not always: else it would show nothing."""
        agrees = all(look.agrees for look in self.at_barriers)
        return agrees and bool(self.at_barriers) and bool(self.disagreements)


# Called with the share of files that is done, by query, when one is.
OnProgress = Callable[[dict[str, float]], None]


def run_third_layer(
    spark: SparkSession, workspace: Workspace, on_progress: OnProgress
) -> LayerLooks:
    """Run streams and job to the end of the files, and until the last barrier was read that has any of them."""
    looks, files = Looks(workspace), BarrierFiles(workspace)
    files.bring_next(barriers_read=0)
    job, shares = _CountingJob(spark, workspace, looks), dict[str, float]()
    flights = wt.Catalog(str(workspace.warehouse)).table(FLIGHTS_NAME)
    try:
        with DemoMaintainer(flights, _MAINTENANCE_PAUSE_SECONDS):
            roots = {each.name: _start_root(spark, workspace, each) for each in BARRIER_STREAMS}
            job.start()
            while not _are_at_end(workspace, roots, looks):
                time.sleep(_POLL_SECONDS)
                _check(roots.values())
                job.check()
                looks.at_barrier()
                looks.uncommitted()
                files.bring_next(len(looks.at_barriers))
                before, shares = shares, {n: files_taken(q) / FILE_COUNT for n, q in roots.items()}
                if shares != before:
                    on_progress(shares)
    finally:
        for query in spark.streams.active:
            query.stop()
    return LayerLooks(files.came[0], tuple(looks.at_barriers), tuple(looks.newest))


def hourly_counts(changes: DataFrame) -> DataFrame:
    """Columns of `COUNTS_SCHEMA` and `_row_kind`, of changes of flights; a key whose flights are gone is deleted."""
    is_cancelled = F.col("dep_seq").isNotNull() & F.col("dep_time").isNull()
    one = F.lit(1).cast("bigint")
    sums = {
        "delay_count": F.when(F.col("arr_delay").isNotNull(), one),
        "delay_sum": F.col("arr_delay").cast("bigint"),
        "cancelled_count": F.when(is_cancelled, one),
    }
    hour = F.expr("CAST(sched_dep_time DIV 100 AS INT)").alias("hour")
    by_hour = changes.where(F.col("sched_dep_time").isNotNull()).groupBy("month", "carrier", hour)
    counted = by_hour.agg(
        widetable_spark.signed_count().alias("flights"),
        *(
            F.coalesce(widetable_spark.signed_sum(term), F.lit(0)).alias(name)
            for name, term in sums.items()
        ),
    )
    return counted.withColumn(ROW_KIND, F.when(F.col("flights") == 0, "-D").otherwise("+U"))


def _start_root(spark: SparkSession, workspace: Workspace, group: ColumnGroup) -> StreamingQuery:
    """One of the streams; it writes its own columns."""
    name = f"{group.name}-at-barriers"
    etl = widetable_spark.etl(spark, workspace.warehouse, name)
    schema = spark.read.parquet(str(workspace.counted_stream(group.name))).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = files.parquet(str(workspace.counted_arrived(group.name)))
    sink = etl.sink(group.table, [field.name for field in group.fields])
    return _start(rows, "append", sink, workspace, name)


class _CountingJob:
    """The derived job, and its query that runs now. Used by one thread."""

    def __init__(self, spark: SparkSession, workspace: Workspace, looks: Looks) -> None:
        self._spark = spark
        self._workspace = workspace
        self._looks = looks
        self._query: StreamingQuery | None = None
        self._failed_starts = 0

    def start(self) -> None:
        etl = widetable_spark.etl(self._spark, self._workspace.warehouse, JOB)
        changes = etl.changes(FLIGHTS_NAME, ["month", "carrier", *FLIGHTS_READ])
        sink = etl.sink(COUNTS_NAME)

        def look_and_write(rows: DataFrame, batch_id: int) -> None:
            self._looks.uncommitted()
            sink(rows, batch_id)

        self._query = _start(hourly_counts(changes), "update", look_and_write, self._workspace, JOB)

    def check(self) -> None:
        """Raises its error. One that never came to its first batch is started again: Spark gives the Python process of
        a source ten seconds to begin, too few on a busy machine.
        """
        error = None if self._query is None else self._query.exception()
        if self._query is None or error is None:
            return
        if last_batch(self._query) is not None or self._failed_starts == _MAX_FAILED_STARTS:
            raise error
        self._failed_starts += 1
        self.start()


def _start(
    rows: DataFrame,
    mode: str,
    sink: Callable[[DataFrame, int], None],
    workspace: Workspace,
    name: str,
) -> StreamingQuery:
    rows.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", name)  # a fair share
    return (
        rows.writeStream.outputMode(mode)
        .foreachBatch(sink)
        .option("checkpointLocation", str(workspace.checkpoint(name).resolve()))
        .queryName(name)
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _check(queries: Iterable[StreamingQuery]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


def _are_at_end(workspace: Workspace, roots: Mapping[str, StreamingQuery], looks: Looks) -> bool:
    """Whether all files are in, and the barrier was read that the last of them belong to."""
    if any(files_taken(query) < FILE_COUNT for query in roots.values()):
        return False
    flights = wt.Catalog(str(workspace.warehouse)).table(FLIGHTS_NAME)
    return bool(looks.barrier >= pc.max(flights.inspect.barriers()["last_barrier"]).as_py())
