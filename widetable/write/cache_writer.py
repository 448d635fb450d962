"""What copies a data file's rows into a lookup cache while the file is written; lsm.file_rows has the reading side.

Protocols only. An implementation never fails the writer of the data file: an error drops the cache, and says so.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.write.table_state import TableState


class CacheWriter(Protocol):
    """Of one data file: `write` its rows in file order, then `close`, or `abort`."""

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Rows of the data file, in file order."""

    def close(self, file: DataFileMeta) -> None:
        """The file is complete: put the cache in place."""

    def abort(self) -> None:
        """Leave nothing behind."""


class CacheWriters(Protocol):
    """Gives the writer for one data file after the other."""

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        """For the file at `path`, which is being written or read; None when there is no room.
        table, path: name the file; its meta is known only at `close`.
        """
