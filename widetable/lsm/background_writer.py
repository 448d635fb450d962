"""A rolling writer that gathers and encodes in a thread of its own, so that merging goes on meanwhile.

In: what gives row batches in key order, of which at most two wait; out: what `RollingWriter` gives. An error of the
thread is raised by the next call. Not thread-safe: one caller owns it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.write.rolling_writer import RollingWriter

_MOST_WAITING: Final = 2


class BackgroundWriter:
    """Use: `write` any number of times, then `finish`, or `abort`. Ends its thread in both."""

    def __init__(self, writer: RollingWriter, name: str) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"widetable-{name}")
        self._waiting: deque[Future[None]] = deque()

    def write(self, gather: Callable[[], pa.RecordBatch | None]) -> None:
        """Hand over what gives rows whose keys come after all before, or none; waits while two are ahead."""
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._gather_and_write, gather))

    def write_rows(self, row_batch: pa.RecordBatch | None) -> None:
        """The same with rows that are there."""
        self.write(lambda: row_batch)

    def _gather_and_write(self, gather: Callable[[], pa.RecordBatch | None]) -> None:
        row_batch = gather()
        if row_batch is not None:
            self._writer.write(row_batch)

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file; the metadata of all, in key order."""
        while self._waiting:
            self._waiting.popleft().result()
        files = self._thread.submit(self._writer.finish).result()
        self._thread.shutdown()
        return files

    def abort(self) -> None:
        """Delete all files. Only while no commit of them was tried."""
        self._thread.shutdown(cancel_futures=True)
        self._writer.abort()
