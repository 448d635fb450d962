"""The one maintainer of the wide table: it compacts and widens in the background while the streams write.

The streams only append (`write-only`), so somebody has to merge their small files, and with that to
tell what changed; and to let the columns of the aircraft follow the tail numbers. `DemoMaintainer` is a
context manager around `Table.maintain`, the same loop that `widetable maintain` runs in a process of its
own; what it did is in `rounds` afterwards. A failure that it cannot mend ends the demo: the exception is
raised again when the context is left.

In a thread of the driver, because there are two cores and the kernels that compact let others run:
another process would load the same code again, and tasks of Spark would wait behind the streams' own.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

import widetable as wt
from examples.flights.watched_thread import WatchedThread


@dataclass(frozen=True)
class CompactionRound:
    """One round that had something to compact.

    started: epoch seconds. seconds: how long it took. snapshot_id: the last one that it published.
    """

    started: float
    seconds: float
    full: bool
    snapshot_id: int


class DemoMaintainer:
    """Does whatever is due every `pause_seconds` until the context is left, and then until nothing is left to do."""

    def __init__(self, table: wt.Table, pause_seconds: float) -> None:
        self.rounds: list[CompactionRound] = []
        self._table = table
        self._pause_seconds = pause_seconds
        self._begun = 0.0
        self._thread = WatchedThread("maintainer", self._work)

    def __enter__(self) -> DemoMaintainer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.end()
        if error is not None:
            return
        self._thread.check()
        done = self._maintain_once()
        while not done.is_idle:
            done = self._maintain_once()

    def compact_fully(self) -> None:
        """Merge everything into the last level. Not to be called while the context is open."""
        self._begun = time.time()
        self._note(self._table.compact(full=True).snapshot_id, full=True)

    def _maintain_once(self) -> wt.MaintenanceResult:
        self._begun = time.time()
        done = self._table.maintain(once=True, expire=False)
        self._note(done.snapshot_id, full=False)
        return done

    def _work(self, stop: threading.Event) -> None:
        self._begun = time.time()
        self._table.maintain(
            interval_millis=int(self._pause_seconds * 1000),
            expire=False,  # the report looks back at every snapshot
            stop=stop,
            on_round=self._end_round,
        )

    def _end_round(self, result: wt.MaintenanceResult) -> None:
        self._note(result.snapshot_id, full=False)
        self._begun = time.time() + self._pause_seconds  # when the next round begins

    def _note(self, snapshot_id: int | None, *, full: bool) -> None:
        if snapshot_id is not None:
            seconds = time.time() - self._begun
            self.rounds.append(CompactionRound(self._begun, seconds, full, snapshot_id))
