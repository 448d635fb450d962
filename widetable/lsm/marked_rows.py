"""The older rows that a compaction marks as deleted, because it writes newer rows of their keys.

In: the keys from level 0, and the older sorted runs that stay. Out: the new deletion vector of each file of these runs
that has such keys: the rows that were deleted before, and those of the keys. So every key has one row above level 0,
and a reader need not merge (docs/decisions/0033). Memory: the keys of one row group, the row numbers of one file.
Raises the errors of reading data files.

    keys from level 0   2 5 9
    file at level 5     1 2 3 | 5 6, row 4 (key 6) deleted before      new vector: rows 1, 3, 4

Vectors only grow while a file stays. The commit checks that no other compaction extended the vector meanwhile: a
message names the file with the vector that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.deletion_vector import RowNumbers, deleted_rows, encode_vector
from widetable.lsm.key_bounds import bounds_of_files
from widetable.lsm.parquet_rows import ParquetRows
from widetable.lsm.sorted_run import SortedRun, sections
from widetable.schema import options as opt
from widetable.write.table_state import TableState

# Returns the keys, again for each run: batches that ascend, each key once.
Keys: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]


def marked_files(
    state: TableState, bucket: BucketId, runs: Sequence[SortedRun], keys: Keys
) -> Iterator[tuple[DataFileMeta, bytes]]:
    """Yield the files with rows to delete, unchanged, each with its new vector.

    A file whose rows with these keys are all deleted already is left out.
    """
    is_wide = state.options.get(opt.DELETION_VECTORS_BITMAP64)
    for run in runs:
        for file, numbers in _matching_rows(state, bucket, run, keys()):
            before = np.empty(0, np.int64)
            if file.deleted is not None:
                before = deleted_rows(state.file_io, file.deleted)
            rows = np.union1d(before, numbers)
            if len(rows) > len(before):
                yield file, encode_vector(rows, wide=is_wide)


def _matching_rows(
    state: TableState, bucket: BucketId, run: SortedRun, keys: Iterable[pa.RecordBatch]
) -> Iterator[tuple[DataFileMeta, RowNumbers]]:
    """Yield the files of a run with the row numbers of these keys, also deleted rows. Opens one file at a time."""
    files = [file for section in sections(run.files, state.schema) for file in section.files]
    bounds = bounds_of_files(files, state.schema)
    at, numbers = -1, list[RowNumbers]()
    rows: ParquetRows | None = None
    try:
        for batch in keys:
            for index, _, share_keys in bounds.shares(batch):
                if index != at or rows is None:
                    if rows is not None:
                        rows.close()
                        yield files[at], np.concatenate(numbers)
                    at, numbers = index, []
                    rows = _all_rows(state, bucket, files[index])
                numbers.append(rows.row_numbers(share_keys))
        if rows is not None:
            yield files[at], np.concatenate(numbers)
    finally:
        if rows is not None:
            rows.close()


def _all_rows(state: TableState, bucket: BucketId, file: DataFileMeta) -> ParquetRows:
    """Open a file without its deletion vector, so that rows are numbered by their position in the file."""
    return ParquetRows(state, bucket, file._replace(deleted=None), ())
