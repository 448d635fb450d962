"""Builds the cache of one data file from its rows.

In: row batches of the file, in file order, all with the columns of the first. Out: a complete cache in its place, or
nothing: any fault (no room, a full disk, keys that do not ascend) drops the cache and is logged once, and the caller
continues. Small batches are joined; memory is bounded by `_BATCH_BYTES` and one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from widetable import WidetableError
from widetable.format.data_file_meta import DataFileMeta
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema import options as opt
from widetable.write.table_state import TableState
from widetable_lookup.cache_fault import LOGGER, CacheFault
from widetable_lookup.cache_manifest import CachedSource, seal
from widetable_lookup.cache_space import Building, CacheSpace
from widetable_lookup.row_files import RowFiles

# A smaller batch is kept until more rows come.
_BATCH_ROWS: Final = 32 << 10
_BATCH_BYTES: Final = 16 << 20
# A builder may write this fraction of the budget between two requests for room: one part in so many.
_QUESTIONS_PER_BUDGET: Final = 64


class CacheBuilder:
    """A CacheWriter (widetable.write.cache_writer), for one thread at a time.

    States: nothing is written; files are being written; the cache is in its place, or dropped: then `_building` is
    None, and all calls do nothing.
    """

    def __init__(
        self, space: CacheSpace, building: Building, table: TableState, path: str, budget_bytes: int
    ) -> None:
        self._space = space
        self._building: Building | None = building
        self._table = table
        self._path = path
        self._budget_bytes = budget_bytes
        self._requested_at_bytes = -budget_bytes  # the first bytes request room
        self._pending: list[pa.RecordBatch] = []
        self._files: RowFiles | None = None

    def write(self, row_batch: pa.RecordBatch) -> None:
        """Add rows. Does nothing after the cache was dropped."""
        building = self._building
        if building is None or not row_batch.num_rows:
            return
        self._pending.append(row_batch)
        rows = sum(batch.num_rows for batch in self._pending)
        if rows >= _BATCH_ROWS or sum(batch.nbytes for batch in self._pending) >= _BATCH_BYTES:
            self._guard(self._flush, building)

    def close(self, file: DataFileMeta) -> None:
        """Put the cache into its place, if it has all rows of this file."""
        if self._building is not None:
            self._guard(lambda building: self._complete(building, file), self._building)

    def abort(self) -> None:
        """Remove an unfinished cache. May be called more than once, and after `close`."""
        building, self._building = self._building, None
        self._pending.clear()
        if building is not None:
            if self._files is not None:
                self._files.abort()
            self._space.abandon(building)

    def _guard(self, step: Callable[[Building], None], building: Building) -> None:
        """Do a step. A fault of the cache ends here, once, together with the cache. Any other error is raised after the
        cache is removed.
        """
        try:
            step(building)
        except (CacheFault, OSError, WidetableError, pa.ArrowException) as fault:
            warn(
                LOGGER,
                WarningCode.NO_CACHE,
                "no lookup cache of %s in %s: %s",
                self._path,
                self._space.directory,
                fault,
            )
            self.abort()
        except BaseException:
            self.abort()
            raise

    def _flush(self, building: Building) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        joined = pa.concat_batches(pending) if len(pending) > 1 else pending[0]
        if self._files is None:
            self._files = RowFiles(building.path, self._table.schema, joined.schema.names)
        self._request_room(self._files, self._files.needed_bytes(joined))
        self._files.write(joined)

    def _request_room(self, files: RowFiles, needed_bytes: int) -> None:
        """Request room now and then, because the request may read the whole directory.

        It is made when the bytes written since the last request, with those to be written now, are a 64th of the
        budget. So there are at most so many requests, and no builder exceeds the budget by more than that.
        """
        written_bytes = files.size_bytes()
        unasked_bytes = written_bytes + needed_bytes - self._requested_at_bytes
        if unasked_bytes * _QUESTIONS_PER_BUDGET < self._budget_bytes:
            return
        if not self._space.make_room(self._budget_bytes, needed_bytes):
            raise CacheFault(
                f"{written_bytes + needed_bytes} bytes are more than {opt.LOOKUP_CACHE_MAX_DISK_SIZE.key}"
                f" leaves room for ({self._budget_bytes} bytes)"
            )
        self._requested_at_bytes = written_bytes

    def _complete(self, building: Building, file: DataFileMeta) -> None:
        self._flush(building)
        rows = 0 if self._files is None else self._files.rows
        if self._files is None or rows != file.row_count:
            raise CacheFault(f"{rows} rows were written, the file has {file.row_count}")
        self._files.close()
        manifest = seal(building.path, self._source(file, self._files.schema))
        self._space.publish(building, self._budget_bytes, manifest.disk_bytes)
        self._building = None

    def _source(self, file: DataFileMeta, schema: pa.Schema) -> CachedSource:
        return CachedSource(
            table=self._table.paths.root,
            data_file=self._path,
            data_file_bytes=file.file_size,
            rows=file.row_count,
            schema_id=self._table.schema.id,
            columns=tuple(schema.names),
            types=tuple(map(str, schema.types)),
            retention_millis=self._table.options.get(opt.LOOKUP_CACHE_FILE_RETENTION),
        )
