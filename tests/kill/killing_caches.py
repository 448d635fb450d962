"""Lookup caches whose writer kills its own process at a named point: cache_half_built, when a cache has some rows."""

from __future__ import annotations

import pyarrow as pa

from tests.kill.killing_file_io import kill_now
from widetable.lsm.file_rows import Caches, CacheWriter
from widetable.operations.compaction import compaction
from widetable.operations.handle.lookup_caches import caches_of
from widetable.write.table_state import TableState

CACHE_POINTS = ("cache_half_built",)


def kill_in_caches(call: int) -> None:
    """From here on this process dies once its compactions have written some rows of the `call`-th cache, from 0 on."""
    left = [call]

    def killing_caches(state: TableState) -> Caches:
        caches = caches_of(state)
        assert caches is not None
        return KillingCaches(caches, left)

    vars(compaction)["caches_of"] = killing_caches  # the one place where a compaction gets them


class KillingCaches:
    def __init__(self, inner: Caches, left: list[int]) -> None:
        self._inner = inner
        self._left = left
        self.open, self.forget = inner.open, inner.forget

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        writer = self._inner.writer(table, path)
        self._left[0] -= 1
        return KillingCacheWriter(writer) if writer is not None and self._left[0] < 0 else writer


class KillingCacheWriter:
    def __init__(self, inner: CacheWriter) -> None:
        self._inner = inner
        self.close = inner.close
        self.abort = inner.abort

    def write(self, row_batch: pa.RecordBatch) -> None:
        self._inner.write(row_batch)
        kill_now()
