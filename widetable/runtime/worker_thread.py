"""Threads that work for a caller: pieces of work one after the other in the background, or many at once.

Not by `concurrent.futures`, which takes nothing more once the main thread has ended: a compaction that is under way
then would lose its threads, and with them the changelog. A thread here starts with work and ends when none is left; the
process waits for it before it ends. Where no thread can be started, now that the process ends or because the system has
no more, the work is done in the caller. An error comes back to who asks for the result.

    WorkerThread    one task after the other, in the order of `submit`; who submits goes on
    in_threads      many items at once, the caller among those who work; who calls gets the results

Neither is bounded: what is handed over waits in memory. Locks here are plain ones, so who keeps a WorkerThread over a
fork makes it anew in the child (`forked_child`).
"""

from __future__ import annotations

# Nothing of it is used. Arrow imports pandas late, which imports this, which fails once the main thread has ended.
import concurrent.futures.thread  # noqa: F401
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

_log = logging.getLogger("widetable")
T = TypeVar("T")
R = TypeVar("R")


class Task(Generic[R]):
    """A piece of work, to be done once. Any thread may wait for it, before and after; all get the same result."""

    def __init__(self, work: Callable[[], R]) -> None:
        # Let go of when it begins: what it holds (rows, files) lives no longer than the work.
        self._work: Callable[[], R] | None = work
        self._done = threading.Event()
        # One result, or none with an error. A list, as None may be a result.
        self._results: list[R] = []
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Until it is done, with or without an error, or the time is over; whether it is done."""
        return self._done.wait(seconds)

    def result(self) -> R:
        """Waits for it; raises its error, the same object each time. Never ends for a task that nobody runs."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def run(self) -> None:
        """Do the work; its error is kept for `result`. BaseException too: a waiting thread must wake up in any case."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._results.append(work())
        except BaseException as error:  # noqa: BLE001
            self._error = error
        finally:
            self._done.set()


class WorkerThread:
    """Does one task after the other. begin: called in a thread before its first task, to no end that a task needs: what
    it raises is logged, and the tasks are done all the same. Not called where a caller does the work itself.

    _is_running: somebody is at `_run` and looks at the tasks once more before it goes. It changes under
    the lock only, together with the look at an empty queue, so no task falls between.
    """

    def __init__(self, name: str, begin: Callable[[], None] | None = None) -> None:
        self._name = f"widetable-{name}"
        self._begin = begin
        self._lock = threading.Lock()
        self._tasks: deque[Task[Any]] = deque()
        self._is_running = False

    def submit(self, task: Task[Any]) -> None:
        """Do it after all that was handed over before. Returns at once, unless no thread can be started: then the
        caller does this one, and what others hand over meanwhile.
        """
        with self._lock:
            self._tasks.append(task)
            if self._is_running:
                return
            self._is_running = True
        if _started(self._begin_and_run, self._name) is None:
            self._run()

    def _begin_and_run(self) -> None:
        try:
            if self._begin is not None:
                self._begin()
        except BaseException:  # noqa: BLE001
            _log.debug("%s goes on without what it begins with", self._name, exc_info=True)
        self._run()

    def _run(self) -> None:
        """Until no task is left. In one thread at a time, which sees that as `submit` does: under the lock."""
        while True:
            with self._lock:
                if not self._tasks:
                    self._is_running = False
                    return
                task = self._tasks.popleft()
            task.run()


def in_threads(
    work: Callable[[T], R], items: Sequence[T], threads: int, name: str = "worker"
) -> list[R]:
    """The results of the work on each item, in order, done by the caller and threads - 1 others. After an error nothing
    new is begun; of several the one of the first item is raised.

    Returns when all threads have ended, after an error as well. It is the plain loop where one
    thread is enough.
    """
    if min(threads, len(items)) <= 1:
        return list(map(work, items))
    # popleft and the items of dicts are atomic: no lock.
    left = deque(enumerate(items))
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def serve() -> None:
        # Work that was begun when another failed goes on to its end; its result is dropped.
        while not errors:
            try:
                number, item = left.popleft()
            except IndexError:
                return
            try:
                results[number] = work(item)
            except BaseException as error:  # noqa: BLE001
                errors[number] = error

    others = [_started(serve, f"widetable-{name}") for _ in range(min(threads, len(items)) - 1)]
    serve()
    for thread in others:
        if thread is not None:
            thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(items))]


def _started(target: Callable[[], None], name: str) -> threading.Thread | None:
    """A thread that does it; None where none can be started. No daemon: the process waits for it."""
    if sys.is_finalizing():
        return None
    thread = threading.Thread(target=target, name=name, daemon=False)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
