"""Opens the data files of a bucket for lookups: through a cache, or the file itself, as `lookup_cost` chooses.

In: a data file and the number of keys to find in it. Out: its FileRows; or all its rows, from an existing cache if
possible: mapped rows need no decoding. A cache is a local copy that may be damaged, locked or out of disk at any time:
an error of a cache is logged, and the data file is read instead. Only files at level >= 1 have caches: those at level 0
are replaced soon, and those of other writers may have a key twice. Files with deleted rows have none, as the number of
these rows grows. Raises the errors of reading the data file, none of the caches.

    open        a cache exists                it answers; after its first error the data file does
                none, and building it pays    the file is copied into a cache first (`lookup_cost`)
                none, or none can be built    the data file is read, and the cost is recorded (`scan_history`)
    batches     a cache exists                its rows; after an error the rest from the data file
                none                          the data file: copying it would cost more than reading it once

If a cache fails after n rows, the data file continues with row n: both have the same rows in the same order.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_budget import BATCH_BYTES
from widetable.lsm.file_rows import CachedFile, Caches, FileRows, Found
from widetable.lsm.lookup_cost import (
    SCAN_STRATEGY,
    Choice,
    FileLookup,
    choose,
    scan_micros,
    settled,
)
from widetable.lsm.parquet_rows import ParquetRows
from widetable.lsm.scan_history import SCAN_HISTORY
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema import options as opt
from widetable.storage.kept_inputs import is_remote
from widetable.write.cache_writer import CacheWriter
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")
# The actions that have failed in this process and were logged as a warning: then they are logged at debug level.
_warned_actions: Final[set[str]] = set()


class RowsOpener:
    """Opens the files of one bucket. columns: requested table columns; the key is added. caches: None: data files only.

    use_threads: decode data files on several cores, for a reader that has them to itself.
    """

    def __init__(
        self,
        table: TableState,
        bucket: BucketId,
        columns: Sequence[str],
        caches: Caches | None,
        *,
        use_threads: bool = False,
    ) -> None:
        self._table = table
        self._bucket = bucket
        self._columns = tuple(columns)
        self._use_threads = use_threads
        self._strategy: Final[str] = table.options.get(opt.LOOKUP_STRATEGY)
        self._caches = None if self._strategy == SCAN_STRATEGY else caches

    def open(self, file: DataFileMeta, keys: int) -> FileRows:
        """Return the rows of a file, which the caller closes. keys: approximate number of keys in all calls."""
        path = self._table.data_file(self._bucket, file.file_name)
        caches = self._caches if file.level > 0 and file.deleted is None else None
        cached = None if caches is None else self._cached(caches, path, file)
        # A copy with an older schema than the file's would lack columns.
        can_build = caches is not None and file.schema_id <= self._table.schema.id
        choice = settled(self._strategy, has_cache=cached is not None, can_build=can_build)
        if caches is not None and choice is Choice.BUILD_THEN_LOOKUP:
            self._build(caches, path, file)
            cached = self._cached(caches, path, file)
        if cached is not None:
            return _CachedRows(self, path, file, cached)
        scanned = self.scanned(file)
        lookup = FileLookup(
            rows=file.row_count,
            keys=keys,
            columns=len(scanned.columns),
            stored_columns=scanned.stored_columns,
            has_cache=False,
            can_build=can_build,
            scanned_micros=SCAN_HISTORY.micros(path),
            is_remote=is_remote(path),
        )
        if (
            caches is not None
            and choice is None
            and choose(lookup, self._strategy) is not Choice.SCAN
        ):
            self._build(caches, path, file)
            cached = self._cached(caches, path, file)
            if cached is not None:
                scanned.close()
                return _CachedRows(self, path, file, cached)
        SCAN_HISTORY.add(path, scan_micros(lookup))
        return scanned

    def batches(self, file: DataFileMeta, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file in file order, about batch_bytes at once; no cache is built for them."""
        path = self._table.data_file(self._bucket, file.file_name)
        caches = self._caches if file.level > 0 and file.deleted is None else None
        cached = None if caches is None else self._cached(caches, path, file)
        rows = 0
        if cached is not None:
            with _LoggedCacheErrors("reading", path), contextlib.closing(cached):
                for batch in cached.batches(batch_bytes):
                    rows += batch.num_rows
                    yield batch
        if rows < file.row_count:
            with self._table.opened(self._bucket, file, self._columns) as data:
                for batch in data.batches(batch_bytes):
                    passed, rows = min(rows, batch.num_rows), max(rows - batch.num_rows, 0)
                    if passed < batch.num_rows:
                        yield batch.slice(passed)

    def columns_of(self, file: DataFileMeta) -> Collection[str]:
        """Return the requested columns that a file has, from its cache or from its footer."""
        path = self._table.data_file(self._bucket, file.file_name)
        caches = self._caches if file.level > 0 and file.deleted is None else None
        cached = None if caches is None else self._cached(caches, path, file)
        if cached is not None:
            with contextlib.closing(cached):
                return cached.columns
        with self._table.opened(self._bucket, file, self._columns) as data:
            return data.columns

    def scanned(self, file: DataFileMeta) -> ParquetRows:
        """Open the data file itself."""
        return ParquetRows(
            self._table, self._bucket, file, self._columns, use_threads=self._use_threads
        )

    def _cached(self, caches: Caches, path: str, file: DataFileMeta) -> CachedFile | None:
        with _LoggedCacheErrors("opening", path):
            return caches.open(self._table, path, file, self._columns)
        return None

    def _build(self, caches: Caches, path: str, file: DataFileMeta) -> None:
        """Copy all columns of the file into a cache. An error is logged: an error of the file cannot be distinguished
        from one of the cache here. The next reader of the file meets its errors again.
        """
        with _LoggedCacheErrors("building", path):
            writer = caches.writer(self._table, path)
            if writer is not None:
                self._copy(writer, file)
                SCAN_HISTORY.forget(path)

    def _copy(self, writer: CacheWriter, file: DataFileMeta) -> None:
        try:
            with self._table.opened(self._bucket, file) as data:
                for rows in data.batches(BATCH_BYTES):
                    writer.write(rows)
        except BaseException:
            writer.abort()
            raise
        writer.close(file)


