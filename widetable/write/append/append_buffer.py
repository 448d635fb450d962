"""Collects the rows of an append table's writer by bucket, and writes them to few files, in bounded memory.

In: row batches of buckets, in the order of writing. Out: the data files of each bucket, rows in that order.

    a few buckets     written as they come: each has an open file
    many buckets      rows wait in memory, then on the local disk; `finish` writes one bucket after the other

An open file holds a row group, so only `_OPEN_FILES` are open at once. A bucket whose rows were spilled once is written
at the end, because its older rows come first. Waiting rows take half of the memory budget at most; the other half is
for open files. Raises StorageError when a disk refuses, InvalidError for a row that is too wide. After an error, and
before files are committed, `abort` removes all files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.row_budget import check_row, memory_bytes, row_bytes
from widetable.runtime.worker_thread import in_threads
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.spill_space import SpilledRun, SpillSpace
from widetable.write.table_state import TableState

_OPEN_FILES: Final = 4
# Batches with fewer rows are joined.
_ENOUGH_ROWS: Final = 16 << 10
# An Arrow batch takes so much memory beside its values, for each column.
_OVERHEAD_BYTES_PER_COLUMN: Final = 200


@dataclass
class _Waiting:
    """The rows of one bucket that are in no file yet: those on disk, then those in memory. file: the open file."""

    bucket: BucketId
    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    spilled: list[SpilledRun] = field(default_factory=list)
    file: RollingWriter | None = None

    def joined(self) -> Sequence[pa.RecordBatch]:
        """Take the rows from memory, as few batches: each batch costs time in a file."""
        batches, self.batches, self.bytes = self.batches, [], 0
        rows = sum(batch.num_rows for batch in batches)
        if rows >= _ENOUGH_ROWS * len(batches):
            return batches
        joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return joined

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in their order."""
        for run in self.spilled:
            yield from run.batches()
        yield from self.joined()


class AppendBuffer:
    """The rows of one writer. columns: of its files. Not thread-safe, except that `finish` uses threads itself."""

    def __init__(self, state: TableState, columns: Sequence[str], budget_bytes: int) -> None:
        self._state = state
        self._columns = tuple(columns)
        self._budget_bytes = budget_bytes
        self._waiting: dict[BucketId, _Waiting] = {}
        self._waiting_bytes = 0
        self._open_files = 0
        self._space = SpillSpace()
        self._written: dict[BucketId, tuple[DataFileMeta, ...]] = {}

    def add(self, bucket: BucketId, rows: pa.RecordBatch) -> None:
        """Add rows of one bucket, after all that were added."""
        check_row(row_bytes(rows), self._budget_bytes, "a row that is written")
        size = memory_bytes(rows) + _OVERHEAD_BYTES_PER_COLUMN * rows.num_columns
        waiting = self._waiting.setdefault(bucket, _Waiting(bucket))
        waiting.batches.append(rows)
        waiting.bytes += size
        self._waiting_bytes += size
        if self._waiting_bytes > self._budget_bytes // 2:
            self._drain()

    def finish(self, threads: int) -> dict[BucketId, tuple[DataFileMeta, ...]]:
        """Write all rows, and return the files of each bucket."""
        buckets = sorted(self._waiting)
        self._written.update((bucket, ()) for bucket in buckets)
        in_threads(self._write, buckets, threads, "write")
        self._space.remove()
        return dict(self._written)

    def abort(self) -> None:
        """Delete all files. Call it only if no commit of them was tried."""
        for waiting in self._waiting.values():
            if waiting.file is not None:
                waiting.file.abort()
        for bucket, files in self._written.items():
            discard_files(self._state, bucket, files)
        self._waiting.clear()
        self._written.clear()
        self._waiting_bytes = 0
        self._space.remove()

    def _drain(self) -> None:
        """Move all rows from memory into open files, the largest buckets first, and those of the others to the local
        disk, into one file for all of them.
        """
        with self._space.new_file() as spill:
            by_size = sorted(self._waiting.values(), key=lambda each: each.bytes, reverse=True)
            for waiting in by_size:
                if not waiting.batches:
                    continue
                may_open = not waiting.spilled and self._open_files < _OPEN_FILES
                if waiting.file is None and may_open:
                    waiting.file = self._new_file(waiting.bucket)
                    self._open_files += 1
                if waiting.file is None:
                    waiting.spilled.append(spill.write(waiting.joined()))
                    continue
                for rows in waiting.joined():
                    waiting.file.write(rows)
        self._waiting_bytes = 0

    def _write(self, bucket: BucketId) -> None:
        waiting = self._waiting[bucket]
        waiting.file = waiting.file or self._new_file(bucket)
        for rows in waiting.rows():
            waiting.file.write(rows)
        self._written[bucket] = waiting.file.finish()
        waiting.file = None

    def _new_file(self, bucket: BucketId) -> RollingWriter:
        return RollingWriter(
            self._state, bucket, self._columns, level=0, file_source=FILE_SOURCE_APPEND
        )
