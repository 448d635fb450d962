"""Batch write of `format("widetable")`: mode append adds rows; mode overwrite replaces the table, or the partitions
that the data has (table option `dynamic-partition-overwrite`).

    planner     BatchWriter(..)     columns are checked, the base of sequence numbers is taken
    each task   write(..)           files at level 0; no reader sees them
    committer   commit(messages)    one snapshot with all files, or, if a task failed for good, abort(messages)

The three are separate processes and share only the pickled writer and the messages (spark.md section 2). A task that
failed and was retried leaves the files of its first attempt to orphan cleaning.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from widetable_spark.frames.source_options import SourceOptions
from widetable_spark.writing.inserted_nulls import check_left_out
from widetable_spark.writing.task_results import TaskResults
from widetable_spark.writing.task_writer import plan_writer


class BatchWriter(DataSourceArrowWriter):
    """One commit for the whole DataFrame. A batch job has no identifier of its own: run twice, it commits twice.

    With the options `commit-user` and `commit-identifier` it commits once, however often it runs; with the user alone
    repeated runs are not recognized. Raises InvalidError when it is made, before any row is read, for columns and
    options that do not fit; in `commit` what commits raise.
    """

    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        options.check_appends(batch=True, overwrite=overwrite)
        options.check_identified(batch=True)
        self._options = options
        self._overwrite = overwrite
        self._tasks = plan_writer(options, schema)
        if self._tasks.may_be_insert:
            check_left_out(self._tasks.plan.table.schema, self._tasks.plan.columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        table, results = self._options.table(), TaskResults(messages)
        with results.discarded_if_refused(table):
            results.check_nulls(table.schema)
        commit = table.commit_overwrite if self._overwrite else table.commit_append
        commit(
            results.files,
            commit_user=self._options.commit_user,
            commit_identifier=self._options.commit_identifier,
            watermark=results.watermark(self._options.watermark),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        TaskResults(messages).discard_uncommitted(self._options.table)
