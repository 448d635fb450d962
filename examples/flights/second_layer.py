"""The second layer: a derived job that reads what changes in the wide table and keeps carrier_hourly.

Its source and its sink go by barriers (`widetable_spark.etl`): a micro-batch is what changed from one barrier of the
wide table to another, and its rows belong to that barrier in carrier_hourly. So both tables can be read at one moment.
Spark keeps the sums of each key (`hourly_rows`). It runs a batch again when it cannot know whether it was done. Then
its commit is found in the table, and nothing is written.

To show it, `SecondLayer.fail_once` lets a batch fail right after its commit, before Spark notes that it
is done: the worst moment. A new query on the same checkpoint begins with that batch.

Before a batch is written its flights are in the one table, and their counts surely not in the other: there the newest
rows of both are looked at.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
import widetable_spark
from examples.flights.barrier_looks import BarrierChecker
from examples.flights.carrier_hourly import HOURLY_NAME, READ_COLUMNS, hourly_rows
from examples.flights.micro_batch import MicroBatch, last_batch, micro_batches
from examples.flights.wide_table import TABLE_NAME
from examples.flights.workspace import Workspace

JOB = "second-layer"
_QUERY_ID = "sql.streaming.queryId"  # a local property of the thread that runs a batch
_TRIGGER = "250 milliseconds"
_MAX_FAILED_STARTS = 5


@dataclass(frozen=True)
class Restart:
    """at: when the new query was started, epoch seconds. again: batches it ran again and found to be in."""

    at: float
    again: tuple[int, ...]


@dataclass(frozen=True)
class LayerRun:
    """What the second layer did, both its queries together; each batch once, in order."""

    query_id: str
    batches: tuple[MicroBatch, ...]
    restart: Restart | None


class PlannedFailure(Exception):
    """Raised once, on purpose, by the query of the second layer."""


def end_barrier(batch: MicroBatch) -> int:
    """The barrier of the wide table up to which all of its changes are in this batch or those before it."""
    return int(json.loads(batch.end_offset)["barrier"])


class SecondLayer:
    """The query that runs now, and the one before it. Used by one thread."""

    def __init__(
        self, spark: SparkSession, workspace: Workspace, hourly: wt.Table, looks: BarrierChecker
    ) -> None:
        self._spark = spark
        self._workspace = workspace
        self._hourly = hourly
        self._looks = looks
        self._query: StreamingQuery | None = None
        self._done: dict[int, MicroBatch] = {}
        self._again: list[int] = []
        self._plan = _LayerPlan.NONE
        self._restarted_at: float | None = None
        self._failed_starts = 0

    def start(self) -> None:
        """Begin with the first barrier of the table, or where the checkpoint is."""
        etl = widetable_spark.etl(self._spark, self._workspace.warehouse, JOB)
        changes = etl.changes(TABLE_NAME, READ_COLUMNS)
        sink = etl.sink(HOURLY_NAME)

        def absorb(rows: DataFrame, batch_id: int) -> None:
            """One micro-batch. Called by a thread of Spark's."""
            if not self._looks.taken.disagreements:
                self._looks.uncommitted()
            is_again = self._has(batch_id)
            sink(rows, batch_id)
            if is_again:
                self._again.append(batch_id)
            elif self._plan is _LayerPlan.FAIL and self._has(batch_id):
                self._plan = _LayerPlan.FAILED
                raise PlannedFailure(f"batch {batch_id} is committed, and Spark is not to know")

        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", JOB)
        self._query = (
            hourly_rows(changes)
            .writeStream.outputMode("update")
            .foreachBatch(absorb)
            .option("checkpointLocation", str(self._workspace.checkpoint(JOB).resolve()))
            .queryName(JOB)
            .trigger(processingTime=_TRIGGER)
            .start()
        )

    def fail_once(self) -> None:
        """Let the next batch that commits something fail right after its commit. Only the first call counts."""
        if self._plan is _LayerPlan.NONE:
            self._plan = _LayerPlan.FAIL

    def check(self) -> None:
        """Start the query again after the planned failure. Raises its own error, if it failed otherwise.

        One that never came to its first batch is started again too: Spark gives the Python process of a
        source ten seconds to begin, too few on a busy machine.
        """
        query = self._query
        error = None if query is None else query.exception()
        if query is None or error is None:
            return
        if self._plan is _LayerPlan.FAILED:
            self._plan = _LayerPlan.OVER
            self._restarted_at = time.time()
        elif last_batch(query) is None and self._failed_starts < _MAX_FAILED_STARTS:
            self._failed_starts += 1
        else:
            raise error
        self._keep_batches(query)
        self.start()

    def finish(self) -> LayerRun:
        """Stop, and say what was done."""
        assert self._query is not None
        self._query.stop()
        self._keep_batches(self._query)
        at = self._restarted_at
        return LayerRun(
            query_id=str(self._query.id),
            batches=tuple(self._done[id] for id in sorted(self._done)),
            restart=None if at is None else Restart(at, tuple(self._again)),
        )

    def _has(self, batch_id: int) -> bool:
        """Whether its commit is in. Called where a batch runs."""
        query_id = self._spark.sparkContext.getLocalProperty(_QUERY_ID) or ""
        return self._hourly.find_commit(query_id, batch_id) is not None

    def _keep_batches(self, query: StreamingQuery) -> None:
        self._done.update({batch.batch_id: batch for batch in micro_batches(query)})


class _LayerPlan(Enum):
    """Of the failure on purpose."""

    NONE = 0
    FAIL = 1
    FAILED = 2
    OVER = 3