class _CachedRows:
    """The rows of a cache; those of the data file after the first error of the cache."""

    def __init__(self, opener: RowsOpener, path: str, file: DataFileMeta, cached: FileRows) -> None:
        self._opener = opener
        self._path = path
        self._file = file
        self._cached: FileRows | None = cached
        self._scanned: FileRows | None = None

    @property
    def answers_in_any_order(self) -> bool:
        return self._cached is not None

    def find(self, keys: pa.RecordBatch) -> Found:
        if self._cached is not None:
            with _LoggedCacheErrors("reading", self._path):
                return self._cached.find(keys)
            self._close_cached()
        if self._scanned is None:
            self._scanned = self._opener.scanned(self._file)
        return self._scanned.find(keys)

    def close(self) -> None:
        self._close_cached()
        if self._scanned is not None:
            self._scanned.close()

    def _close_cached(self) -> None:
        cached, self._cached = self._cached, None
        if cached is not None:
            with _LoggedCacheErrors("closing", self._path):
                cached.close()


class _LoggedCacheErrors:
    """A context that logs and suppresses errors of a cache. Only the first failure of an action is a warning, as a full
    disk would fail for every file.
    """

    def __init__(self, doing: str, path: str) -> None:
        self._doing = doing
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        level = logging.DEBUG if self._doing in _warned_actions else logging.WARNING
        _warned_actions.add(self._doing)
        message = "%s the lookup cache of %s failed; the data file is read instead"
        warn(
            _log,
            WarningCode.NO_CACHE,
            message,
            self._doing,
            self._path,
            level=level,
            exc_info=error,
        )
        return True
