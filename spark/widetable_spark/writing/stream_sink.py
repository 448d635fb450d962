"""Streaming write of `format("widetable")`, exactly once: the commit's identifier is Spark's batch id, its user is
option `commit-user` or the query's id.

Spark replays a batch with the same id after any failure between `offsets` and `commits` of its checkpoint (spark.md
section 3); a batch that is in the table already commits nothing. It is recognized by its digest (`batch_digest`): a
different batch of the same id, of another checkpoint or of one that was put back, is an InvalidError. The query id is
not known where commit runs, so the tasks' messages carry it. Output mode append adds rows; complete replaces the table
in every batch. With option `barrier.writer` the rows of a batch belong to the barrier that the clock was in when it was
planned, and complete it (`widetable.operations.barriers.job_writer`).

    offsets/7 is written    planner: StreamSink(..)    tasks: write    commit(messages, 7)    commits/7 is written
                                                                       one snapshot

    killed before commit          batch 7 comes again, its earlier files are orphans
    killed after the snapshot     batch 7 comes again, its digest is found: nothing is committed, its new files go
    commit raised                 Spark calls abort with all messages, which deletes none; the query ends

Raises InvalidError for columns, options, or a different batch under the same number, ConflictError of jobs and commits,
and what else commits raise. Files are deleted only where they are certainly in no snapshot: both errors are raised
before anything is published, and tasks of a batch that comes again have written other files than those of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from widetable import CommitMessage, InvalidError, Table
from widetable.connector import (
    LOOKUP_WAIT,
    JobBatch,
    JobWriter,
    WriterClaim,
    counted,
    now_millis,
    table_name,
    wait_for_changelogs,
    warn_of_new_query,
)
from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.queries.batch_digest import batch_digest
from widetable_spark.startup.spark_version import StreamArrowWriter
from widetable_spark.writing.task_writer import (
    discard_failed,
    files_of,
    plan_writer,
    tasks_of,
    watermark_of,
)


class StreamSink(StreamArrowWriter):
    """The writer of one micro-batch: it is made anew for each, so its sequence numbers sort after everything published
    before.
    """

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        options.check_appends(batch=False, overwrite=overwrite)
        options.check_identified(batch=False)
        self._options = options
        self._overwrite = overwrite
        self._tasks = plan_writer(options, schema, is_named=options.barrier_writer is not None)
        # The batch is planned now: its label and its duration count from here.
        self._begin_millis = now_millis()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        table = self._options.table()
        try:
            # If the table has the batch already, or another job conflicts, the files are left to `remove_orphan_files`:
            # Spark may commit the very same files again, whose first commit succeeded.
            self._commit_batch(table, messages, batchId)
        except InvalidError as error:
            table.discard(files_of(messages))
            raise InvalidError(
                f"batch {batchId} of checkpoint {self._options.checkpoint!r}: {error.subject}",
                found=error.found,
                expected=error.expected,
                action=error.action,
                code=error.code,
            ) from error

    def _commit_batch(
        self, table: Table, messages: list[WriterCommitMessage | None], number: int
    ) -> None:
        files = files_of(messages)
        query_ids = {task.query_id for task in tasks_of(messages) if task.query_id}
        user = self._options.commit_user or _only_query_id(query_ids)
        digest = batch_digest(self._options.checkpoint, number, query_ids)
        watermark = watermark_of(messages, self._options)
        if self._options.barrier_writer is not None:
            batch = JobBatch(number, self._begin_millis, digest, None, watermark)
            self._commit_of_barrier(table, files, _only_query_id(query_ids), batch)
        elif self._overwrite:
            table.commit_overwrite(
                files, user, number, whole_table=True, watermark=watermark, digest=digest
            )
        else:
            if number == 0 and self._options.commit_user is None:
                warn_of_new_query(table, user, self._tasks.columns)
            table.commit_append(files, user, number, watermark=watermark, digest=digest)

    def _commit_of_barrier(
        self, table: Table, files: list[CommitMessage], query_id: str, batch: JobBatch
    ) -> None:
        """Commit the batch as a root job with one table.

        The run of the job is the query's id, which the query keeps when it is started again, while the commit user may
        be an option. Batches renew the registration; nothing does between them: Spark ends this process when it has
        been idle for a minute, and may otherwise use it for other queries when this one has ended. So a query without a
        batch for a minute is not seen as alive; its table holds its columns as long as it waits for it.
        """
        name = self._options.barrier_writer or ""
        keys = {*table.schema.primary_keys, self._tasks.row_kind}
        columns = [column for column in self._tasks.columns if column not in keys]
        name_parts = table_name(table.path)
        claim = WriterClaim(table, name_parts[1] if name_parts else table.path)
        claim.renew(name, tuple(columns), query_id)
        user = self._options.commit_user
        JobWriter(table, name, query_id, columns, claim.register, user).commit(files, batch)
        if table.schema.typed_options.get(LOOKUP_WAIT):
            wait_for_changelogs(table.path)  # Spark may kill this process at any time

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        discard_failed(self._options, messages)


def _only_query_id(query_ids: set[str]) -> str:
    if len(query_ids) != 1:
        raise InvalidError(
            "streaming query",
            found=f"{counted(len(query_ids), 'query id')} in the tasks' messages",
            expected="one query id",
            action="Set .option('commit-user', ...) to a name that only this query uses.",
        )
    return next(iter(query_ids))
