"""What `foreachBatch` of a job's query calls: writes the rows of a batch by tasks, and commits them in the driver.

Each batch is in once per table (`job_writer`); who dies between two tables does the rest when Spark runs the batch
again. While the query is active and no batch runs, a root says at each tick of the clock that nothing is to come of the
barriers before, and its registration is renewed. Raises InvalidError for columns that are not the job's, and what
commits raise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from widetable import (
    CommitMessage,
    ConflictError,
    InvalidError,
    NotFoundError,
    Table,
    Topology,
    WidetableError,
)
from widetable.connector import BarrierPlans, JobBatch, JobWriter, instance, interval_of, refused
from widetable_spark.query_offsets import QueryOffsets
from widetable_spark.source_options import PATH, parse_options
from widetable_spark.task_writer import QUERY_ID_PROPERTY, TaskWriter, plan_writer

# As Spark brings what tasks of its writers say.
_PICKLER: Final[Any] = CPickleSerializer()
_RENEWAL_SECONDS: Final = 20.0
_log = logging.getLogger("widetable.spark")


@dataclass(frozen=True)
class SinkTable:
    """rows: makes them of those of the batch; None: they are these. columns: that the job writes besides the key, None
    for all.
    """

    table: Table
    rows: Callable[[DataFrame], DataFrame] | None
    columns: tuple[str, ...] | None


class EtlSink:
    """Made by `Etl.sink`; called by Spark, batch by batch."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        job: str,
        tables: Sequence[SinkTable],
        storage: Mapping[str, str],
        declare: Callable[[], object],
        *,
        is_root: bool,
    ) -> None:
        """declare: says what the job reads and writes."""
        self._spark = spark
        self._declare = declare
        self._topology = topology
        self._job = job
        self._tables = tables
        self._storage = storage
        self._is_root = is_root
        self._run: _EtlRun | None = None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        begin_millis = time.time_ns() // 1_000_000
        run = self._run_of(self._query_id())
        with run.turn:
            batch = self._batch(run, batch_id, begin_millis)
            missing = [batch is not None and not writer.has(batch) for writer in run.writers]
            with _evaluated(df, sum(missing)):
                if batch is not None:
                    self._commit(run, batch, df, missing)
        if batch is not None and batch.span is not None:
            run.plans(batch.revision).forget(batch.span[0])

    def _commit(
        self, run: _EtlRun, batch: JobBatch, df: DataFrame, missing: Sequence[bool]
    ) -> None:
        lead = None
        for part, writer, is_missing in zip(self._tables, run.writers, missing, strict=True):
            rows = df if part.rows is None else part.rows(df)
            files = _written(part, rows, self._storage) if is_missing else []
            writer.commit(files, batch, lead)
            lead = writer.member if self._is_root and lead is None else lead

    def follow(self, query: StreamingQuery) -> None:
        """Take a query as running before its first batch, for a root that may be idle when it is started again: its
        tables wait for no rows of it then.
        """
        query_id = str(instance(query, StreamingQuery, "query").id)
        if not query.isActive:
            raise refused(query, "query", "one that is active")
        self._run_of(query_id)

    def _run_of(self, query_id: str) -> _EtlRun:
        """A query is taken as running with its first batch."""
        if self._run is None or self._run.query_id != query_id or not self._run.query.isActive:
            query = self._spark.streams.get(query_id)
            assert query is not None, "the query that calls is there"
            writers = [
                JobWriter(p.table, self._job, query_id, p.columns, self._back) for p in self._tables
            ]
            self._topology.running(self._job)
            self._topology.keep()
            self._run = _EtlRun(query, query_id, writers, self._job, self._topology, self._is_root)
        return self._run

    def _back(self, job: str, *_: object) -> None:
        """Where nobody waits for it: at first, or as somebody has dropped it while it goes on."""
        with suppress(NotFoundError):
            self._topology.running(job)
            return
        self._declare()
        self._topology.running(job)

    def _batch(self, run: _EtlRun, number: int, begin_millis: int) -> JobBatch | None:
        """None for what Spark runs first where the sources have no barrier in common yet: it belongs to none."""
        offsets = QueryOffsets(run.query)
        digest = offsets.digest(number)
        if self._is_root:
            offsets.check_outside(number)
            return JobBatch(number, begin_millis, digest)
        end, before = offsets.barrier(number), offsets.barrier(number - 1)
        assert end is not None, "Spark notes where a batch ends before it begins"
        if end == 0:
            return None
        revision, is_first = offsets.revision(number), not before
        span = (before or run.plans(revision).before(end) or 0, end)
        return JobBatch(number, begin_millis, digest, span, revision=revision, is_first=is_first)

    def _query_id(self) -> str:
        query_id = self._spark.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
        if query_id is None:
            raise InvalidError(
                "sink of a job",
                found="a call by nobody's streaming query",
                expected="a query that has it as foreachBatch",
                action="Give it to writeStream.foreachBatch.",
            )
        return query_id


