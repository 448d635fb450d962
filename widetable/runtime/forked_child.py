"""State that the threads of a process share, and how it survives a fork. This module holds the rule for both.

Only the thread that forks exists in the child. A lock that another thread held at the fork stays locked there for
ever, and no thread serves a queue. Therefore:

    our own locks and queues        are created again in the child, with the data that they protect, because that data
                                    may be half changed. The fork waits for nothing: `SharedByThreads`
    locks of libraries, which       are held across the fork, which waits until other threads have released them:
    cannot be created again         numba's compiler, and our own sections inside `UNFORKABLE`

Callables that must run right before a fork, when no thread is in such a section, belong to `BEFORE_FORK`. They must not
raise.

    thread that forks    _before: close the gate, take numba's locks, BEFORE_FORK
                             fork
    parent               _in_parent: release the locks, open the gate
    child                _in_child: a new gate, release the locks, reset all SharedByThreads

Spawned processes need none of this: they share nothing.
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
    """The base class of state that threads share.

    A subclass creates its locks, and the data that they protect, in `_reset` only, and calls
    `super().__init__()`, which calls `_reset`. In a forked child `_reset` runs in the only
    thread, and takes no lock. The registry of these objects holds weak references.
    """

    def __init__(self) -> None:
        self._reset()
        _shared.add(self)

    def _reset(self) -> None:
        """Create the locks and the data that they protect. Called by `__init__` and in every forked child."""
        raise NotImplementedError


class ForkGate(AbstractContextManager["ForkGate"]):
    """Sections in the middle of which the process must not be forked. Any number of threads may be inside, and a thread
    may enter repeatedly.

    After `close`, only threads that are inside may enter again. Others wait: threads that keep coming would delay the
    fork for ever. `close` does not wait for the calling thread, which may be inside and fork from a signal handler.

        thread A            thread B, forks
        enters, works
                            close: A is inside, waits
        enters once more    (allowed: its work would never end otherwise)
        C wants in, waits
        leaves, leaves      continues with `_changed` locked: no thread can enter; fork, reopen
                            C enters
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
            depth = (
                self._depths.pop(me, 0) - 1
            )  # 0: the thread forked inside, and this is the child
            if depth > 0:
                self._depths[me] = depth
            self._changed.notify_all()

    def close(self) -> None:
        """Admit no new thread, and wait until no other thread is inside. The condition stays locked until `reopen`."""
        self._changed.acquire()
        self._closing += 1
        while self._depths.keys() - {threading.get_ident()}:
            self._changed.wait()

    def reopen(self) -> None:
        """Admit threads again. Called in the process that forked."""
        self._closing -= 1
        self._changed.notify_all()
        self._changed.release()

    def reset(self) -> None:
        """Create the gate again, open and empty. Called by `__init__` and in the child."""
        self._changed = threading.Condition(threading.RLock())
        self._depths: dict[int, int] = {}  # by thread
        self._closing = 0  # the number of threads that want to fork; it may be two


UNFORKABLE: Final = ForkGate()
# Called with the gate closed and numba's locks taken: they must need neither, nor wait for threads that need them.
BEFORE_FORK: Final[list[Callable[[], None]]] = []
_shared: Final[WeakSet[SharedByThreads]] = WeakSet()
# Holds numba's locks from `_before` until `_in_parent` and `_in_child`.
_held: Final = ExitStack()


def _before() -> None:
    # Python reports an error that is raised in here, and forks all the same.
    UNFORKABLE.close()  # first: a thread that compiles inside takes numba's locks
    for lock in _locks_of_numba():
        _held.enter_context(lock)
    for prepare in BEFORE_FORK:
        prepare()


def _in_parent() -> None:
    _held.close()
    UNFORKABLE.reopen()


def _in_child() -> None:
    # The gate is first, because the objects that are reset below may enter it.
    UNFORKABLE.reset()
    _held.close()
    for each in list(_shared):
        each._reset()


def _locks_of_numba() -> list[AbstractContextManager[Any]]:
    """Return the locks of numba's compiler and of LLVM, in the order in which numba takes them.

    They are looked up in `sys.modules`, so that a fork imports nothing. Neither is a public name of numba; a version
    without them is forked without them.
    """
    compiler = sys.modules.get("numba.core.compiler_lock")
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    locks = getattr(compiler, "global_compiler_lock", None), getattr(llvm, "_lock", None)
    return [lock for lock in locks if lock is not None]


# Registered after logging and concurrent.futures, and so called before their handlers: the threads that `_before` waits
# for may need their locks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
