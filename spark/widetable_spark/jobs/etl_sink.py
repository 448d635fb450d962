"""What `foreachBatch` of a job's query calls: it writes the rows of a batch by tasks, and commits them in the driver.

Each table gets a batch once (`job_writer`); if the driver dies between two tables, it completes the rest when Spark
runs the batch again. While the query is active and no batch runs, a root declares at each tick of the clock that no
more rows belong to the barriers before, and the job's registration is renewed. Raises InvalidError for columns that are
not the job's, and what commits raise.

A batch with the tables a, b, and what its next run does when the driver dies after a step:

    1  offsets are noted by Spark    the batch is repeated, with the same offsets and digest
    2  tasks write files for a       they are orphans, a is written again
    3  commit in a                   a has it; only b is written
    4  tasks, commit in b            both have it; the rows are evaluated once all the same, for Spark's state
    5  plans of batches before go    as after 4; its own plan stays
    6  Spark notes the batch         the next one begins

Steps 2 and 3 are done table by table, so a dead driver leaves a ahead of b, never b ahead of a: for a root the first
table determines which barrier the rows belong to, and the others follow (R5). A follower's `complete` waits for the
same: all tables must have the last batch of the first one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable import ConflictError, InvalidError, Table, WidetableError
from widetable.connector import (
    RENEWAL_MILLIS,
    JobBatch,
    JobWriter,
    WarningCode,
    arguments,
    now_millis,
    warn,
)
from widetable_spark.frames.declared_options import PATH, ROW_COLUMNS
from widetable_spark.frames.source_options import parse_options
from widetable_spark.jobs.etl_job import EtlJob
from widetable_spark.jobs.query_offsets import QueryOffsets
from widetable_spark.queries.query_end import QueryEnd
from widetable_spark.queries.query_state import has_state
from widetable_spark.writing.task_results import TaskResults, collected
from widetable_spark.writing.task_writer import QUERY_ID_PROPERTY, plan_writer

_log = logging.getLogger("widetable.spark")


@dataclass(frozen=True)
class SinkTable:
    """A table of a sink. rows: makes its rows from those of the batch; None: they are these. columns: that the job
    writes besides the key, None for all. row_columns: the column of the rows that names the columns that each carries,
    if any.
    """

    table: Table
    rows: Callable[[DataFrame], DataFrame] | None
    columns: tuple[str, ...] | None
    row_columns: str | None = None


@dataclass(eq=False, repr=False)
class EtlSink:
    """The function of `foreachBatch` that `Etl.sink` makes; Spark calls it batch by batch.

    It serves one query at a time: a query that is started again from its checkpoint gets a new run.
    """

    _spark: SparkSession
    _job: EtlJob
    _tables: Sequence[SinkTable]
    _storage: Mapping[str, str]
    _run: _EtlRun | None = None
    _beginning: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        # Taken first: the label of a root's rows and the cost of a job's batch count from here.
        begin_millis = now_millis()
        run = self._run_of(self._query_id())
        with run.lock:
            batch = self._batch(run, batch_id, begin_millis)
            missing = [batch is not None and not writer.has(batch) for writer in run.writers]
            with _evaluated(df, sum(missing)):
                if batch is not None:
                    self._commit(run, batch, df, missing)
        # Plans of earlier batches go. The batch's own plan stays: if the first batch of a checkpoint comes again, the
        # plan says where it began.
        if batch is not None and batch.span is not None:
            run.lead.plans(batch.revision).forget(batch.span[0])

    def _commit(
        self, run: _EtlRun, batch: JobBatch, df: DataFrame, missing: Sequence[bool]
    ) -> None:
        for part, writer, is_missing in zip(self._tables, run.writers, missing, strict=True):
            rows = df if part.rows is None else part.rows(df)
            results = _written(part, rows, self._storage) if is_missing else TaskResults([])
            with results.discarded_if_refused(part.table):
                # Also where the table has the batch: nothing is committed then, but a missing changelog is made.
                writer.commit(results.files, batch)
            if self._job.is_root and batch.lead is None:
                batch = replace(batch, lead=writer.member)

    def follow(self, query: StreamingQuery) -> None:
        """Take a query as running before its first batch.

        A root that may be idle when it is started again needs it: its tables then wait for no rows of it. A job that is
        dropped when its query has stopped needs it as well: the query may stop, or may have stopped, without a batch.

        Call it immediately after `start()`, with the query that it returned; a second call does nothing. Raises
        InvalidError for a value that is no query, and for a query that has ended.
        """
        query_id = str(arguments.instance(query, StreamingQuery, "query").id)
        if not (query.isActive or self._job.drop_when_stopped):
            raise arguments.refused(query, "query", "one that is active")
        if self._run is None or self._run.query.runId != query.runId:
            self._run_of(query_id, query)

    def _run_of(self, query_id: str, query: StreamingQuery | None = None) -> _EtlRun:
        """Return the run of a query, which begins with its first batch."""
        with self._beginning:
            run = self._run
            if run is None or run.query_id != query_id or not run.query.isActive:
                query = query or self._spark.streams.get(query_id)
                assert query is not None, "the calling query is active"
                run = self._run = _EtlRun(query, self._job, self._tables)
                if self._job.drop_when_stopped:
                    QueryEnd(self._spark, query, run.drop_job).listen()
        return run

    def _batch(self, run: _EtlRun, number: int, begin_millis: int) -> JobBatch | None:
        """Return the batch as a job commits it.

        None for the batch that Spark runs first where the sources have no barrier in common yet: it belongs to none.
        """
        offsets = QueryOffsets(run.query)
        digest = offsets.digest(number)
        if self._job.is_root:
            offsets.check_outside(number)
            return JobBatch(number, begin_millis, digest)
        # before: None for the first batch of a checkpoint, 0 after a batch of no barrier. In both cases the plan that
        # leads to the end says where the sources began; the checkpoint does not.
        end, before = offsets.barrier(number), offsets.barrier(number - 1)
        assert end is not None, "Spark notes where a batch ends before it begins"
        if end == 0:
            return None
        revision, is_first = offsets.revision(number), not before
        span = (before or run.lead.plans(revision).before(end) or 0, end)
        if is_first and span[0] and has_state(run.query):
            raise self._lost_state(span[0])
        return JobBatch(number, begin_millis, digest, span, revision=revision, is_first=is_first)

    # The checkpoint was lost, or the tables were taken back: Spark would go on with sums of the rows from now on only.
    def _lost_state(self, barrier: int) -> ConflictError:
        return ConflictError(
            f"job {self._job.name!r}",
            found=f"a new checkpoint, whose state lacks the records up to barrier {barrier}, for a query that "
            "aggregates, joins or deduplicates",
            expected="the checkpoint that the job had",
            action="Start the job with that checkpoint. If it is lost, drop the job, create its tables again, and "
            "start with a new checkpoint, so that all records come again.",
        )

    def _query_id(self) -> str:
        query_id = self._spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
        if query_id is None:
            raise InvalidError(
                "sink of a job",
                found="a call by nobody's streaming query",
                expected="a query whose foreachBatch is this sink",
                action="Pass the sink to writeStream.foreachBatch.",
            )
        return query_id


class _EtlRun:
    """A query from its first batch to its end. lock: held by a batch, and by the work between batches.

    It has a writer for each table, in the order of the tables, and a thread that renews the registration and, for a
    root, completes barriers while no batch runs. The thread is a daemon and ends within a pause of the query's end;
    `drop_job` waits for it. The run of the writers is the query's id, which the query keeps when it is started
    again; `_registered_run` is the run of the registration, new each time that the job is marked as running.
    """

    def __init__(self, query: StreamingQuery, job: EtlJob, tables: Sequence[SinkTable]) -> None:
        self.query = query
        self.query_id = str(query.id)
        self.writers = [
            JobWriter(part.table, job.name, self.query_id, part.columns, self._mark_running)
            for part in tables
        ]
        self.lead = self.writers[0]
        self.lock = threading.Lock()
        self._job = job
        self._registered_run = ""
        self._mark_running()
        job.keep()
        self._interval_seconds = self.lead.interval_millis / 1000
        self._renewed_at = time.monotonic()
        self._is_over = threading.Event()
        self._keeper = threading.Thread(
            target=self._renew_and_complete, name="widetable-job", daemon=True
        )
        self._keeper.start()

    def _mark_running(self, *_: object) -> None:
        """Mark the job as running, at first and when it was dropped while the query goes on."""
        self._registered_run = self._job.running()

    def drop_job(self) -> None:
        """Drop the job, whose query has ended and will not be started again. Raises nothing; an error is logged."""
        # The thread ends first: a renewal after the drop would register the job again.
        self._is_over.set()
        self._keeper.join()
        try:
            with self.lock:
                if self._job.has_run(self._registered_run):
                    self._check_same_batch()
                    if self._job.is_root:
                        self._complete_all()
                self._job.drop(self._registered_run)
        except Exception:  # in a thread no caller would see it  # noqa: BLE001
            warn(
                _log,
                WarningCode.JOB_NOT_DROPPED,
                "job %s has ended, and its tables wait for it still: start it again, or drop it with "
                "catalog.topology().drop(%r) or `widetable meta drop-job`",
                self._job.name,
                self._job.name,
                level=logging.ERROR,
                exc_info=True,
            )

    def _check_same_batch(self) -> None:
        """Raise ConflictError when only some of the tables have the last batch: the query was stopped between its
        tables.
        """
        last_batches = {writer.table.path: writer.last_batch for writer in self.writers}
        if len(set(last_batches.values())) > 1:
            listed = ", ".join(f"{table} has {batch}" for table, batch in last_batches.items())
            raise ConflictError(
                f"job {self._job.name!r}",
                found=f"tables with different last batches: {listed}",
                expected="the same last batch in all of them",
                action="Start the job again from its checkpoint, so that it finishes the batch.",
            )

    def _complete_all(self) -> None:
        """Complete the barrier of the last rows, which may be open, in each table.

        A table that no other job writes would otherwise get no further, and would never show these rows.

        Two batches within an interval of 10 s, at 12 s and 17 s: the first has the label 10,000 and completes it; the
        second gets 20,000, ahead of the clock, and leaves it open until a tick. A query that stops at 18 s sees no
        tick.
        """
        members = [member for writer in self.writers if (member := writer.member) is not None]
        if members:
            barrier = max(max(member.frontier, member.last) for member in members)
            for writer in self.writers:
                writer.complete(barrier)

    def _renew_and_complete(self) -> None:
        """Renew and complete until the query ends, or another one has the job. A tick during a batch is skipped."""
        while not self._is_over.wait(self._pause_seconds()):
            try:
                if not self.query.isActive:
                    return
                self._renew()
                if self._job.is_root and self.lock.acquire(timeout=self._interval_seconds):
                    try:
                        self._complete()
                    finally:
                        self.lock.release()
            except ConflictError as error:
                warn(
                    _log,
                    WarningCode.JOB_TAKEN_OVER,
                    "job %s is another query's now: %s",
                    self._job.name,
                    error,
                )
                return
            except (PySparkException, Py4JError):  # the session is gone
                return
            except (WidetableError, OSError) as error:
                warn(
                    _log,
                    WarningCode.JOB_NOT_RENEWED,
                    "job %s could not say how far it is: %s",
                    self._job.name,
                    error,
                )

    def _pause_seconds(self) -> float:
        """Return the time to the next tick of the clock for a root, at most to the next renewal.

        A derived job completes barriers by batches only.
        """
        if not self._job.is_root:
            return RENEWAL_MILLIS / 1000
        return min(_until_tick(self._interval_seconds), RENEWAL_MILLIS / 1000)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at >= RENEWAL_MILLIS / 1000:
            self._job.renew()
            self._renewed_at = time.monotonic()

    def _complete(self) -> None:
        """Complete the first table up to the clock, then the others to the same barrier, if all have its last batch."""
        lead, *followers = self.writers
        if any(follower.last_batch != lead.last_batch for follower in followers):
            return
        lead.complete()
        member = lead.member
        for follower in followers:
            if member is not None:
                follower.complete(member.frontier)


@contextmanager
def _evaluated(df: DataFrame, times: int) -> Iterator[None]:
    """Evaluate a batch once, however many tables take rows of it.

    It is evaluated even when all tables have the batch: otherwise Spark would lose the state that it keeps for the next
    batch.
    """
    if times == 0:
        df.write.format("noop").mode("overwrite").save()
    if times < 2:
        yield
        return
    df.persist()
    try:
        yield
    finally:
        df.unpersist()


def _until_tick(interval_seconds: float) -> float:
    """Return the seconds to just after the tick, so that the clock, in milliseconds, has reached the barrier."""
    return interval_seconds - now_millis() / 1000 % interval_seconds + 0.001


def _written(part: SinkTable, rows: DataFrame, storage: Mapping[str, str]) -> TaskResults:
    """Write the files of a batch by tasks. They are in no snapshot yet."""
    naming = {} if part.row_columns is None else {ROW_COLUMNS: part.row_columns}
    options = parse_options({**storage, **naming, PATH: part.table.path})
    tasks = plan_writer(options, rows.schema, is_named=True, owned=part.columns)
    return collected(rows, tasks.write)
