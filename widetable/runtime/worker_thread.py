"""Threads that work for a caller: tasks one after the other in the background, or many items at once.

They do not use `concurrent.futures`, which accepts no work once the main thread has ended: a running compaction would
lose its threads, and with them the changelog. A thread here starts when there is work and ends when none is left; the
process waits for it before it ends. Where no thread can be started, because the process ends or the system has no more
threads, the caller does the work. An error is raised to the caller that asks for the result.

    WorkerThread    one task after the other, in the order of `submit`; the caller continues meanwhile
    in_threads      many items at once, the caller being one of the workers; the caller gets the results

Neither is bounded: submitted work waits in memory. The locks here are plain ones, so the owner of a WorkerThread must
create it again in a forked child (`forked_child`).
"""

from __future__ import annotations

# This import is not used here. Arrow imports pandas late, and pandas imports this module, which fails once the main
# thread has ended.
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
    """A piece of work that is done once. Any thread may wait for it at any time; all get the same result."""

    def __init__(self, work: Callable[[], R]) -> None:
        # Released when the work begins, so that its rows and files live no longer than the work.
        self._work: Callable[[], R] | None = work
        self._done = threading.Event()
        # One result, or no result and an error. It is a list because None may be a result.
        self._results: list[R] = []
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the task is done, with or without an error, or the time is over.

        Parameters
        ----------
        seconds : float, default None
            The longest time. None: for ever.

        Returns
        -------
        bool
            Whether it is done.
        """
        return self._done.wait(seconds)

    def result(self) -> R:
        """Wait for the task. It raises the task's error, the same object each time, and blocks while no thread runs it.

        Returns
        -------
        object
            The result.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def run(self) -> None:
        """Do the work and store its error for `result`: any BaseException, as waiting threads must always wake up."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._results.append(work())
        except BaseException as error:  # noqa: BLE001
            self._error = error
        finally:
            self._done.set()


class WorkerThread:
    """Does one task after the other.

    begin: called in a new thread before its first task. The tasks must not depend on it: its errors are logged, and the
    tasks are done all the same. It is not called where a caller does the work itself.
    _is_running: a thread is in `_run` and will check the queue once more before it ends. It changes only under the
    lock, together with the check that the queue is empty, so that no task is missed.
    """

    def __init__(self, name: str, begin: Callable[[], None] | None = None) -> None:
        self._name = f"widetable-{name}"
        self._begin = begin
        self._lock = threading.Lock()
        self._tasks: deque[Task[Any]] = deque()
        self._is_running = False

    def submit(self, task: Task[Any]) -> None:
        """Queue a task behind those that were submitted before.

        It returns at once, unless no thread can be started: then the caller does this task, and those that others
        submit meanwhile.

        Parameters
        ----------
        task : Task
            The task.
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
            _log.debug(
                "%s: the preparation failed; the tasks run without it", self._name, exc_info=True
            )
        self._run()

    def _run(self) -> None:
        """Do tasks until none is left. Only one thread at a time is here; `_is_running` ensures it."""
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
    """Return the results of the work on each item, in order. The caller and threads - 1 other threads do the work.

    After an error no new item is begun; of several errors that of the first item is raised.
    Returns when all threads have ended, after an error as well. A plain loop runs where one thread is enough.
    """
    if min(threads, len(items)) <= 1:
        return list(map(work, items))
    # popleft and the items of dicts are atomic: no lock.
    left = deque(enumerate(items))
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def serve() -> None:
        # Work that is running when another item fails is completed; its result is dropped.
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
    """Start a thread; None where none can be started. It is not a daemon, so the process waits for it."""
    if sys.is_finalizing():
        return None
    thread = threading.Thread(target=target, name=name, daemon=False)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
