"""Writes the rows of one bucket, sorted if they have a key, as a sequence of data files. A file is closed when it
reaches the target size, or the maximum number of column chunks.

In: row batches in key order; out: one DataFileMeta per file, at one level. Each file may be copied into a lookup cache
while it is written. Raises what the data file writer raises; after any error `abort` removes every file that was begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_APPEND, DataFileMeta
from widetable.format.data_file_writer import DataFileWriter
from widetable.format.parquet_layout import WIDE_COLUMNS, page_bytes
from widetable.format.row_budget import memory_bytes, pieces
from widetable.schema import options as opt
from widetable.storage.memory_pool import release_unused_memory
from widetable.storage.paths import new_file_name, prefix_of
from widetable.write.cache_writer import CacheWriter, CacheWriters
from widetable.write.discard import discard_files
from widetable.write.table_state import TableState

# A batch is written in pieces of this fraction of the target size, so that a file exceeds that size only slightly.
_PIECES_PER_FILE: Final = 8
# After merging this many bytes, returning freed memory to the system is worth the milliseconds that it takes. Thousands
# of columns are small buffers, of which the C library keeps more than is in use, so memory is returned more often then.
# Rows of 20 and 200 columns took a sixth longer to merge when memory was returned that often.
_RELEASED_BYTES: Final = 64 << 20
_RELEASED_BYTES_WIDE: Final = 16 << 20


@dataclass(eq=False)
class RollingWriter:
    """Writes the data files of one bucket. Not thread-safe.

    columns: table columns to write, the same in all files. level, file_source: those of all files. is_changelog:
    changelog files, in which keys may repeat. caches: creates a cache of each file; None: no caches. bounded: columns
    of an append table whose bounds are recorded in any case, because files are sorted by them. prefix: of the names of
    data files.

    The cache of a file gets each piece after the file, and is published only when the file is
    complete: a cache never contains more than its file.
    """

    state: TableState
    bucket: BucketId
    columns: Sequence[str]
    level: int = field(kw_only=True)
    file_source: int = field(kw_only=True)
    is_changelog: bool = field(default=False, kw_only=True)
    caches: CacheWriters | None = field(default=None, kw_only=True)
    bounded: Sequence[str] = field(default=(), kw_only=True)
    prefix: str = field(default="data", kw_only=True)
    _cache: CacheWriter | None = field(default=None, init=False)
    _current: DataFileWriter | None = field(default=None, init=False)
    _finished: list[DataFileMeta] = field(default_factory=list, init=False)
    _unreleased_bytes: int = field(default=0, init=False)

    @staticmethod
    def in_place_of(
        state: TableState, bucket: BucketId, file: DataFileMeta, columns: Sequence[str]
    ) -> RollingWriter:
        """Create a writer for some of the rows of a file, with its level, source and prefix. columns: those of it."""
        is_wide = file.level > 0 and state.has_wide_files
        source = FILE_SOURCE_APPEND if file.file_source is None else file.file_source
        names = state.schema.names if is_wide else columns
        prefix = prefix_of(file.file_name)
        return RollingWriter(
            state, bucket, names, level=file.level, file_source=source, prefix=prefix
        )

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Add rows whose keys come after all that were written.

        A file ends between two pieces, never inside a piece. So changelog files may divide the rows
        of one key.
        """
        if not row_batch.num_rows:
            return
        piece_bytes = self._target_file_size_bytes // _PIECES_PER_FILE
        for piece in pieces(row_batch, piece_bytes, row_batch.num_rows):
            self._write_piece(piece)

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file and return the metadata of all files, in key order; empty without rows."""
        self._close_current()
        return tuple(self._finished)

    def write_all(self, run: Iterable[pa.RecordBatch]) -> tuple[DataFileMeta, ...]:
        """Write all rows of a run and return the metadata of their files. After an error no file is left."""
        try:
            for row_batch in run:
                self.write(row_batch)
            return self.finish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Delete all files. Call it only if no commit of them was tried."""
        for part in (self._cache, self._current):
            if part is not None:
                part.abort()
        self._cache = self._current = None
        discard_files(self.state, self.bucket, self._finished)
        self._finished.clear()

    @property
    def _target_file_size_bytes(self) -> int:
        return self.state.options.get(opt.TARGET_FILE_SIZE)

    def _write_piece(self, piece: pa.RecordBatch) -> None:
        options = self.state.options
        if self._current is None:
            name = new_file_name("changelog" if self.is_changelog else self.prefix, ".parquet")
            path = self.state.data_file(self.bucket, name)
            if self.caches is not None:
                self._cache = self.caches.writer(self.state, path)
            # Files of append tables stay at level 0, and are read as they are.
            is_fresh = self.level == 0 and not self.is_changelog and self.state.schema.has_key
            self._current = DataFileWriter(
                self.state.file_io,
                path,
                self.state.schema,
                self.columns,
                options,
                key_columns=self.state.has_wide_files,
                repeated_keys=self.is_changelog,
                bounded=self.bounded,
                indexed=not self.is_changelog,
                codec=options.get(opt.CHANGELOG_FILE_COMPRESSION) if self.is_changelog else None,
                page_bytes=page_bytes(len(self.state.schema.fields), is_level0=is_fresh),
            )
        # The rows of a key range may lack columns of the file.
        rows = self._current.conformed(piece)
        self._current.write(rows)
        if self._cache is not None:
            self._cache.write(rows)
        self._unreleased_bytes += memory_bytes(rows)
        if self._unreleased_bytes >= _released_bytes(rows.num_columns):
            self._unreleased_bytes = 0
            release_unused_memory()
        if self._current.is_full or self._current.size_bytes >= self._target_file_size_bytes:
            self._close_current()

    def _close_current(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.close(self.level, self.file_source))
            self._current = None
        if self._cache is not None:
            self._cache.close(self._finished[-1])
            self._cache = None


def _released_bytes(columns: int) -> int:
    """Return the number of bytes after which freed memory is returned to the system, for a number of columns."""
    return _RELEASED_BYTES_WIDE if columns >= WIDE_COLUMNS else _RELEASED_BYTES
