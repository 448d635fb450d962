"""Which rows below a compaction count no more, because their keys are in the rows that it writes.

In: the keys that come from level 0, and the sorted runs below that stay. Out: per file of these runs with such keys its
new deletion vector: what was deleted before, and the rows of the keys. So every key is in one row above level 0, and a
reader need not merge (docs/decisions/0033). Memory: the keys of one row group, the row numbers of one file.
Raises what reading data files raises.

    keys from level 0   2 5 9
    file at level 5     1 2 3 | 5 6, row 4 (key 6) deleted before      new vector: rows 1, 3, 4

Vectors only grow while a file stays. That two compactions do not add to one at the same time is
for the commit to find out: a message names the file with the vector that was read.
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

# Makes the keys anew, for each run: batches that ascend, each key once.
Keys: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]


def marked_files(
    state: TableState, bucket: BucketId, runs: Sequence[SortedRun], keys: Keys
) -> Iterator[tuple[DataFileMeta, bytes]]:
    """Files of which rows are to go, as they are, and their vectors from then on.

    A file whose rows with these keys are all deleted already is left out.
    """
    is_wide = state.options.get(opt.DELETION_VECTORS_BITMAP64)
    for run in runs:
        for file, found in _found(state, bucket, run, keys()):
            before = np.empty(0, np.int64)
            if file.deleted is not None:
                before = deleted_rows(state.file_io, file.deleted)
            rows = np.union1d(before, found)
            if len(rows) > len(before):
                yield file, encode_vector(rows, wide=is_wide)


def _found(
    state: TableState, bucket: BucketId, run: SortedRun, keys: Iterable[pa.RecordBatch]
) -> Iterator[tuple[DataFileMeta, RowNumbers]]:
    """The files of a run with rows of these keys, deleted ones too. One file is open at a time."""
    files = [file for section in sections(run.files, state.schema) for file in section.files]
    bounds = bounds_of_files(files, state.schema)
    at, found = -1, list[RowNumbers]()
    rows: ParquetRows | None = None
    try:
        for batch in keys:
            for index, _, wanted in bounds.shares(batch):
                if index != at or rows is None:
                    if rows is not None:
                        rows.close()
                        yield files[at], np.concatenate(found)
                    at, found = index, []
                    rows = _all_rows(state, bucket, files[index])
                found.append(rows.row_numbers(wanted))
        if rows is not None:
            yield files[at], np.concatenate(found)
    finally:
        if rows is not None:
            rows.close()


def _all_rows(state: TableState, bucket: BucketId, file: DataFileMeta) -> ParquetRows:
    """Numbered as they lie in the file."""
    return ParquetRows(state, bucket, file._replace(deleted=None), ())
