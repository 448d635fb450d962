"""The threads in which a process compacts while its writes go on: one for changelogs that a write need not wait for
(`lookup-wait=false`), one for what commits leave of the older levels. Both end their work before the process ends.

In: a table's root and the work; out: nothing, but `wait`. Raises nothing: an error that the work lets through is told
in the log, with its trace. A process that was forked off starts with threads of its own and nothing to do.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

_log = logging.getLogger("widetable")
_LOW_PRIORITY: Final = 10


class CompactionThread:
    """One thread; it starts with the first work. gives_way: it and the threads that it starts run when others do not
    want the cores (Linux; elsewhere as all).
    """

    def __init__(self, name: str, *, gives_way: bool = False) -> None:
        self._name = f"widetable-{name}"
        self._initializer = _give_way if gives_way else None
        self._start_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        self._pool = ThreadPoolExecutor(1, self._name, initializer=self._initializer)
        self._lock = threading.Lock()
        self._of_table: dict[str, set[Future[None]]] = {}

    def submit(self, root: str, work: Callable[[], None]) -> None:
        """Do the work after all that was handed over before."""
        with self._lock:
            pending = self._of_table.setdefault(root, set())
            pending -= {future for future in pending if future.done()}
            pending.add(self._pool.submit(_told_in_the_log, work))

    def submit_alone(self, root: str, work: Callable[[], None]) -> None:
        """Do the work, unless some of this table is not done: for who asks again with every commit."""
        with self._lock:
            if not self._pending(root):
                self._of_table[root] = {self._pool.submit(_told_in_the_log, work)}

    def wait(self, root: str) -> None:
        """Returns when nothing of this table is left that was handed over before."""
        with self._lock:
            pending = self._pending(root)
        wait(pending)

    def _pending(self, root: str) -> set[Future[None]]:
        return {future for future in self._of_table.get(root, ()) if not future.done()}


def _told_in_the_log(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        _log.exception("a compaction behind a commit failed")
        raise


def _give_way() -> None:
    if sys.platform == "linux":  # where threads have priorities of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


CHANGELOGS: Final = CompactionThread("lookup")
OLD_LEVELS: Final = CompactionThread("old-levels", gives_way=True)


def wait_for_compactions(root: str) -> None:
    """Returns when this process has done what it compacts behind the commits of a table."""
    CHANGELOGS.wait(root)
    OLD_LEVELS.wait(root)
