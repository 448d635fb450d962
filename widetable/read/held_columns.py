"""Finds the columns that the data files of a scan hold. All others are null in every row, whatever is merged. Partition
columns always have values: those of the file's partition.

In: split reads. Out: the names of their columns that some file holds, by the files' footers. A file names its columns
by the schema of its writer, so columns are compared by field id: a renamed column is held under its old name, and a new
column with the name of a dropped one is not. NOT NULL columns count as held.

A data file never changes and its name is never reused, so the fields in a footer are cached by path: one bit for each
field id. Thread-safe. Raises what opening a data file raises.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_reader import open_data_file
from widetable.read.expired import files_of
from widetable.read.split import SplitRead
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.worker_thread import in_threads
from widetable.write.table_state import TableState

# Footers are requests to an object store, which answers many at once.
_THREADS: Final = 16
_MAX_BYTES: Final = 16 << 20
# The size of an entry without its bits: the path, the int and the slot of the dict.
_ENTRY_BYTES: Final = 400


class FileFields(SharedByThreads):
    """The field ids of data files, by path. The least recently used are dropped first."""

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._fields: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def get(self, path: str) -> int | None:
        """Return the bits of a file; bit i is set if it holds the field with id i. None: not cached."""
        with self._lock:
            bits = self._fields.get(path)
            if bits is not None:
                self._fields.move_to_end(path)
            return bits

    def keep(self, path: str, bits: int) -> None:
        with self._lock:
            if path not in self._fields:
                self._fields[path] = bits
                self._bytes += _size_bytes(bits)
            while self._bytes > _MAX_BYTES:
                self._bytes -= _size_bytes(self._fields.popitem(last=False)[1])


FILE_FIELDS: Final = FileFields()


def held_columns(reads: Sequence[SplitRead]) -> frozenset[str]:
    """Return the columns of reads that at least one file contains; the others are null in all rows.

    It reads the footers of files that it has not seen before, several at once.

    Parameters
    ----------
    reads : list of SplitRead
        Reads of one scan.

    Returns
    -------
    frozenset of str
        Their names.
    """
    if not reads:
        return frozenset()
    table, columns = reads[0].table, reads[0].columns
    files = [(read, file) for read in reads for file in read.split.files]
    bits = 0
    for each in in_threads(lambda pair: _fields_of(*pair), files, _THREADS, "footers"):
        bits |= each
    fields = [table.schema.field(name) for name in columns]
    by_partition = frozenset(table.schema.partition_keys)
    return frozenset(
        field.name
        for field in fields
        if bits >> field.id & 1 or not field.type.nullable or field.name in by_partition
    )


def hold_partition_columns(reads: Sequence[SplitRead]) -> list[bool]:
    """Return for each read whether all its files contain the partition columns that it gives.

    A reader of such files without this package would otherwise find nulls. It reads footers as `held_columns` does, but
    none if no partition column is requested.

    Parameters
    ----------
    reads : list of SplitRead
        Reads of one scan.

    Returns
    -------
    list of bool
        One entry for each read.
    """
    if not reads:
        return []
    schema = reads[0].table.schema
    requested = [name for name in reads[0].columns if name in schema.partition_keys]
    if not requested:
        return [True] * len(reads)
    needed = sum(1 << schema.field(name).id for name in requested)
    files = [(at, file) for at, read in enumerate(reads) for file in read.split.files]
    bits = in_threads(lambda pair: _fields_of(reads[pair[0]], pair[1]), files, _THREADS, "footers")
    holds = [True] * len(reads)
    for (at, _), each in zip(files, bits, strict=True):
        holds[at] &= each & needed == needed
    return holds


def _fields_of(read: SplitRead, file: DataFileMeta) -> int:
    table, bucket = read.table, read.split.bucket
    path = table.data_file(bucket, file.file_name)
    bits = FILE_FIELDS.get(path)
    if bits is None:
        with files_of(table, read.split.snapshot_id):
            bits = _fields_in_footer(table, bucket, file)
        FILE_FIELDS.keep(path, bits)
    return bits


def _fields_in_footer(table: TableState, bucket: BucketId, file: DataFileMeta) -> int:
    """Return the bits of a file from its footer. The deletion vector is left out: it does not affect the columns."""
    schema, meta = table.schema_of(file.schema_id), file._replace(deleted=None)
    bits = 0
    # Opened with the schema of the file, so that no column is renamed or cast.
    path, partition = table.data_file(bucket, file.file_name), bucket.partition
    with open_data_file(table.file_io, path, meta, schema, schema, partition=partition) as opened:
        for name in opened.columns:
            if name not in opened.columns_of_partition:
                bits |= 1 << schema.by_name[name].id
    return bits


def _size_bytes(bits: int) -> int:
    return _ENTRY_BYTES + bits.bit_length() // 8
