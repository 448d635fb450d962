"""Streaming write of `format("widetable")`, exactly once: identifier = Spark's batch id, user =
option `commit-user` or the query's id.

Spark replays a batch with the same id after any failure between `offsets` and `commits` of its
checkpoint (spark.md section 3); a batch whose
identifier is already in the table commits nothing. The query id is not known where commit runs, so
it rides in the tasks' messages.
Output mode append adds rows; complete replaces the table in every batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from widetable import InvalidError, Table
from widetable_spark.source_options import SourceOptions
from widetable_spark.task_writer import (
    TaskMessage,
    discard_failed,
    files_of,
    plan_writer,
    watermark_of,
)


class StreamSink(DataSourceStreamArrowWriter):
    """Made anew for every micro-batch, so its sequence numbers sort after all that was published before."""

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._tasks = plan_writer(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        table = Table.open(self._options.path)
        user, watermark = self._user(messages), watermark_of(messages, self._options)
        if self._overwrite:
            table.commit_overwrite(
                files_of(messages),
                commit_user=user,
                commit_identifier=batchId,
                whole_table=True,
                watermark=watermark,
            )
        else:
            table.commit_append(
                files_of(messages),
                commit_user=user,
                commit_identifier=batchId,
                watermark=watermark,
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        discard_failed(self._options.path, messages)

    def _user(self, messages: list[WriterCommitMessage | None]) -> str:
        if self._options.commit_user:
            return self._options.commit_user
        users = {
            message.query_id
            for message in messages
            if isinstance(message, TaskMessage) and message.query_id
        }
        if len(users) != 1:
            raise InvalidError(
                "streaming query",
                found=f"{len(users)} query ids in the tasks' messages",
                expected="one query id",
                action="Set .option('commit-user', ...) to a name that only this query uses.",
            )
        return users.pop()
