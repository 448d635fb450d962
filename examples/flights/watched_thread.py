"""A thread of the demo whose failure is raised again where somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WatchedThread(threading.Thread):
    """Does some work until it is over, or until `stop` is set. work: takes that event."""

    def __init__(self, name: str, work: Callable[[threading.Event], None]) -> None:
        super().__init__(name=name)
        self.stop = threading.Event()
        self._work = work
        self._failure: Exception | None = None

    def run(self) -> None:
        """Do the work, in the thread."""
        try:
            self._work(self.stop)
        except Exception as failure:  # noqa: BLE001 - handed over to the thread that waits
            self._failure = failure

    @property
    def has_begun(self) -> bool:
        """Whether the thread was started."""
        return self.ident is not None

    def end(self) -> None:
        """Let the work end, and wait for that."""
        self.stop.set()
        if self.has_begun:
            self.join()

    def check(self) -> None:
        """Raise what ended the work, if something did."""
        if self._failure is not None:
            raise self._failure