class _EtlRun:
    """A query from its first batch to its end. turn: a batch, or what is done between batches."""

    def __init__(
        self,
        query: StreamingQuery,
        query_id: str,
        writers: Sequence[JobWriter],
        job: str,
        topology: Topology,
        is_root: bool,
    ) -> None:
        self.query = query
        self.query_id = query_id
        self.writers = writers
        lead = writers[0].table
        self.turn = threading.Lock()
        self._job = job
        self._topology = topology
        self._is_root = is_root
        self._interval_seconds = interval_of(lead.schema, lead.path) / 1000
        self._renewed_at = time.monotonic()
        threading.Thread(target=self._keep, name="widetable-job", daemon=True).start()

    def plans(self, revision: int | None) -> BarrierPlans:
        """Of the job, behind a revision of its tables."""
        lead = self.writers[0].table
        return BarrierPlans(lead._file_io, lead._paths, self._job, revision or 0)

    def _keep(self) -> None:
        """Until the query ends, or another one has the job."""
        while True:
            wait_seconds = _RENEWAL_SECONDS
            if self._is_root:
                wait_seconds = min(_until_tick(self._interval_seconds), wait_seconds)
            time.sleep(wait_seconds)
            try:
                if not self.query.isActive:
                    return
                self._renew()
                if self._is_root and self.turn.acquire(timeout=self._interval_seconds):
                    try:
                        self._complete()
                    finally:
                        self.turn.release()
            except ConflictError as error:
                _log.warning("job %s is another query's now: %s", self._job, error)
                return
            except (PySparkException, Py4JError):  # the session is gone
                return
            except (WidetableError, OSError) as error:
                _log.warning("job %s could not say how far it is: %s", self._job, error)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at >= _RENEWAL_SECONDS:
            self._topology.renew(self._job)
            self._topology.keep()
            self._renewed_at = time.monotonic()

    def _complete(self) -> None:
        """The first table to the clock, then the others to where that is, if all have its last batch."""
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
    """A batch is evaluated once, however many tables take rows of it; where all have it, too: what Spark
    keeps of it for the next batch is lost otherwise.
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
    """Just behind it."""
    return interval_seconds - time.time() % interval_seconds + 0.001


def _written(part: SinkTable, rows: DataFrame, storage: Mapping[str, str]) -> list[CommitMessage]:
    """The files of a batch, written by tasks."""
    options = parse_options({**storage, PATH: part.table.path})
    tasks = plan_writer(options, rows.schema, is_named=True)
    _check_columns(part, tasks)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = _PICKLER.dumps(tasks.write(batches).files)
        yield pa.RecordBatch.from_pydict({"files": [message]}, pa.schema({"files": pa.binary()}))

    found = rows.mapInArrow(write, "files binary").collect()
    return [file for row in found for file in _PICKLER.loads(row["files"])]


def _check_columns(part: SinkTable, tasks: TaskWriter) -> None:
    if part.columns is None:
        return
    owned = {*part.columns, *part.table.schema.primary_keys, tasks.row_kind}
    other = [column for column in tasks.columns if column not in owned]
    if other:
        raise InvalidError(
            f"column {other[0]!r}",
            found=f"a column of {part.table.path} that the job has not said it writes",
            expected=f"some of {', '.join(sorted(owned))}",
            action="Leave it out of the rows, or name it in etl.sink(.., columns=..).",
        )
