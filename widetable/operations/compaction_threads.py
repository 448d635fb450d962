"""The threads in which a process compacts while its writes go on: one for changelogs that a write need not wait for
(`lookup-wait=false`), one for what commits leave of the older levels. Both end their work before the process ends.

In: a table's root and the work, which raises nothing; out: nothing, but `wait`. One piece of work of a table waits or
runs in a thread at a time: for old levels who asks meanwhile is not heard, since every commit asks again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

_LOW_PRIORITY: Final = 10


class CompactionThread:
    """One thread; it starts with the first work. gives_way: it and the threads that it starts run when others do not
    want the cores (Linux; elsewhere as all).
    """

    def __init__(self, name: str, *, gives_way: bool = False) -> None:
        self._pool = ThreadPoolExecutor(
            1, f"widetable-{name}", initializer=_give_way if gives_way else None
        )
        self._lock = threading.Lock()
        self._of_table: dict[str, set[Future[None]]] = {}

    def submit(self, root: str, work: Callable[[], None]) -> None:
        """Do the work after all that was handed over before."""
        with self._lock:
            pending = self._of_table.setdefault(root, set())
            pending -= {future for future in pending if future.done()}
            pending.add(self._pool.submit(work))

    def submit_alone(self, root: str, work: Callable[[], None]) -> None:
        """Do the work, unless some of this table is not done."""
        with self._lock:
            if not self._pending(root):
                self._of_table[root] = {self._pool.submit(work)}

    def wait(self, root: str) -> None:
        """Returns when nothing of this table is left that was handed over before."""
        with self._lock:
            pending = self._pending(root)
        wait(pending)

    def _pending(self, root: str) -> set[Future[None]]:
        return {future for future in self._of_table.get(root, ()) if not future.done()}


def _give_way() -> None:
    if sys.platform == "linux":  # where threads have priorities of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


CHANGELOGS: Final = CompactionThread("lookup")
OLD_LEVELS: Final = CompactionThread("old-levels", gives_way=True)


def wait_for_compactions(root: str) -> None:
    """Returns when this process has done what it compacts behind the commits of a table."""
    CHANGELOGS.wait(root)
    OLD_LEVELS.wait(root)
