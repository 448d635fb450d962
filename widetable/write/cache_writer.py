"""Protocols for copying a data file's rows into a lookup cache while the file is written; lsm.file_rows reads it.

An implementation never fails the writer of the data file: after an error it drops the cache and logs that.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.write.table_state import TableState


class CacheWriter(Protocol):
    """The cache writer of one data file: `write` its rows in file order, then `close`, or `abort`."""

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Add rows of the data file, in file order."""

    def close(self, file: DataFileMeta) -> None:
        """Publish the cache: the file is complete."""

    def abort(self) -> None:
        """Leave nothing behind."""


class CacheWriters(Protocol):
    """Creates the cache writers of data files."""

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        """Create the cache writer of the file at `path`, which is being written or read; None if there is no space.
        The metadata of the file is known only at `close`.
        """
