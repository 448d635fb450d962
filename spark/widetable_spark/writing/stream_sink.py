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

    killed before commit          batch 7 is repeated, its earlier files are orphans
    killed after the snapshot     batch 7 is repeated, its digest is found: nothing is committed, its new files go
    commit raised                 Spark calls abort with all messages, which deletes none; the query ends

Raises InvalidError for columns, options, or a different batch under the same number, ConflictError of jobs and commits,
and what else commits raise. Files are deleted only where they are certainly in no snapshot: both errors are raised
before anything is published, and tasks of a batch that is repeated have written other files than those of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from widetable import InvalidError, Table
from widetable.connector import (
    BatchCommits,
    JobBatch,
    batch_commits,
    now_millis,
    root_commits,
)
from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.queries.batch_digest import batch_digest
from widetable_spark.startup.spark_version import StreamArrowWriter
from widetable_spark.writing.task_results import TaskResults
from widetable_spark.writing.task_writer import plan_writer


class StreamSink(StreamArrowWriter):
    """The writer of one micro-batch: each gets a new one, so its sequence numbers sort after everything published
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
        table, results = self._options.table(), TaskResults(messages)
        try:
            # If the table has the batch already, or another job conflicts, the files are left to `remove_orphan_files`:
            # Spark may commit the very same files again, whose first commit succeeded.
            with results.discarded_if_refused(table):
                digest = batch_digest(self._options.checkpoint, batchId, results.query_ids)
                watermark = results.watermark(self._options.watermark)
                batch = JobBatch(batchId, self._begin_millis, digest, watermark=watermark)
                self._commits(table, results).commit(results.files, batch)
        except InvalidError as error:
            raise InvalidError(
                f"batch {batchId} of checkpoint {self._options.checkpoint!r}: {error.subject}",
                found=error.found,
                expected=error.expected,
                action=error.action,
                code=error.code,
            ) from error

    def _commits(self, table: Table, results: TaskResults) -> BatchCommits:
        """Return the commits of the query: of a root with one table where option `barrier.writer` names it.

        The run is the query's id, which the query keeps when it is started again, while the commit user may be an
        option. Spark ends this process when it has been idle for a minute, and may otherwise use it for other queries
        when this one has ended, so each batch makes its own.
        """
        name, user = self._options.barrier_writer, self._options.commit_user
        if name is None:
            run = user or results.only_query_id()
            return batch_commits(
                table, run, self._tasks.plan.columns, user=user, overwrite=self._overwrite
            )
        keys = {*table.schema.primary_keys, self._tasks.plan.row_kind}
        columns = [column for column in self._tasks.plan.columns if column not in keys]
        return root_commits(table, name, results.only_query_id(), columns, user=user)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        TaskResults(messages).discard_uncommitted(self._options.table)
