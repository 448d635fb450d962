"""Rows of one data file by key, read from the Parquet file itself, for files without a cache.

In: key batches that ascend from call to call. Out: their rows, including -U and -D. Row groups whose key range excludes
all keys are skipped; of the others the key is read first, and the other columns only if a key was found. The last row
group stays open between calls, so that ascending key batches read each row group once; earlier rows are read again.
Memory: the keys of one row group, one batch of its other columns, and the rows found.

Raises the errors of open_data_file, and DamagedError for a file that is not in key order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.bucket_id import BucketId
from widetable.format.damaged_file import damaged_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import DataFile
from widetable.kernels.array_types import Positions
from widetable.kernels.key_match import RowsOutOfOrder, match_keys
from widetable.lsm.file_rows import Found
from widetable.lsm.key_bounds import bounds_of_row_groups
from widetable.messages.counted import counted
from widetable.storage.kept_inputs import KeptInputs
from widetable.write.table_state import TableState

# Small batches, as rows that were not requested are decoded, too.
_BATCH_BYTES: Final = 4 << 20


class ParquetRows:
    """A FileRows (lsm.file_rows). columns: requested table columns; the key is added. Not for several threads.

    use_threads: let Arrow decode columns on several cores.
    """

    def __init__(
        self,
        table: TableState,
        bucket: BucketId,
        file: DataFileMeta,
        columns: Sequence[str],
        *,
        use_threads: bool = False,
    ) -> None:
        self._path = table.data_file(bucket, file.file_name)
        self._data = table.opened(bucket, file, columns, inputs=KeptInputs(table.file_io))
        try:
            self._keys = self._data.narrowed(())
            self._bounds = bounds_of_row_groups(self._data.row_group_key_ranges(), table.schema)
        except BaseException:
            self.close()
            raise
        self._key_names = table.schema.trimmed_primary_key
        self._use_threads = use_threads
        self._group: _RowGroup | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows."""
        return self._data.columns

    @property
    def stored_columns(self) -> int:
        """The number of columns in the file."""
        return self._data.stored_columns

    @property
    def answers_in_any_order(self) -> bool:
        return False

    def find(self, keys: pa.RecordBatch) -> Found:
        """Return the rows of these keys; all of them for a key that the file has several times (from other writers)."""
        all_hits = [np.empty(0, np.int64)]
        pieces: list[pa.RecordBatch] = []
        for share in self._bounds.shares(keys):
            hits, rows = self._row_group(share.place).find(share.keys)
            all_hits.append(hits + share.start)
            pieces += rows
        hits = np.concatenate(all_hits)
        # The order within a row group is checked when keys are matched; the order of groups here.
        if np.any(np.diff(hits) < 0):
            raise _out_of_order(self._path)
        return Found(hits, joined(pieces, self._data.schema))

    def row_numbers(self, keys: pa.RecordBatch) -> Positions:
        """Return the positions of the rows of these keys, ascending, from 0 on; deleted rows are not counted."""
        groups = np.cumsum([0, *self._data.row_group_rows])
        numbers = [np.empty(0, np.int64)]
        for share in self._bounds.shares(keys):
            _, positions = self._row_group(share.place).match(share.keys)
            numbers.append(positions + groups[share.place])
        return np.concatenate(numbers)

    def close(self) -> None:
        """Close the file."""
        self._group = None
        self._data.close()

    def _row_group(self, index: int) -> _RowGroup:
        if self._group is None or self._group.index != index:
            self._group = None  # frees its memory before the next one is read
            self._group = _RowGroup(
                self._path,
                self._data,
                self._keys,
                index,
                self._key_names,
                use_threads=self._use_threads,
            )
        return self._group


class _RowGroup:
    """One row group: its keys are in memory, the other columns are read forward up to the requested rows."""

    def __init__(
        self,
        path: str,
        data: DataFile,
        keys: DataFile,
        index: int,
        key_names: Sequence[str],
        *,
        use_threads: bool,
    ) -> None:
        self.index = index
        self._path = path
        self._data = data
        self._keys = joined(list(keys.batches(row_groups=[index])), keys.schema)
        self._key_columns = [self._keys.column(name) for name in key_names]
        self._use_threads = use_threads
        self._is_checked = False
        # The last batch that was read, and the row of the group at which it starts.
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: pa.RecordBatch | None = None
        self._first_row = 0
        if keys.columns == data.columns:
            self._batch = self._keys

    def find(self, keys: pa.RecordBatch) -> tuple[Positions, list[pa.RecordBatch]]:
        """Return the indices of the keys that the group has, and their rows."""
        hits, positions = self.match(keys)
        return hits, list(self._rows(positions))

    def match(self, keys: pa.RecordBatch) -> tuple[Positions, Positions]:
        """Return the indices of the keys that the group has, and the positions of their rows in the group."""
        try:
            hits, positions = match_keys(
                keys.columns,
                self._key_columns[: keys.num_columns],
                check_order=not self._is_checked,
            )
        except RowsOutOfOrder as cause:
            raise _out_of_order(self._path) from cause
        self._is_checked = keys.num_columns == len(self._key_columns) or self._is_checked
        return hits, positions

    def _rows(self, positions: Positions) -> Iterator[pa.RecordBatch]:
        """Yield rows of the group by their positions, which ascend."""
        while len(positions):
            batch = self._batch_of(int(positions[0]))
            count = int(np.searchsorted(positions, self._first_row + batch.num_rows))
            here = positions[:count] - self._first_row
            yield batch if count == batch.num_rows else batch.take(pa.array(here))
            positions = positions[count:]

    def _batch_of(self, row: int) -> pa.RecordBatch:
        """Return the batch with this row. Going back, which ascending keys never do, reads from the beginning."""
        if self._batch is None or row < self._first_row:
            self._batches = self._data.batches(
                _BATCH_BYTES, [self.index], use_threads=self._use_threads
            )
            self._batch, self._first_row = self._next_batch(), 0
        while row >= self._first_row + self._batch.num_rows:
            self._first_row += self._batch.num_rows
            self._batch = self._next_batch()
        return self._batch

    def _next_batch(self) -> pa.RecordBatch:
        batch = next(self._batches, None)
        if batch is None:
            raise damaged_file(
                self._path,
                f"columns of row group {self.index} that end before its key",
                f"{counted(self._keys.num_rows, 'row')} in every column",
            )
        return batch


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return batches of this schema as one batch; copied only if there are several."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _out_of_order(path: str) -> DamagedError:
    return damaged_file(path, "a key smaller than the one before it", "rows in key order")
