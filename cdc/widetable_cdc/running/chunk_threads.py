"""Carries tasks of chunks out in threads of this process, several at once.

    tasks (an iterator) ─► up to n at once ─► (task, outcome), in the order in which they end

A task is taken only when there is room for it, by the thread that asks for the outcomes; so between two outcomes the
caller may commit, and decide whether there is a next task. Reading, casting and writing leave Python's lock most of the
time. With one thread the caller does the work itself. Raises what a task raises, which is a fault of this package.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from typing import Final

from widetable.connector import Task, WorkerThread
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask

# Each has a buffer of its own for the rows, and a connection.
_MOST: Final = 4
# Carries tasks out somewhere, and yields each with its outcome, in any order.
RunChunks = Callable[[Iterator[ChunkTask]], Iterator[tuple[ChunkTask, ChunkOutcome]]]


class ChunkThreads:
    """Runs tasks in threads. count: how many at once; None for one on each core, `_MOST` at most."""

    def __init__(self, count: int | None) -> None:
        self._count = count or min(os.cpu_count() or 1, _MOST)
        self._threads = [WorkerThread(f"chunk-{number}") for number in range(self._count)]

    def __call__(self, tasks: Iterator[ChunkTask]) -> Iterator[tuple[ChunkTask, ChunkOutcome]]:
        """Yield each task with its outcome."""
        if self._count == 1:
            for task in tasks:
                yield task, task.run()
            return
        ended: queue.SimpleQueue[WorkerThread] = queue.SimpleQueue()
        running: dict[WorkerThread, tuple[ChunkTask, Task[ChunkOutcome]]] = {}
        free = list(self._threads)
        while True:
            while free and (begun := next(tasks, None)) is not None:
                thread = free.pop()
                running[thread] = begun, _submitted(thread, begun, ended)
            if not running:
                return
            thread = ended.get()
            done, work = running.pop(thread)
            free.append(thread)
            yield done, work.result()


def _submitted(
    thread: WorkerThread, task: ChunkTask, ended: queue.SimpleQueue[WorkerThread]
) -> Task[ChunkOutcome]:
    work = Task(task.run)

    def run() -> None:
        work.run()
        ended.put(thread)

    thread.submit(Task(run))
    return work
