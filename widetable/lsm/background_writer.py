"""A rolling writer that gathers and encodes in a thread of its own, so that merging goes on meanwhile.

In: what gives row batches in key order; out: what `RollingWriter` gives. An error of the thread is raised by the next
call. Not thread-safe: one caller owns it.

Memory: what rows are gathered from, of the key range at work and of the one that the caller
makes meanwhile; and a batch of what is gathered. The caller waits when it hands a range over, so
merging is one key range ahead of the disk.
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
    """Use: `write` any number of times, then `finish`, or `abort`. No thread is left after either."""

    def __init__(self, writer: RollingWriter, name: str) -> None:
        self._writer = writer
        self._thread = WorkerThread(name)
        self._at_work: Task[Any] | None = None
        self._is_aborted = False

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Hand over rows whose keys come after all before, each batch to be gathered when the one before is written.
        Waits for what is at work.
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
            del row_batch  # before the next one comes

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file; the metadata of all, in key order."""
        self._wait()
        return self._hand_over(self._writer.finish).result()

    def abort(self) -> None:
        """Delete all files. Only while no commit of them was tried.

        Raises no error of the task at work. It is waited for, so that no file is written behind
        the deletion.
        """
        self._is_aborted = True
        if self._at_work is not None:
            self._at_work.wait()
        self._writer.abort()
