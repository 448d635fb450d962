"""The second layer: a streaming query that reads what changes in the wide table and keeps carrier_hourly.

Per micro-batch Spark sums the signed changes of each key (`signed_deltas`); the driver looks up the
rows that are there, adds, and writes what comes out in one commit whose identifier is the number of
the batch. Spark runs a batch again when it cannot know whether it was done. Then the commit is found,
and nothing is looked up or written: a second addition would be wrong, because the rows that are there
hold the first one already.

To show it, `SecondLayer.fail_once` lets a batch fail right after its commit, before Spark notes that it
is done: the worst moment. A new query on the same checkpoint begins with that batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from examples.flights.carrier_hourly import (
    DELTA_SCHEMA,
    HOURLY_KEY,
    READ_SCHEMA,
    changed_rows,
    signed_deltas,
)
from examples.flights.micro_batch import MicroBatch, last_batch, micro_batches
from examples.flights.workspace import Workspace

COMMIT_USER = CHECKPOINT = "second-layer"
_TRIGGER = "500 milliseconds"
_POLL_SECONDS = 0.2
_MAX_FAILED_STARTS = 5


@dataclass(frozen=True)
class Restart:
    """at: when the new query was started, epoch seconds. again: batches it ran again and found to be in."""

    at: float
    again: tuple[int, ...]


@dataclass(frozen=True)
class LayerRun:
    """What the second layer did, both its queries together; each batch once, in order."""

    batches: tuple[MicroBatch, ...]
    restart: Restart | None


class PlannedFailure(Exception):
    """Raised once, on purpose, by the query of the second layer."""


def next_snapshot(batch: MicroBatch) -> int:
    """The first snapshot of the wide table whose changes are not all in this batch or those before it."""
    return int(json.loads(batch.end_offset)["next_snapshot"])


class SecondLayer:
    """The query that runs now, and the one before it. Used by one thread."""

    def __init__(
        self, spark: SparkSession, workspace: Workspace, wide: wt.Table, hourly: wt.Table
    ) -> None:
        self._spark = spark
        self._checkpoint = workspace.checkpoint(CHECKPOINT).resolve()
        self._wide = wide
        self._hourly = hourly
        self._query: StreamingQuery | None = None
        self._done: dict[int, MicroBatch] = {}
        self._again: list[int] = []
        self._plan = _LayerPlan.NONE
        self._restarted_at: float | None = None
        self._failed_starts = 0

    def start(self) -> None:
        """Begin with the first change that the table will tell, or where the checkpoint is."""
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", CHECKPOINT)
        changes = (
            self._spark.readStream.format("widetable")
            .schema(READ_SCHEMA)
            .option("path", self._wide.path)
            .option("read.changelog", "true")
            .load()
        )
        self._query = (
            changes.writeStream.foreachBatch(self._absorb)
            .option("checkpointLocation", str(self._checkpoint))
            .queryName(CHECKPOINT)
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

    def finish(self, last_snapshot: int) -> LayerRun:
        """Wait until the changes of `last_snapshot` are in, stop, and tell what was done."""
        while not self.has_read(last_snapshot):
            self.check()
            time.sleep(_POLL_SECONDS)
        assert self._query is not None
        self._query.stop()
        self._keep_batches(self._query)
        at = self._restarted_at
        return LayerRun(
            batches=tuple(self._done[id] for id in sorted(self._done)),
            restart=None if at is None else Restart(at, tuple(self._again)),
        )

    def has_read(self, snapshot_id: int) -> bool:
        """Whether the changes of the wide table up to this snapshot, at least one, are in."""
        last = None if self._query is None else last_batch(self._query)
        return last is not None and next_snapshot(last) > snapshot_id > 0

    def _keep_batches(self, query: StreamingQuery) -> None:
        self._done.update({batch.batch_id: batch for batch in micro_batches(query)})

    def _absorb(self, changes: DataFrame, batch_id: int) -> None:
        """One micro-batch. Called by a thread of Spark's."""

        def deltas() -> pa.Table:
            return signed_deltas(changes).toArrow().cast(DELTA_SCHEMA)

        added = add_once(self._hourly, batch_id, deltas)
        if added is Added.BEFORE:
            self._again.append(batch_id)
        elif added is Added.NOW and self._plan is _LayerPlan.FAIL:
            self._plan = _LayerPlan.FAILED
            raise PlannedFailure(f"batch {batch_id} is committed, and Spark is not to know")


class _LayerPlan(Enum):
    """Of the failure on purpose."""

    NONE = 0
    FAIL = 1
    FAILED = 2
    OVER = 3


class Added(Enum):
    """What a batch brought: something, nothing that counts, or what is in already."""

    NOW = 0
    NOTHING = 1
    BEFORE = 2


def add_once(hourly: wt.Table, batch_id: int, deltas: Callable[[], pa.Table]) -> Added:
    """Bring what a batch adds into the table, unless it is in already: then nothing is read or written.

    deltas: gives `DELTA_SCHEMA`. A batch that adds nothing commits nothing.
    """
    if hourly.find_commit(COMMIT_USER, batch_id) is not None:
        return Added.BEFORE
    added = deltas()
    present = hourly.lookup(added.select(HOURLY_KEY))
    result = hourly.write(changed_rows(added, present), COMMIT_USER, batch_id)
    return Added.NOW if result.committed else Added.NOTHING
