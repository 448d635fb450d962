"""Rows of one sorted run by key: each key batch is led to the files of the run that may hold its keys.

In: key batches that ascend from call to call (others are answered too, for more reads). Files are opened when keys come
to them and closed when keys have passed them, so that one or two are open at a time. Raises what reading data files
raises, and DamagedError for a run whose files overlap.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from widetable.lsm.file_rows import FileRows, Found
from widetable.lsm.key_bounds import bounds_of_files
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.sorted_run import SortedRun, sections
from widetable.schema import TableSchema


class RunRows:
    """expected_keys: about how many keys all calls will look for, over the whole run; None when nobody knows."""

    def __init__(
        self,
        opener: RowsOpener,
        run: SortedRun,
        schema: TableSchema,
        expected_keys: int | None = None,
    ) -> None:
        self._opener = opener
        # In key order, and sure not to overlap.
        self._files = [file for section in sections(run.files, schema) for file in section.files]
        self._bounds = bounds_of_files(self._files, schema)
        self._keys_per_row = (expected_keys or 0) / max(run.rows, 1)
        self._open: dict[int, FileRows] = {}

    def find(self, keys: pa.RecordBatch) -> list[Found]:
        """What each file has of the keys, in key order. hits count in `keys`."""
        starts, ends = self._bounds.slices(keys)
        found = []
        for index in np.flatnonzero(ends > starts).tolist():
            start, count = int(starts[index]), int(ends[index] - starts[index])
            self._close_before(index)
            hits, rows = self._file_rows(index, count).find(keys.slice(start, count))
            if len(hits):
                found.append(Found(hits + start, rows))
        return found

    def close(self) -> None:
        """Let go of all files. May be called more than once."""
        self._close_before(len(self._files))

    def _close_before(self, index: int) -> None:
        for passed in [each for each in self._open if each < index]:
            self._open.pop(passed).close()

    def _file_rows(self, index: int, keys: int) -> FileRows:
        if index not in self._open:
            file = self._files[index]
            expected = int(self._keys_per_row * file.row_count)
            self._open[index] = self._opener.open(file, max(keys, expected))
        return self._open[index]
