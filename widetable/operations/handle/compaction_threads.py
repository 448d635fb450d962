"""The threads in which a process compacts while its writes go on: one for changelogs that a write need not wait for
(`lookup-wait=false`) and for the files of a whole barrier, one for the older levels that commits leave uncompacted.
Both finish their work before the process ends.

In: a table's root and the work; out: nothing, except `wait`. Raises nothing: errors that the work raises are
logged with their trace. The caller does the work itself where no thread can be started, and once the main thread has
ended. A forked process starts with threads of its own and no work.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.compaction_pace import Pace
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.worker_thread import Task, WorkerThread

_log = logging.getLogger("widetable")
_LOW_PRIORITY: Final = 10


@dataclass(eq=False)
class _Handed:
    """Work of the thread. waits: it has not begun, and whoever asks for the same may leave it to this work."""

    work: Callable[[], None]
    barrier: int | None
    waits: bool

    def __post_init__(self) -> None:
        self.task = Task(self._done)

    def _done(self) -> None:
        self.waits = False
        _logged(self.work)


class CompactionThread(SharedByThreads):
    """One thread that compacts for all tables of the process, in the order in which work is handed over.

    A long compaction of one table delays those of others. Work must never wait in it for other work of the thread.
    gives_way: it and the threads that it starts have a low priority (on Linux; elsewhere the normal one).
    """

    def __init__(self, name: str, *, gives_way: bool = False) -> None:
        self._name = name
        self._begin = _give_way if gives_way else None
        super().__init__()

    def _reset(self) -> None:
        self._thread = WorkerThread(self._name, self._begin)
        self._lock = threading.Lock()
        self._of_table: dict[str, list[_Handed]] = {}
        self._paces: dict[str, Pace] = {}

    def submit(
        self,
        root: str,
        work: Callable[[], None],
        barrier: int | None = None,
        new_rows: Mapping[str, int] | None = None,
        *,
        is_alone: bool = False,
        looks_at_all: bool = False,
    ) -> None:
        """Do the work after all earlier work. barrier: the one up to which the work goes, for `pending_barriers`.

        new_rows: rows by level-0 file that the work takes: appends keep its pace from now until it ends. is_alone: do
        nothing while earlier work of this table is pending, for callers that submit with every commit. looks_at_all:
        do nothing while earlier work of this kind has not begun, because that will see all that this would see. Work
        that has begun may have looked already.
        """
        with self._lock:
            pending = self._pending(root)
            if pending and is_alone:
                return
            if looks_at_all and any(one.waits for one in pending):
                return
            if new_rows is not None:
                work = self.pace(root).paced(work, new_rows)
            handed = _Handed(work, barrier, waits=looks_at_all)
            self._of_table[root] = [*pending, handed]
        if threading.main_thread().is_alive():
            self._thread.submit(handed.task)
        else:  # no one would wait for a thread that starts now
            handed.task.run()

    def pending_barriers(self, root: str) -> frozenset[int]:
        """Return the barriers up to which work on the table was handed over and is not done."""
        with self._lock:
            barriers = (one.barrier for one in self._pending(root))
            return frozenset(barrier for barrier in barriers if barrier is not None)

    def pace(self, root: str) -> Pace:
        """Return the pace of a table."""
        return self._paces.setdefault(root, Pace(root))

    def _pending(self, root: str) -> list[_Handed]:
        return [one for one in self._of_table.get(root, ()) if not one.task.is_done]

    def wait(self, root: str) -> None:
        """Return when all work on this table that was handed over before is done."""
        # The wait is outside of the lock: the work may hand over more, which is not waited for.
        with self._lock:
            pending = list(self._of_table.get(root, ()))
        for one in pending:
            one.task.wait()


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        warn(
            _log,
            WarningCode.COMPACTION_FAILED,
            "a compaction after a commit failed",
            level=logging.ERROR,
            exc_info=True,
        )
        raise


def _give_way() -> None:
    if sys.platform == "linux":  # threads have priorities of their own there
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOW_PRIORITY)


CHANGELOGS: Final = CompactionThread("lookup")
OLD_LEVELS: Final = CompactionThread("old-levels", gives_way=True)


def wait_for_changelogs(root: str) -> None:
    """Wait until this process has made the changelogs of a table that it makes behind commits.

    Parameters
    ----------
    root : str
        The table's directory.
    """
    CHANGELOGS.wait(root)


def wait_for_compactions(root: str) -> None:
    """Return when this process has done all pending compactions of a table."""
    CHANGELOGS.wait(root)
    OLD_LEVELS.wait(root)
