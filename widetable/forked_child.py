"""What the threads of a process share starts anew in a child that the process forks: the one rule for locks and forks.

Only the thread that forks lives on in the child. A lock that another one held at that moment stays taken there for
ever, and a queue has nobody who serves it. So whoever has such a thing at module level, or in an object that lives as
long as the process, makes it anew in the child, and with it what the lock protects: nobody knows how far a change had
come. Nothing is waited for before a fork.
"""

from __future__ import annotations

import os
from typing import Final
from weakref import WeakSet


class SharedByThreads:
    """The base of what threads share."""

    def __init__(self) -> None:
        self._start_anew()
        _shared.add(self)

    def _start_anew(self) -> None:
        """Make the locks, and what they protect. Called at the beginning, and in every forked child."""
        raise NotImplementedError


_shared: Final[WeakSet[SharedByThreads]] = WeakSet()


def _in_child() -> None:
    for each in list(_shared):
        each._start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
