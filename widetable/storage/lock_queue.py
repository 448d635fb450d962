"""Turns at a file among the threads and processes of one machine: first come, first served.

A turn is an exclusive `flock`. Linux lets those that wait have it in the order in which they came, and gives it back
when a process ends, however it ends. A thread waits for it in the kernel, so that the caller can stop waiting: one that
is stopped with the turn in its hands must not stop all others. Nothing may rely on a turn: who has seen nobody get it
for too long goes on without one, and does not wait for that file again until somebody has got it: whoever noted that,
or the thread, which waits on.

In: the path of an empty file, made when it is not there; its time of modification says when somebody last got the turn.
Out: whether the turn is ours. Raises nothing: False at once where the directory is not there, or the storage has no
locks.

    caller                                          waiting thread
    asks without waiting: somebody has it
    starts the thread                               waits in the kernel (flock)
    nobody got it for the time of its patience:
    notes the file in _KEPT, goes on without        gets it in the end: the caller has given up, so it is
                                                    given back at once, and the file is taken from _KEPT

Who of both has the descriptor is decided under `_state`: the thread answers there, the caller
gives up there. So either the caller hears that it has the turn and gives it back itself, or the
thread does.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

from widetable.errors import StorageError
from widetable.runtime.forked_child import SharedByThreads
from widetable.storage.temporary_directory import temporary_directory

# What is done in a turn takes milliseconds, a compaction seconds: who keeps one for so long may stand still.
PATIENCE_SECONDS: Final = 20.0
# Files whose turn somebody keeps for longer than this process would wait, with the time at which it was got.
_KEPT: Final[dict[str, int]] = {}


@contextlib.contextmanager
def turn(path: str, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[bool]:
    """Whether it is our turn while the block runs. Not to be asked for again inside of the block.

    patience_seconds: for how long it waits while nobody gets it; while others do, it waits on.
    An interrupt while it waits gives the turn up. Within one process two threads are as two
    processes: each opens the file for itself.
    """
    lock = _Lock.on(path)
    if lock is None:
        yield False
        return
    is_ours = False
    try:
        is_ours = lock.take() or lock.wait(patience_seconds)
        if is_ours:
            lock.note()
        yield is_ours
    finally:
        if is_ours:
            lock.give_back()
        else:
            lock.give_up()


def turn_of_name(name: str) -> AbstractContextManager[bool]:
    """At a name on a storage that has no such files: at one of this user's temporary files, for the same name.

    Another user's processes have files of their own, and so do other machines: they do not take
    turns with these. Where there are no temporary files there are no turns.
    """
    try:
        root = temporary_directory("for turns")
    except StorageError:
        return contextlib.nullcontext(False)
    folder = os.path.join(root, f"widetable-turns-{os.getuid()}")
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return turn(os.path.join(folder, hashlib.sha256(name.encode()).hexdigest()))


class _Lock(SharedByThreads):
    """Of one who asks. The waiting thread has the descriptor for itself when the caller gave up. A forked child closes
    it: the lock would live there for longer than the process that has it.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        # First: `_start_anew`, which is called next, closes what is open.
        self._descriptor: int | None = None
        super().__init__()
        self._descriptor = descriptor

    def _start_anew(self) -> None:
        self._close()
        self._answered = threading.Event()
        self._state = threading.Lock()
        self._is_waiting = self._is_ours = self._is_given_up = False

    @classmethod
    def on(cls, path: str) -> _Lock | None:
        # Another user's may only be read, which is enough for a lock on a local disk.
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with contextlib.suppress(OSError, ValueError):
                return cls(path, os.open(path, flags | os.O_CLOEXEC, 0o666))
        return None

    def take(self) -> bool:
        """At once, or not."""
        return self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self, seconds: float) -> bool:
        """Whether it becomes ours while others get it, each within that time. Where no thread can be started nobody
        waits.
        """
        # The queue moves as long as the time of the file does: each who gets the turn sets it
        # (`note`).
        got_at = self._got_at()
        if _KEPT.get(self._path) == got_at or not self._start():
            return False
        while not self._answered.wait(seconds):
            before, got_at = got_at, self._got_at()
            with self._state:
                if got_at == before and not self._answered.is_set():
                    _KEPT[self._path] = got_at
                    return False
        return self._is_ours

    def note(self) -> None:
        """That somebody has got the turn now."""
        _KEPT.pop(self._path, None)
        with contextlib.suppress(OSError):  # another user's file
            if self._descriptor is not None:
                os.utime(self._descriptor)

    def _got_at(self) -> int:
        """When somebody last did."""
        with contextlib.suppress(OSError):
            if self._descriptor is not None:
                return os.fstat(self._descriptor).st_mtime_ns
        return 0

    def _start(self) -> bool:
        """The waiting thread."""
        thread = threading.Thread(target=self._wait, name="widetable-turn", daemon=True)
        self._is_waiting = True  # before: an interrupt may come when it has started
        try:
            thread.start()
        except RuntimeError:
            self._is_waiting = False
            return False
        return True

    def give_up(self) -> None:
        """Without the turn: the descriptor is closed here, or by the thread that still waits
        with it.
        """
        with self._state:
            self._is_given_up = True
            if self._is_waiting and not self._answered.is_set():
                return
        self.give_back()

    def give_back(self) -> None:
        # By name: a child that was forked meanwhile may have the same lock open.
        self._locked(fcntl.LOCK_UN)
        self._close()

    def _locked(self, operation: int) -> bool:
        if self._descriptor is None:
            return False
        try:
            fcntl.flock(self._descriptor, operation)
        except OSError:
            return False
        return True

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _wait(self) -> None:
        """The thread. It ends when it has the lock, however long that takes; a daemon, so no
        process waits for it.
        """
        is_ours = self._locked(fcntl.LOCK_EX)
        with self._state:
            if is_ours:
                _KEPT.pop(self._path, None)
            self._is_ours = is_ours and not self._is_given_up
            self._answered.set()
            if not self._is_given_up:
                return
        self.give_back()
