"""A fair advisory lock among the threads and processes of one machine: first come, first served.

The lock is an exclusive `flock` of a file. Linux grants it in the order of the requests, and releases it when the
process ends, however it ends. A separate thread waits for it in the kernel, so that the caller can stop waiting: a
holder that is stopped must not stop all others. Nothing may rely on the lock. A caller that has seen no grant for too
long continues without it, and this process does not wait for that file again until the lock is granted: to another
holder, which sets the file's time, or to the thread, which still waits.

In: the path of an empty file, created if it does not exist; its modification time is the time of the last grant.
Out: whether the lock was acquired. Raises nothing: False at once if the directory does not exist, or the storage has no
locks.

    caller                                          waiting thread
    tries without waiting: another holder has it
    starts the thread                               waits in the kernel (flock)
    sees no grant within its patience:
    enters the file in _STUCK, continues            gets the lock at last: the caller has given up, so the thread
    without the lock                                releases it at once, and removes the file from _STUCK

`_state` decides whether the caller or the thread owns the descriptor: the thread answers under it,
and the caller gives up under it. So either the caller learns that it has the lock and releases it
itself, or the thread releases it.
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

# Work under the lock takes milliseconds, a compaction seconds: a holder that takes longer may be stuck.
PATIENCE_SECONDS: Final = 20.0
# Files whose lock was held for longer than this process waits, with the time of the last grant.
_STUCK: Final[dict[str, int]] = {}


@contextlib.contextmanager
def turn(path: str, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[bool]:
    """Hold the lock of a file while the block runs, and yield whether it was acquired. It is not reentrant.

    patience_seconds: how long to wait without a grant to any waiter; each grant starts the time again.
    An interrupt during the wait gives up the request. Two threads of one process compete as two
    processes do: each opens the file itself.
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
    """Hold the lock of a name on a storage without file locks: a temporary file of this user stands for the name.

    Processes of other users and of other machines have other temporary files, so they do not
    compete for the same lock. Without a temporary directory there is no lock, and the block gets False.
    """
    try:
        root = temporary_directory("for lock files")
    except StorageError:
        return contextlib.nullcontext(False)
    folder = os.path.join(root, f"widetable-turns-{os.getuid()}")
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return turn(os.path.join(folder, hashlib.sha256(name.encode()).hexdigest()))


class _Lock(SharedByThreads):
    """The lock of one caller. The waiting thread owns the descriptor once the caller has given up. A forked child
    closes it, because its copy would keep the lock after the holder has ended.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        # Set first, because `_reset`, which is called next, closes an open descriptor.
        self._descriptor: int | None = None
        super().__init__()
        self._descriptor = descriptor

    def _reset(self) -> None:
        self._close()
        self._answered = threading.Event()
        self._state = threading.Lock()
        self._is_waiting = self._is_ours = self._is_given_up = False

    @classmethod
    def on(cls, path: str) -> _Lock | None:
        # A file of another user may be readable only, which is enough for a lock on a local disk.
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            with contextlib.suppress(OSError, ValueError):
                return cls(path, os.open(path, flags | os.O_CLOEXEC, 0o666))
        return None

    def take(self) -> bool:
        """Acquire the lock without waiting; return whether it was free."""
        return self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self, seconds: float) -> bool:
        """Wait for the lock and return whether it was acquired. Give up when no waiter gets it within `seconds`, or no
        thread can be started.
        """
        # The queue advances as long as the time of the file changes: each new holder sets it
        # (`note`).
        granted_at = self._granted_at()
        if _STUCK.get(self._path) == granted_at or not self._start():
            return False
        while not self._answered.wait(seconds):
            before, granted_at = granted_at, self._granted_at()
            with self._state:
                if granted_at == before and not self._answered.is_set():
                    _STUCK[self._path] = granted_at
                    return False
        return self._is_ours

    def note(self) -> None:
        """Record that the lock was granted now."""
        _STUCK.pop(self._path, None)
        with contextlib.suppress(OSError):  # another user's file
            if self._descriptor is not None:
                os.utime(self._descriptor)

    def _granted_at(self) -> int:
        """Return the time of the last grant, in nanoseconds since the epoch; 0 if it is not known."""
        with contextlib.suppress(OSError):
            if self._descriptor is not None:
                return os.fstat(self._descriptor).st_mtime_ns
        return 0

    def _start(self) -> bool:
        """Start the waiting thread; return False if no thread can be started."""
        thread = threading.Thread(target=self._wait, name="widetable-turn", daemon=True)
        self._is_waiting = True  # set before: an interrupt may arrive once the thread has started
        try:
            thread.start()
        except RuntimeError:
            self._is_waiting = False
            return False
        return True

    def give_up(self) -> None:
        """Stop waiting. The descriptor is closed here, or by the thread that still waits with it."""
        with self._state:
            self._is_given_up = True
            if self._is_waiting and not self._answered.is_set():
                return
        self.give_back()

    def give_back(self) -> None:
        # Unlocked explicitly: a child that was forked meanwhile may have the same lock open.
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
        """Run in the thread until the lock is granted, however long that takes. It is a daemon, so no process waits for
        it.
        """
        is_ours = self._locked(fcntl.LOCK_EX)
        with self._state:
            if is_ours:
                _STUCK.pop(self._path, None)
            self._is_ours = is_ours and not self._is_given_up
            self._answered.set()
            if not self._is_given_up:
                return
        self.give_back()
