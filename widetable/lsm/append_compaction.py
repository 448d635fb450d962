"""Carries out a compaction of an append table: rows of small files go into larger ones, unchanged and in order. Never
commits.

In: the steps of `append_plan`; out: a CommitMessage with the files before and after. A column that a row's file lacks
is null. Deleted rows are left out. In a bucket with an order the numbers of the new files lie between those of the old
ones, so no neighbour changes its place. Memory: a batch of rows, and a row group of the writer. Raises the errors of
reading and writing data files; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_COMPACT, DataFileMeta
from widetable.lsm.bucket_plan import Plan
from widetable.schema.table_schema import SEQUENCE_NUMBER
from widetable.storage.memory_pool import prefer_system_pool
from widetable.write.append.file_columns import file_columns, more_bounded_columns
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState


def compact_appended(
    state: TableState, bucket: BucketId, total_buckets: int, plan: Plan
) -> CommitMessage:
    """Carry out the plan; return the message for the commit. The arguments are those of `compact_bucket`."""
    prefer_system_pool()
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    try:
        for step in plan:
            after += concatenated(state, bucket, step.files)
            before += step.files
    except BaseException:
        discard_files(state, bucket, after)
        raise
    return CommitMessage(
        *bucket, total_buckets, compact_before=tuple(before), compact_after=tuple(after)
    )


def concatenated(
    state: TableState, bucket: BucketId, files: Sequence[DataFileMeta]
) -> tuple[DataFileMeta, ...]:
    """Write the rows of the files, in their order, to new files, and return these."""
    writer = RollingWriter(
        state,
        bucket,
        columns_of(state, bucket, files),
        level=0,
        file_source=FILE_SOURCE_COMPACT,
        bounded=more_bounded_columns(state, files),
    )
    rows = (rows for file in files for rows in rows_of(state, bucket, file))
    return writer.write_all(numbered(rows, files))


def rows_of(state: TableState, bucket: BucketId, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are not deleted, as row batches."""
    with state.opened(bucket, file) as data:
        yield from data.batches()


def columns_of(state: TableState, bucket: BucketId, files: Sequence[DataFileMeta]) -> Sequence[str]:
    """Return the columns of new files with the rows of these."""
    present: set[str] = set()
    for file in files:
        with state.opened(bucket, file) as data:
            present.update(data.columns)
    return file_columns(state, present)


def numbered(
    batches: Iterator[pa.RecordBatch], files: Sequence[DataFileMeta]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with ascending numbers in the range of the files that they come from."""
    number = min(file.min_sequence_number for file in files)
    last = max(file.max_sequence_number for file in files)
    for rows in batches:
        numbers = np.minimum(np.arange(number, number + rows.num_rows, dtype=np.int64), last)
        number += rows.num_rows
        at = rows.schema.get_field_index(SEQUENCE_NUMBER)
        yield rows.set_column(at, rows.schema.field(at), pa.array(numbers))
