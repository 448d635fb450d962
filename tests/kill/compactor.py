"""A maintainer process of the kill test: compacts, and so makes the changelog, until a file named `stop` appears.

compactor.py TABLE STOP POINT CALL      POINT: a kill point of commits, a maintainer's point, or "none"

Points of its own: cache_half_built (a lookup cache has some rows), changelog_begun (a changelog file is there, empty).
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.kill.killing_file_io import POINTS, KillingFileIO, kill_now
from widetable.lsm.file_rows import Caches, CacheWriter
from widetable.operations import compaction
from widetable.operations.lookup_caches import caches_of
from widetable.write.table_state import TableState

MAINTAINER_POINTS = ("cache_half_built", "changelog_begun")


class KillingCaches:
    """Real caches, whose writer kills the process once it has written some rows of the `call`-th cache."""

    def __init__(self, inner: Caches, call: int) -> None:
        self._inner = inner
        self._left = call
        self.open = inner.open

    def writer(self, table: TableState, path: str) -> CacheWriter | None:
        writer = self._inner.writer(table, path)
        self._left -= 1
        return KillingCacheWriter(writer) if writer is not None and self._left < 0 else writer


class KillingCacheWriter:
    def __init__(self, inner: CacheWriter) -> None:
        self._inner = inner
        self.close = inner.close
        self.abort = inner.abort

    def write(self, row_batch: pa.RecordBatch) -> None:
        self._inner.write(row_batch)
        kill_now()


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    if point == "cache_half_built":
        left = int(call)

        def killing_caches(state: TableState) -> Caches:
            caches = caches_of(state)
            assert caches is not None
            return KillingCaches(caches, left)

        vars(compaction)["caches_of"] = killing_caches  # the one place where a compaction gets them
    point_of_file_io = point if point in (*POINTS, "changelog_begun") else None
    table = wt.Table.open(path, file_io=KillingFileIO(point_of_file_io, int(call)))
    number, is_last = 0, False
    while not is_last:
        is_last = Path(stop).exists()  # one more round: for what came after the one before
        # The other maintainer may have been faster in every round: then nothing is left to do.
        with contextlib.suppress(wt.ConflictError):
            table.compact(full=number % 5 == 4)
        number += 1
        time.sleep(0.1)


if __name__ == "__main__":
    main()
