"""A rolling writer that gathers and encodes rows in its own thread, so that merging continues meanwhile.

In: iterators of row batches in key order; out: the result of `RollingWriter`. The next call raises an error of the
thread. Not thread-safe: one caller owns it.

Memory: the source rows of the key range that is being written and of the one that the caller prepares meanwhile, and
one gathered batch. The caller waits when it passes a range on, so merging is one key range ahead of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.runtime.worker_thread import Task, WorkerThread
from widetable.write.rolling_writer import RollingWriter

T = TypeVar("T")


class BackgroundWriter:
    """Writes in a thread: call `write` any number of times, then `finish` or `abort`. Both end the thread."""

    def __init__(self, writer: RollingWriter, name: str) -> None:
        self._writer = writer
        self._thread = WorkerThread(name)
        self._at_work: Task[Any] | None = None
        self._is_aborted = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Write rows whose keys follow all earlier ones; each batch is gathered when the one before is written.

        Waits for the last call's rows.
        """
        self._wait()
        self._hand_over(lambda: self._write_all(batches))

    def _wait(self) -> None:
        if self._at_work is not None:
            self._at_work.result()

    def _hand_over(self, work: Callable[[], T]) -> Task[T]:
        task = Task(work)
        self._at_work = task
        self._thread.submit(task)
        return task

    def _write_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        while not self._is_aborted:
            row_batch = next(batches, None)
            if row_batch is None:
                return
            self._writer.write(row_batch)
            del row_batch  # before the next one is gathered

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file; return the metadata of all files, in key order."""
        self._wait()
        return self._hand_over(self._writer.finish).result()

    def abort(self) -> None:
        """Delete all files. Allowed only before a commit of them was tried.

        Waits for the running task, so that it writes no file after the deletion, and ignores its error.
        """
        self._is_aborted = True
        if self._at_work is not None:
            self._at_work.wait()
        self._writer.abort()
