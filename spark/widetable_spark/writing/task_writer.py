"""What batch and streaming writes share: the rows of one task become level-0 files, whose commit messages travel to the
driver (`task_results`).

Lifecycle (spark.md sections 2 and 3): the planner process makes `TaskWriter`, checks columns and takes the base of the
sequence numbers once for all tasks; the writer is pickled to the tasks; commit and abort run in a third process.

The base must be the same in all tasks of a commit, and taken before any of them writes: tasks take turns at the numbers
above it by their number (`write/sequence.py`), so no two rows share one. A task that is retried has the same numbers as
before, and its first files are in no message. Raises InvalidError in both, and what writing files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from widetable import InvalidError
from widetable.connector import WritePlan, plan_write
from widetable_spark.frames.column_path import names_path
from widetable_spark.frames.declared_options import COLUMNS
from widetable_spark.frames.event_time import check_event_time, largest_event_time
from widetable_spark.frames.source_options import SourceOptions, WatermarkOptions
from widetable_spark.frames.spark_types import check_collations, checked_arrow_schema
from widetable_spark.startup.worker_heap import settle
from widetable_spark.writing.task_results import TaskMessage

# A local property that Spark sets for all jobs of a streaming query (spark.md section 3).
QUERY_ID_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True)
class TaskWriter:
    """Writes the batches of one task; picklable. `plan_writer` makes it.

    plan: what all tasks share, and what they write. may_be_insert: whether nulls are checked.
    """

    plan: WritePlan
    watermark: WatermarkOptions | None
    may_be_insert: bool

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write all rows of the task.

        If it fails it deletes the files that it has written; those of a worker that is killed are left to orphan
        cleaning.
        """
        settle()
        context = TaskContext.get()
        query_id = context.getLocalProperty(QUERY_ID_PROPERTY) if context else None
        # Spark does not tell a task how many there are.
        writer = self.plan.task(context.partitionId() if context else 0)
        rows = 0
        event_times: list[int] = []
        null_columns = frozenset(self.plan.columns) if self.may_be_insert else None
        try:
            for batch in iterator:
                rows += batch.num_rows
                writer.write(batch)
                if null_columns is not None:
                    null_columns = _null_in(batch, null_columns)
                if self.watermark is not None:
                    event_times += largest_event_time(batch.column(self.watermark.column))
            event_millis = max(event_times, default=None)
            return TaskMessage(tuple(writer.finish()), query_id, rows, event_millis, null_columns)
        except BaseException:
            writer.abort()
            raise


def plan_writer(
    options: SourceOptions,
    schema: StructType,
    *,
    is_named: bool = False,
    owned: Sequence[str] | None = None,
) -> TaskWriter:
    """Check in the planner, before any row is read, that a DataFrame of `schema` may be written.

    schema: of the DataFrame, of which option `columns` may take a part. is_named: the commit will name its writer, as
    commits of tables under barriers must. owned: the columns besides the key that the writer writes, None for all.
    Raises InvalidError for unknown, missing or duplicate columns and for column sets that break a sequence group,
    UnsupportedError for text with a collation, and for types that no Arrow type holds.
    """
    columns = options.columns or tuple(n for n in schema.names if n != options.row_columns)
    selected = StructType([schema[name] for name in columns if name in schema.names])
    if len(selected) < len(columns):
        raise InvalidError(
            f"option {COLUMNS!r}",
            found=next(name for name in columns if name not in schema.names),
            expected=f"columns of the DataFrame: {', '.join(schema.names)}",
            action="Correct the names.",
        )
    check_collations(selected)
    # Spark sends all columns, also those that are not written.
    sent = checked_arrow_schema(schema, "Cast or drop the column before the write.")
    plan = plan_write(
        options.table(),
        sent,
        columns,
        options.row_kind,
        named=is_named,
        row_columns=options.row_columns,
        owned=owned,
    )
    if options.watermark is not None:
        check_event_time(sent, options.watermark.column)
    is_whole = options.columns is None and options.row_columns is None
    return TaskWriter(plan, options.watermark, is_whole and names_path(schema, options.path))


def _null_in(batch: pa.RecordBatch, columns: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in columns if batch.column(name).null_count == batch.num_rows)
