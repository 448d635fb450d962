"""Pauses Python's cyclic garbage collector while many objects without cycles are made: the entries of a manifest, the
columns of a wide table.

Every few hundred new objects start a collection over objects that are all alive. Collections take a quarter of the time
for 100,000 entries, and three quarters for 5,000 columns. The thread that stopped the collector starts it again. With
several threads inside, the collector therefore runs too early rather than never; it also runs if the application
stopped it meanwhile. A process may fork inside, even from a signal handler: no lock is taken, and the child's collector
runs.

    thread A   finds it running, stops it  . . . . . . . . . . starts it
    thread B            finds it stopped, changes nothing . . . . . . . continues, with collections

So B loses some of the gain, but no thread leaves the collector stopped.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from widetable.runtime.forked_child import SharedByThreads


class _Pauses(SharedByThreads):
    """The threads that have stopped the collector. There is no lock, because a signal handler may interrupt."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        super().__init__()

    def _reset(self) -> None:
        if self.threads:
            gc.enable()
        self.threads = set()


_PAUSES: Final = _Pauses()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Start no collection while the block runs, unless another thread starts the collector."""
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
