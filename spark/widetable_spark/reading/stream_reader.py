"""Streaming read of `format("widetable")`: rows or changes of snapshots, as they are committed.

The state of a stream is its offset (widetable.read.stream_plan), which Spark keeps in the checkpoint. A batch follows
from its two offsets alone, so it is the same when it is replayed. Without a checkpoint a consumer's progress decides.
One reader lives as long as the query, in a process of its own on the driver; another one is made for the tasks, which
use the partition's value (spark.md section 4).

Spark asks for the newest offset some 95 times a second: the table is looked at every 100 ms at most. Progress of the
consumer is recorded in `commit`, which Spark calls when the next batch begins: after a crash without a checkpoint the
last batches come again, none is lost.

    driver, one process per query    initialOffset, latestOffset, partitions, commit, stop    has a position
    tasks                            read(partition)                                          have none

Both are the same class, made from options and schema: the position is made when it is first needed, so it is never
pickled and never made in a task. The option `barrier.job` determines which of the two classes of positions it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from widetable import UnsupportedError
from widetable.connector import (
    ChangeStream,
    Limits,
    StreamRead,
    barrier_stream,
    change_stream,
    derived_value,
    sample_stream,
)
from widetable_spark.frames.column_path import check_columns
from widetable_spark.frames.source_options import SourceOptions, check_read_columns
from widetable_spark.frames.spark_types import arrow_schema, spark_batches
from widetable_spark.reading.changed_rows import changed_rows
from widetable_spark.startup.source_order import RoundCount
from widetable_spark.startup.spark_version import (
    HAS_LIMITS,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from widetable_spark.startup.worker_heap import settle

# Shown for limits that Spark has no class for; the limits of the options apply.
_ANY_ROWS = 2**63 - 1


@dataclass(frozen=True)
class ChangePartition:
    """The reads of one task, in this order."""

    reads: tuple[StreamRead, ...]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream. schema: columns of the table, then those of changes where changes are read.

    Raises UnsupportedError for limits that the installed Spark cannot keep, InvalidError for an option `columns` beside
    other columns.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        check_read_columns(options, self._columns)
        if not HAS_LIMITS and options.stream.limits != Limits():
            raise UnsupportedError(
                "options read.stream.max*",
                found=f"one of them with Spark {VERSION}",
                expected="Spark 4.2 or newer, which limits batches of a Python data source",
                action="Remove the option, or install a newer pyspark.",
            )

    @property
    def _columns(self) -> list[str]:
        return self._options.changed_columns(self._schema.names)

    @derived_value
    def _position(self) -> ChangeStream:
        table, stream = self._options.table(), self._options.stream
        check_columns(self._schema, self._options.path, table.schema.column_ids)
        job = self._options.barrier_job
        if job is None:
            opened = sample_stream if self._options.feeds_samples else change_stream
            return opened(table, self._columns, stream.start, stream.consumer_id)
        if not HAS_LIMITS:  # plans are stored by where a batch begins
            raise UnsupportedError(
                "sources of a job",
                found=f"Spark {VERSION}, which does not say where a batch begins",
                expected="Spark 4.2 or newer",
                action="Install a newer pyspark.",
            )
        return barrier_stream(table, job, self._columns, RoundCount, self._options.storage_dict)

    def initialOffset(self) -> dict[str, Any]:
        return self._position.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        self._position.stop_at_newest()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark shows, and gives back to `latestOffset`.

        Its class does not matter there, unless it is ReadAllAvailable. Several limits at once, and snapshots, have no
        class: they are shown as rows.
        """
        limits = self._options.stream.limits
        if limits == Limits():
            return ReadAllAvailable()
        if limits.files is not None and limits == Limits(files=limits.files):
            return ReadMaxFiles(limits.files)
        if limits.bytes is not None and limits == Limits(bytes=limits.bytes):
            return ReadMaxBytes(limits.bytes)
        return ReadMaxRows(limits.rows or _ANY_ROWS)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the batch ends.

        For the trigger `once` Spark passes ReadAllAvailable, which takes all rows whatever the options say.
        """
        if start is None:  # before Spark 4.2
            return self._position.unguided_end()
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._options.stream.limits
        return self._position.next_end(start, limits)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._position.newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [
            InputPartition(ChangePartition(reads)) for reads in self._position.tasks(start, end)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        target = arrow_schema(self._schema)
        for read in partition.value.reads:
            for batch in changed_rows(read, self._options):
                yield from spark_batches(batch, target)

    def commit(self, end: dict[str, Any]) -> None:
        self._position.record(end)

    def stop(self) -> None:
        if "_position" in self.__dict__:
            self._position.close()
