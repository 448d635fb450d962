"""Rows of one data file by key: the protocols between lookups and the sources of rows.

A `FileRows` finds rows in one immutable data file; `Caches` are local copies of data files in which rows are found
without reading the file again. This module has the protocols only: `parquet_rows` implements them for the file itself,
widetable_lookup for caches on the local disk.

A *key batch* is a `pa.RecordBatch` of the trimmed primary key columns, in that order, with the table's names and types,
in key order, each key once. It may have only leading key columns: then all rows with these values match. The result
consists of row batches (ARCHITECTURE.md) in the current schema, in key order.

    key batch    1 4 7 9      file    1 7 7 8 (7 twice: of another writer)     hits    0 2 2     rows    1 7 7
    leading      (1) (7)      file    (1,a) (1,b) (7,a)                        hits    0 0 1     rows    all three
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.write.cache_writer import CacheWriter, CacheWriters
from widetable.write.table_state import TableState

__all__ = ["CacheWriter", "CachedFile", "Caches", "FileRows", "Found"]


class Found(NamedTuple):
    """The rows of a key batch in a file. hits int64[h], ascending: the indices of the keys that the file has, with
    leading columns once for each row. rows: these h rows, including retractions.
    """

    hits: npt.NDArray[np.int64]
    rows: pa.RecordBatch


class FileRows(Protocol):
    """The rows of one data file. Key batches ascend from call to call, so an implementation may read forward only."""

    @property
    def answers_in_any_order(self) -> bool:
        """Whether keys that do not ascend from call to call have no extra cost."""

    def find(self, keys: pa.RecordBatch) -> Found:
        """Return the rows of these keys, with the requested columns that the file has."""

    def close(self) -> None:
        """Close the file. May be called more than once."""


class CachedFile(FileRows, Protocol):
    """The rows of one data file, from its cache."""

    @property
    def columns(self) -> Sequence[str]:
        """The requested columns that the file has, in table order."""

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows in file order, with the requested columns, about batch_bytes at once. They may refer to the
        mapped cache: they stay valid after `close`, and keep it mapped.
        """


class Caches(CacheWriters, Protocol):
    """Local copies of data files, by the name of the immutable file. Thread-safe; shared by the processes of a host."""

    def open(
        self, table: TableState, path: str, file: DataFileMeta, columns: Sequence[str]
    ) -> CachedFile | None:
        """Open the cache of a file; None if there is none (a damaged one is removed). path: of the data file."""

    def forget(self, table: TableState, paths: Iterable[str]) -> None:
        """Drop the caches of data files that a compaction has replaced: they are rarely used again, and every new cache
        competes with the existing ones for space. A reader that has one open can still read it.
        """
