"""What the threads of a process share, and what becomes of it when the process forks: the one rule for both.

Only the thread that forks lives on in the child. A lock that another one held at that moment stays taken there for
ever, and a queue has nobody who serves it. So

    is ours                         made anew in the child, with what it protects: nobody knows how far a change had
                                    come. Nothing is waited for. `SharedByThreads`
    is a library's, and            held over the fork, which waits until others have left it:
    cannot be made anew             numba's compiler, and sections of ours inside `UNFORKABLE`

What is to be done right before a fork, when nobody is in such a section, goes into `BEFORE_FORK`. It raises nothing.

    thread that forks    _before: close the gate, take numba's locks, BEFORE_FORK
                             fork
    parent               _in_parent: give the locks back, open the gate
    child                _in_child: a new gate, give the locks back, make all SharedByThreads anew

Processes that start anew (spawn) have none of this to fear: they share nothing.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from weakref import WeakSet


class SharedByThreads:
    """The base of what threads share.

    A subclass makes its locks, and what they protect, in `_start_anew` alone, and calls
    `super().__init__()`, which calls that. In the child it runs in the one thread that is there, and
    takes no lock. Objects are known by weak references, which keep none alive.
    """

    def __init__(self) -> None:
        self._start_anew()
        _shared.add(self)

    def _start_anew(self) -> None:
        """Make the locks, and what they protect. Called at the beginning, and in every forked child."""
        raise NotImplementedError


class ForkGate(AbstractContextManager["ForkGate"]):
    """Sections in the middle of which the process must not be forked. Any number of threads may be inside, each as
    often as it likes.

    From `close` on, threads come in that are inside already, and no others: those that always come again would keep a
    fork waiting for ever. It is not waited for the thread that forks: it may do so in there, in a signal handler.

        thread A            thread B, forks
        enters, works
                            close: A is inside, waits
        enters once more    (may: its work would never end else)
        C wants in, waits
        leaves, leaves      goes on with `_changed` held: nobody comes in any more, fork, reopen
                            C comes in
    """

    def __init__(self) -> None:
        self.reset()

    def __enter__(self) -> ForkGate:
        me = threading.get_ident()
        # A signal handler may enter while its thread holds the condition: hence an RLock in it.
        with self._changed:
            while self._closing and me not in self._depths:
                self._changed.wait()
            self._depths[me] = self._depths.get(me, 0) + 1
        return self

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            depth = self._depths.pop(me, 0) - 1  # none: it forked in there, and this is the child
            if depth > 0:
                self._depths[me] = depth
            self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in, and wait until no other thread is inside. The condition stays held until `reopen`."""
        self._changed.acquire()
        self._closing += 1
        while self._depths.keys() - {threading.get_ident()}:
            self._changed.wait()

    def reopen(self) -> None:
        """In the process that forked."""
        self._closing -= 1
        self._changed.notify_all()
        self._changed.release()

    def reset(self) -> None:
        """In the child."""
        self._changed = threading.Condition(threading.RLock())
        self._depths: dict[int, int] = {}  # by thread
        self._closing = 0  # how many want to fork; two threads may at once


UNFORKABLE: Final = ForkGate()
# Called with the gate closed and numba's locks taken: they must need neither, and not wait for threads that do.
BEFORE_FORK: Final[list[Callable[[], None]]] = []
_shared: Final[WeakSet[SharedByThreads]] = WeakSet()
# Numba's locks between `_before` and what follows the fork, in both processes.
_held: Final = ExitStack()


def _before() -> None:
    # Python reports what is raised in here, and forks all the same.
    UNFORKABLE.close()  # first: who compiles in there takes numba's locks
    for lock in _locks_of_numba():
        _held.enter_context(lock)
    for prepare in BEFORE_FORK:
        prepare()


def _in_parent() -> None:
    _held.close()
    UNFORKABLE.reopen()


def _in_child() -> None:
    # The gate first: what is made anew below may enter it.
    UNFORKABLE.reset()
    _held.close()
    for each in list(_shared):
        each._start_anew()


def _locks_of_numba() -> list[AbstractContextManager[Any]]:
    """In the order in which it takes them: while it compiles, and while it calls LLVM.

    Found in `sys.modules`, so that a fork imports nothing; neither is a public name of numba's, and
    a version that has them no more is forked without.
    """
    compiler = sys.modules.get("numba.core.compiler_lock")
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    found = getattr(compiler, "global_compiler_lock", None), getattr(llvm, "_lock", None)
    return [lock for lock in found if lock is not None]


# After logging and concurrent.futures, so that it is called before theirs: whom it waits for may need their locks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
