"""Rows of one data file from its cache: a CachedFile (widetable.lsm.file_rows).

In: key batches. Out: their rows, new arrays that keep no file open; or all rows, as they lie in the map. Raises
DamagedError when the cache turns out not to be what was written: it is removed then, the data file itself has the rows.
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
    """For one thread; many of them may share an OpenedCache.

    columns: table columns wanted; the key comes with them. done: called once, when it is closed; damaged: before an
    error is raised.

    Columns that the file lacks are left out: whoever asked fills them with nulls.
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
        held = frozenset(cache.schema.names)
        self._schema = row_batch_schema(
            schema, [name for name in (*self._key, *columns) if name in held]
        )
        self._choice = cache.rows.choose(self._schema.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that it has, of those that it was opened for, in table order."""
        return tuple(self._schema.names[len(SYSTEM_FIELDS) :])

    @property
    def answers_in_any_order(self) -> bool:
        return True

    def find(self, keys: pa.RecordBatch) -> Found:
        """The rows of these keys, with the columns that it was opened for as far as the file has them.

        keys: all key columns, or leading ones (file_rows.py). DamagedError comes after the cache
        was removed, so that whoever turns to the data file then, and asks for the cache again,
        does not meet it.
        """
        cache = self._opened()
        with self._damage_noted(cache):
            is_whole = keys.num_columns == len(self._key)
            find = cache.find if is_whole else cache.keys.search_prefixes
            hits, positions = find(keys.columns)
            if not len(hits):
                return Found(hits, pa.RecordBatch.from_pylist([], self._schema))
            columns = cache.rows.take(self._choice, positions)
        return Found(hits, pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """All rows in file order, about batch_bytes at once. They lie in the map, and keep it.

        Pages are checked batch by batch, before the batch is given. Damage in a later batch
        raises when earlier ones are gone out.
        """
        cache = self._opened()
        for index in range(cache.rows.batches):
            with self._damage_noted(cache):
                columns = cache.rows.batch(index, self._schema.names)
            rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            yield from pieces(rows, batch_bytes)

    def close(self) -> None:
        """Let go of the cache. May be called more than once."""
        cache, self._cache = self._cache, None
        if cache is not None:
            self._done(cache)

    def _opened(self) -> OpenedCache:
        assert self._cache is not None, "a read after close"
        return self._cache

    @contextlib.contextmanager
    def _damage_noted(self, cache: OpenedCache) -> Iterator[None]:
        try:
            yield
        except (CacheFault, OSError) as fault:
            self._damaged(cache, fault)
            raise DamagedError(
                cache.place,
                found=str(fault),
                expected="the cache as it was written",
                action="Read the data file: the cache is removed.",
            ) from fault
