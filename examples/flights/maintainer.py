"""The one maintainer of the table: it compacts in the background while the streams write.

The streams only append (`write-only`), so somebody has to merge their small files. `Maintainer` is a
context manager around that work; what it did is in `rounds` afterwards. A compaction that fails ends
the demo: the exception is raised again when the context is left.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

import widetable as wt


@dataclass(frozen=True)
class CompactionRound:
    """One call of `table.compact` that had something to do.

    started: epoch seconds. seconds: how long it took. file_count: files it wrote.
    """

    started: float
    seconds: float
    full: bool
    file_count: int


class Maintainer:
    """Compacts every `pause_seconds` until the context is left."""

    def __init__(self, table: wt.Table, pause_seconds: float) -> None:
        self.rounds: list[CompactionRound] = []
        self._table = table
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="maintainer")

    def __enter__(self) -> Maintainer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def compact(self, *, full: bool = False) -> None:
        """One round now, in the caller's thread. Not to be called while the context is open."""
        started = time.time()
        result = self._table.compact(full=full)
        if result.committed:
            seconds = time.time() - started
            self.rounds.append(CompactionRound(started, seconds, full, result.files))

    def _work(self) -> None:
        while not self._stop.wait(self._pause_seconds):
            try:
                self.compact()
            except Exception as failure:  # noqa: BLE001 - handed over to the thread that waits
                self._failure = failure
                return
