"""Python's cyclic garbage collector, stopped while many objects are made that hold no cycles: a manifest's entries, the
columns of a wide table.

Every few hundred of them start a round over objects that are all alive: of 100,000 entries a quarter of the time, of
5,000 columns three quarters. Whoever found the collector running starts it again, so that with several threads inside
it runs too early rather than never, and also where the application stopped it meanwhile. A process may fork meanwhile,
even from a signal handler inside: nothing is waited for, and the child's collector runs.

    thread A   finds it running, stops it  . . . . . . . . . . starts it
    thread B            finds it stopped, changes nothing . . . . . . . goes on, collected again

So B loses some of the gain, but nobody leaves the collector stopped.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from widetable.runtime.forked_child import SharedByThreads


class _Pauses(SharedByThreads):
    """threads: that have stopped the collector. No lock: a signal handler may come in between."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        super().__init__()

    def _start_anew(self) -> None:
        if self.threads:
            gc.enable()
        self.threads = set()


_PAUSES: Final = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """No round of the collector begins inside, except one that another thread asks for."""
    if not gc.isenabled():
        yield
        return
    thread = threading.get_ident()
    try:
        _PAUSES.threads.add(thread)
        gc.disable()
        yield
    finally:
        gc.enable()
        _PAUSES.threads.discard(thread)
