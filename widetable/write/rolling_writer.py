"""Sorted rows of one bucket as a row of data files, each closed when it has reached the target size.

In: row batches in key order; out: one DataFileMeta per file, at one level. Each file that is written may be copied into
a lookup cache at the same time. Raises what the data file writer raises; after any error `abort` removes every file
that was begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from widetable import options as opt
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.data_file_writer import DataFileWriter
from widetable.format.row_budget import pieces
from widetable.paths import new_file_name
from widetable.storage.memory_pool import release_unused_memory
from widetable.write.cache_writer import CacheWriter, CacheWriters
from widetable.write.discard import discard_files
from widetable.write.table_state import TableState

# A batch is handed on in pieces of this part of the target size, so that a file passes it by little.
_PIECES_PER_FILE: Final = 8
# What merging this much leaves behind in the allocator is worth the milliseconds of giving it back.
_LARGE_FILE_BYTES: Final = 32 << 20


class RollingWriter:
    """columns: table columns to write, the same in all files. level, file_source: of all files. is_changelog: changelog
    files, in which keys may repeat. caches: where a cache of each file is built from memory; None: nowhere.

    Not thread-safe. The cache of a file gets each piece after the file got it, and is put in
    place only when the file is complete: a cache never says more than its file.
    """

    def __init__(
        self,
        state: TableState,
        bucket: BucketId,
        columns: Sequence[str],
        *,
        level: int,
        file_source: int,
        is_changelog: bool = False,
        caches: CacheWriters | None = None,
    ) -> None:
        self._is_changelog = is_changelog
        self._caches = caches
        self._cache: CacheWriter | None = None
        self._state = state
        self._bucket = bucket
        self._columns = tuple(columns)
        self._level = level
        self._file_source = file_source
        self._codec = state.options.get(opt.CHANGELOG_FILE_COMPRESSION) if is_changelog else None
        self._target_file_size_bytes = state.options.get(opt.TARGET_FILE_SIZE)
        self._key_columns = state.options.get(opt.LEVEL0_COLUMNS) == "all"
        self._current: DataFileWriter | None = None
        self._finished: list[DataFileMeta] = []

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Add rows whose keys come after all that were written.

        Files end between two pieces, never inside of one; those of a changelog may so divide
        the rows of one key.
        """
        if not row_batch.num_rows:
            return
        piece_bytes = self._target_file_size_bytes // _PIECES_PER_FILE
        for piece in pieces(row_batch, piece_bytes, row_batch.num_rows):
            self._write_piece(piece)

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file; the metadata of all, in key order.
        Without rows there is no file, and the answer is empty.
        """
        self._close_current()
        return tuple(self._finished)

    def write_all(self, run: Iterable[pa.RecordBatch]) -> tuple[DataFileMeta, ...]:
        """All rows of a run, and the metadata of their files; none is left after an error."""
        try:
            for row_batch in run:
                self.write(row_batch)
            return self.finish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Delete all files. Only while no commit of them was tried."""
        if self._cache is not None:
            self._cache.abort()
            self._cache = None
        if self._current is not None:
            self._current.abort()
            self._current = None
        discard_files(self._state, self._bucket, self._finished)
        self._finished.clear()

    def _write_piece(self, piece: pa.RecordBatch) -> None:
        if self._current is None:
            name = new_file_name("changelog" if self._is_changelog else "data", ".parquet")
            path = self._state.data_file(self._bucket, name)
            if self._caches is not None:
                self._cache = self._caches.writer(self._state, path)
            self._current = DataFileWriter(
                self._state.file_io,
                path,
                self._state.schema,
                self._columns,
                self._state.options,
                key_columns=self._key_columns,
                repeated_keys=self._is_changelog,
                codec=self._codec,
            )
        self._current.write(piece)
        if self._cache is not None:
            self._cache.write(piece)
        if self._current.size_bytes >= self._target_file_size_bytes:
            self._close_current()

    def _close_current(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.close(self._level, self._file_source))
            self._current = None
        if self._cache is not None:
            self._cache.close(self._finished[-1])
            self._cache = None
        if self._finished and self._finished[-1].file_size >= _LARGE_FILE_BYTES:
            release_unused_memory()
