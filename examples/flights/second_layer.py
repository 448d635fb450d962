"""The second layer: a streaming query that reads what changes in the wide table and keeps carrier_hourly.

Per micro-batch Spark sums the signed changes of each key (`signed_deltas`); the driver looks up the
rows that are there, adds, and writes what comes out in one commit whose identifier is the number of
the batch. Spark runs a batch again when it cannot know whether it was done. Then the commit is found,
and nothing is looked up or written: a second addition would be wrong, because the rows that are there
hold the first one already.

`SecondLayer.restart` stops the query half-way and starts a new one on the same checkpoint. It takes
away Spark's note that the last batch was done, as if the process had died just before writing it; so
the new query begins with a batch whose commit is in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import widetable as wt
from examples.flights.carrier_hourly import (
    DELTA_SCHEMA,
    HOURLY_KEY,
    HOURLY_NAME,
    HOURLY_OPTIONS,
    HOURLY_SCHEMA,
    READ_SCHEMA,
    changed_rows,
    signed_deltas,
)
from examples.flights.micro_batch import MicroBatch, micro_batches
from examples.flights.workspace import Workspace

COMMIT_USER = "second-layer"
_TRIGGER = "500 milliseconds"
_POLL_SECONDS = 0.1
_MAX_FAILED_STARTS = 5


@dataclass(frozen=True)
class Restart:
    """at: when the new query was started, epoch seconds. again: batches it ran again and found to be in."""

    at: float
    again: tuple[int, ...]


@dataclass(frozen=True)
class LayerRun:
    """What the second layer did, all its queries together; each batch once, in order."""

    batches: tuple[MicroBatch, ...]
    restart: Restart | None


def create_hourly_table(workspace: Workspace) -> wt.Table:
    """A new, empty `nyc.carrier_hourly` in the workspace's warehouse."""
    return wt.Catalog(str(workspace.warehouse)).create_table(
        HOURLY_NAME, HOURLY_SCHEMA, primary_key=list(HOURLY_KEY), options=HOURLY_OPTIONS
    )


def next_snapshot(batch: MicroBatch) -> int:
    """The first snapshot of the wide table whose changes are not all in this batch or those before it."""
    return int(json.loads(batch.end_offset)["next_snapshot"])


class SecondLayer:
    """The query that runs now, and the one before it. Used by one thread."""

    def __init__(
        self, spark: SparkSession, workspace: Workspace, wide: wt.Table, hourly: wt.Table
    ) -> None:
        self._spark = spark
        self._checkpoint = workspace.checkpoint("second-layer").resolve()
        self._wide = wide
        self._hourly = hourly
        self._query: StreamingQuery | None = None
        self._done: dict[int, MicroBatch] = {}
        self._again: list[int] = []
        self._restarted_at: float | None = None
        self._failed_starts = 0

    @property
    def is_ready_to_restart(self) -> bool:
        """Whether it was not restarted yet, and there is a batch that could run again."""
        return self._restarted_at is None and bool(self._batches())

    def start(self) -> None:
        """Begin with the first change that the table will tell."""
        self._query = self._start()

    def restart(self) -> None:
        """Stop the query wherever it is; start a new one on the same checkpoint, as if the old one had died.

        An error of the old one is left to the new one: it runs the same batch again.
        """
        self._stop()
        forget_last_batch(self._checkpoint)
        self._restarted_at = time.time()
        self._query = self._start()

    def check(self) -> None:
        """Raise the query's own error, if it failed. One that never came to its first batch is started again.

        Spark gives the Python process of a source ten seconds to begin, too few on a busy machine.
        """
        error = None if self._query is None else self._query.exception()
        if error is None:
            return
        if self._batches() or self._failed_starts == _MAX_FAILED_STARTS:
            raise error
        self._failed_starts += 1
        self._query = self._start()

    def finish(self, last_snapshot: int) -> LayerRun:
        """Wait until the changes of `last_snapshot` are in, stop, and tell what was done."""
        while not any(next_snapshot(batch) > last_snapshot for batch in self._batches()):
            self.check()
            time.sleep(_POLL_SECONDS)
        self._stop()
        at = self._restarted_at
        return LayerRun(
            batches=tuple(self._done[id] for id in sorted(self._done)),
            restart=None if at is None else Restart(at, tuple(self._again)),
        )

    def _batches(self) -> list[MicroBatch]:
        return [] if self._query is None else micro_batches(self._query)

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        for batch in self._batches():
            self._done.setdefault(batch.batch_id, batch)

    def _start(self) -> StreamingQuery:
        changes = (
            self._spark.readStream.format("widetable")
            .schema(READ_SCHEMA)
            .option("path", self._wide.path)
            .option("read.changelog", "true")
            .load()
        )
        return (
            changes.writeStream.foreachBatch(self._absorb)
            .option("checkpointLocation", str(self._checkpoint))
            .queryName("second layer")
            .trigger(processingTime=_TRIGGER)
            .start()
        )

    def _absorb(self, changes: DataFrame, batch_id: int) -> None:
        """One micro-batch."""

        def deltas() -> pa.Table:
            return signed_deltas(changes).toArrow().cast(DELTA_SCHEMA)

        if not add_once(self._hourly, batch_id, deltas):
            self._again.append(batch_id)


def add_once(hourly: wt.Table, batch_id: int, deltas: Callable[[], pa.Table]) -> bool:
    """Bring what a batch adds into the table, unless it is in already: then nothing is read or written.

    deltas: gives `DELTA_SCHEMA`. Whether it was new. A batch that adds nothing commits nothing.
    """
    if hourly.find_commit(COMMIT_USER, batch_id) is not None:
        return False
    added = deltas()
    present = hourly.lookup(added.select(HOURLY_KEY))
    hourly.write(changed_rows(added, present), COMMIT_USER, batch_id)
    return True


def forget_last_batch(checkpoint: Path) -> None:
    """Remove Spark's note that the last batch that was begun is done, if it is done."""
    begun, done = _batch_ids(checkpoint / "offsets"), _batch_ids(checkpoint / "commits")
    if begun and done and max(begun) == max(done):
        for name in (f"{max(done)}", f".{max(done)}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


def _batch_ids(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
