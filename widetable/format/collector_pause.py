"""Python's cyclic garbage collector, stopped while a manifest's entries are made.

They hold no cycles, but every few hundred of them start a round over objects that are all alive: of 100,000 entries a
quarter of the time. Whoever found the collector running starts it again, so that with several threads inside it runs
too early rather than never; a process is not forked meanwhile, since the child would go on without it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from widetable.forked_child import UNFORKABLE


@contextmanager
def collector_paused() -> Iterator[None]:
    """No round of the collector begins inside, except one that another thread asks for."""
    with UNFORKABLE:
        was_running = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_running:
                gc.enable()
