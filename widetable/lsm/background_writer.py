"""A rolling writer that gathers and encodes in a thread of its own, so that merging goes on meanwhile.

In: what gives row batches in key order, of which at most two wait; out: what `RollingWriter` gives. An error of the
thread is raised by the next call. Not thread-safe: one caller owns it.

Memory: the rows, or what they are gathered from, of the task at work and of one more. The
caller waits as soon as there would be a third, so merging is at most two key ranges ahead of
the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pyarrow as pa

from widetable.format.data_file_meta import DataFileMeta
from widetable.worker_thread import Task, WorkerThread
from widetable.write.rolling_writer import RollingWriter

T = TypeVar("T")
_MOST_WAITING: Final = 2


class BackgroundWriter:
    """Use: `write` any number of times, then `finish`, or `abort`. No thread is left after either."""

    def __init__(self, writer: RollingWriter, name: str) -> None:
        self._writer = writer
        self._thread = WorkerThread(name)
        self._waiting: deque[Task[Any]] = deque()
        self._is_aborted = False

    def write(self, gather: Callable[[], pa.RecordBatch | None]) -> None:
        """Hand over what gives rows whose keys come after all before, or none; waits while two are ahead."""
        while len(self._waiting) >= _MOST_WAITING:
            self._waiting[0].result()
            self._waiting.popleft()
        self._hand_over(lambda: self._gather_and_write(gather))

    def write_rows(self, row_batch: pa.RecordBatch | None) -> None:
        """The same with rows that are there."""
        self.write(lambda: row_batch)

    def _hand_over(self, work: Callable[[], T]) -> Task[T]:
        task = Task(work)
        self._waiting.append(task)
        self._thread.submit(task)
        return task

    def _gather_and_write(self, gather: Callable[[], pa.RecordBatch | None]) -> None:
        row_batch = None if self._is_aborted else gather()
        if row_batch is not None:
            self._writer.write(row_batch)

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Close the last file; the metadata of all, in key order."""
        for task in self._waiting:
            task.result()
        return self._hand_over(self._writer.finish).result()

    def abort(self) -> None:
        """Delete all files. Only while no commit of them was tried.

        Raises no error of the tasks. The one at work is waited for, so that no file is written
        behind the deletion; those behind it do nothing any more.
        """
        self._is_aborted = True
        for task in self._waiting:
            task.wait()
        self._writer.abort()
