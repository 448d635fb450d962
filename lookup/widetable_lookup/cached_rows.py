"""Rows of one data file from its cache: a CachedFile (widetable.lsm.file_rows).

In: key batches. Out: their rows, in new arrays that keep no file open; or all rows, as they lie in the map. Raises
DamagedError when the cache differs from what was written: then it is removed, and the data file has the rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from widetable import DamagedError
from widetable.format.row_batch import SYSTEM_FIELDS, row_batch_schema
from widetable.format.row_budget import pieces
from widetable.lsm.file_rows import Found
from widetable.schema.table_schema import TableSchema
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.opened_cache import OpenedCache


class CachedRows:
    """The rows of one cache, for one thread; several objects may share an OpenedCache.

    columns: the requested table columns; the key comes with them. done: called once, when it is closed. damaged: called
    before an error is raised. Columns that the file lacks are left out: the caller fills them with nulls.
    """

    def __init__(
        self,
        cache: OpenedCache,
        schema: TableSchema,
        columns: Sequence[str],
        done: Callable[[OpenedCache], None],
        damaged: Callable[[OpenedCache, CacheFault | OSError], None],
    ) -> None:
        self._cache: OpenedCache | None = cache
        self._done = done
        self._damaged = damaged
        self._key = schema.trimmed_primary_key
        cached_columns = frozenset(cache.schema.names)
        self._schema = row_batch_schema(
            schema, [name for name in (*self._key, *columns) if name in cached_columns]
        )
        self._choice = cache.rows.choose(self._schema.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The requested table columns that the file has, in table order."""
        return tuple(self._schema.names[len(SYSTEM_FIELDS) :])

    @property
    def answers_in_any_order(self) -> bool:
        return True

    def find(self, keys: pa.RecordBatch) -> Found:
        """Return the rows of these keys, with the requested columns that the file has.

        keys: all key columns, or leading ones (file_rows.py). DamagedError is raised after the cache was removed, so
        that a caller who then opens the cache again does not get it.
        """
        cache = self._opened()
        with self._reporting_damage(cache):
            is_whole = keys.num_columns == len(self._key)
            find = cache.find if is_whole else cache.keys.search_prefixes
            hits, positions = find(keys.columns)
            if not len(hits):
                return Found(hits, pa.RecordBatch.from_pylist([], self._schema))
            columns = cache.rows.take(self._choice, positions)
        return Found(hits, pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows in file order, about batch_bytes at a time. They lie in the map, and keep it.

        The pages of each batch are checked before it is yielded. Damage in a later batch is raised after earlier ones
        were yielded.
        """
        cache = self._opened()
        for index in range(cache.rows.batches):
            with self._reporting_damage(cache):
                columns = cache.rows.batch(index, self._schema.names)
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            yield from pieces(rows, batch_bytes)

    def close(self) -> None:
        """Release the cache. May be called more than once."""
        cache, self._cache = self._cache, None
        if cache is not None:
            self._done(cache)

    def _opened(self) -> OpenedCache:
        assert self._cache is not None, "a read after close"
        return self._cache

    @contextlib.contextmanager
    def _reporting_damage(self, cache: OpenedCache) -> Iterator[None]:
        try:
            yield
        except (CacheFault, OSError) as fault:
            self._damaged(cache, fault)
            raise DamagedError(
                cache.place,
                found=str(fault),
                expected="the cache as it was written",
                action="Read the data file; the cache is removed.",
            ) from fault
