"""What tasks send to the driver: how it travels, and what becomes of its files. Sinks and the batch writer use it.

    format("widetable")    Spark pickles the TaskMessages, and passes them to commit and abort   StreamSink, BatchWriter
    foreachBatch           `collected` runs the tasks, and fetches pickled messages as rows       EtlSink
    both                   BatchCommits of `widetable.connector`, by the number of the batch

Files are deleted only where they are certainly in no snapshot: after an InvalidError, which comes before anything is
published, and where Spark aborts a batch that it has not tried to commit. After any other error the commit may have
succeeded, or Spark may commit the very same files again; they are left to orphan cleaning, as are those of a task that
is lost or retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.datasource import WriterCommitMessage

from widetable import CommitMessage, InvalidError, Table
from widetable.connector import TableSchema, counted
from widetable_spark.frames.exact_names import plainly_named
from widetable_spark.frames.source_options import WatermarkOptions
from widetable_spark.writing.inserted_nulls import check_inserted

# The serializer that Spark uses for the messages of its writers' tasks.
_PICKLER: Final[Any] = CPickleSerializer()
Message = TypeVar("Message")


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """Files of one task. query_id: the streaming query's id, None in batch writes. rows: input rows of the task.
    event_millis: the largest event time, None without one. null_columns: those that are null in all rows, where that
    may not be meant (`inserted_nulls`), else None.
    """

    files: tuple[CommitMessage, ...]
    query_id: str | None
    rows: int
    event_millis: int | None
    null_columns: frozenset[str] | None = None


class TaskResults:
    """The results of the tasks of one batch. messages: in task order, None for a task without one."""

    def __init__(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._tasks = [message for message in messages if isinstance(message, TaskMessage)]
        self._is_complete = all(message is not None for message in messages)

    @property
    def files(self) -> list[CommitMessage]:
        """The files that the tasks wrote, in task order."""
        return [file for task in self._tasks for file in task.files]

    @property
    def query_ids(self) -> set[str]:
        """The ids of the streaming queries that the tasks ran for: one, or none in a batch write."""
        return {task.query_id for task in self._tasks if task.query_id}

    def only_query_id(self) -> str:
        """Return the id of the streaming query. Raises InvalidError if the tasks do not agree on one."""
        query_ids = self.query_ids
        if len(query_ids) != 1:
            raise InvalidError(
                "streaming query",
                found=f"{counted(len(query_ids), 'query id')} in the tasks' messages",
                expected="one query id",
                action="Set .option('commit-user', ...) to a name that only this query uses.",
            )
        return next(iter(query_ids))

    def watermark(self, options: WatermarkOptions | None) -> int | None:
        """Return the epoch milliseconds before which the tasks expect no more rows; None if they do not know.

        The watermark of a snapshot never decreases: where it would, the committer keeps the previous one.
        """
        times = [task.event_millis for task in self._tasks if task.event_millis is not None]
        return max(times) - options.delay_millis if options is not None and times else None

    def check_nulls(self, schema: TableSchema) -> None:
        """Raise InvalidError for nulls that an INSERT may not have meant.

        A column counts that is null in all rows of all tasks; tasks without rows are ignored. Columns [a, b] null in
        one task and [b] in another: b.
        """
        null_columns = [
            task.null_columns for task in self._tasks if task.rows and task.null_columns is not None
        ]
        if null_columns:
            check_inserted(schema, frozenset.intersection(*null_columns))

    @contextmanager
    def discarded_if_refused(self, table: Table) -> Iterator[None]:
        """Delete the files when the block raises InvalidError."""
        try:
            yield
        except InvalidError:
            table.discard(self.files)
            raise

    def discard_uncommitted(self, table: Callable[[], Table]) -> None:
        """Delete the files when Spark calls abort, but only when commit cannot have been called: then a message is
        missing.

        After a commit that raised, Spark calls abort with all messages, and the commit may have succeeded (spark.md
        section 2).
        """
        if not self._is_complete:
            table().discard(self.files)


def collected(
    rows: DataFrame, write: Callable[[Iterator[pa.RecordBatch]], TaskMessage]
) -> TaskResults:
    """Run tasks that write the rows, in a job of Spark, and return their results. Raises what the job raises."""
    return TaskResults(collected_messages(rows, write))


def collected_messages(
    rows: DataFrame, write: Callable[[Iterator[pa.RecordBatch]], Message]
) -> list[Message]:
    """Run tasks that take the rows, and return what each of them returns, in task order. Raises what the job raises."""
    names = rows.columns

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = write(batch.rename_columns(names) for batch in batches)
        sent = {"message": [_PICKLER.dumps(message)]}
        yield pa.RecordBatch.from_pydict(sent, pa.schema({"message": pa.binary()}))

    pickled = plainly_named(rows).mapInArrow(send, "message binary").collect()
    return [_PICKLER.loads(row["message"]) for row in pickled]
