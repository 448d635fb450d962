"""Rows of one data file by key: the contract between who looks rows up and who knows where they lie.

A `FileRows` answers for one immutable data file; `Caches` are the local copies of data files that answer without
reading the file again. This module has the protocols only: `parquet_rows` answers from the file itself,
widetable_lookup from caches on the local disk.

A *key batch* is a `pa.RecordBatch` of the trimmed primary key columns, in that order, by the table's names and types,
in key order, each key once; or of its leading columns only, which asks for all rows that have them. What comes back
are row batches (ARCHITECTURE.md) in the current schema, in key order.

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
    """hits int64[h], ascending: which keys of the batch the file has, with leading columns once for each row; rows:
    these h rows, retractions too.
    """

    hits: npt.NDArray[np.int64]
    rows: pa.RecordBatch


class FileRows(Protocol):
    """One data file. Key batches of successive calls ascend: an implementation may read the file front to back once."""

    @property
    def answers_in_any_order(self) -> bool:
        """Whether keys that do not ascend from call to call cost no more."""

    def find(self, keys: pa.RecordBatch) -> Found:
        """The rows of these keys, with the columns that it was opened for as far as the file has them."""

    def close(self) -> None:
        """Let go of what is open. May be called more than once."""


class CachedFile(FileRows, Protocol):
    """One data file, from its cache."""

    @property
    def columns(self) -> Sequence[str]:
        """The table columns that it has, of those that it was opened for, in table order."""

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """All rows in file order, with the columns that it was opened for, about batch_bytes at once. They may lie
        in the mapped cache: they stay valid after `close`, and keep it mapped.
        """


class Caches(CacheWriters, Protocol):
    """Local copies of data files, by the name of the immutable file. Thread-safe; shared by the processes of a host."""

    def open(
        self, table: TableState, path: str, file: DataFileMeta, columns: Sequence[str]
    ) -> CachedFile | None:
        """The cache of a file, None when there is none (or it is damaged, and removed then). path: of the data file."""

    def forget(self, table: TableState, paths: Iterable[str]) -> None:
        """Let go of the caches of data files that compaction has replaced: hardly anybody asks for them again, and
        every new cache is weighed against all that are there. Who has one open goes on reading it.
        """
