"""The file of a lease while a process has it: written anew, and removed, by this process alone.

A child that the process forks inherits the object, but not the lease: there, nothing is written and nothing removed.
Threads may share it; it may be removed by a finalizer, in the middle of whatever else is done: in
the thread that is just writing the file, too, so the lock lets the same thread in again, and the
writer looks once more when it is done. Raises StorageError.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from widetable.storage.file_io import FileIO


class LeaseFile:
    """path: where nobody else's lease is, or whose owner was looked at.
    Nothing is written before `write`.
    """

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._file_io = file_io
        self._path = path
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._is_removed = False

    @property
    def is_ours(self) -> bool:
        """Whether this process has it, and has not let it go."""
        return self._pid == os.getpid() and not self._is_removed

    def write(self, content: Callable[[], bytes]) -> bool:
        """Put new content there; False when the lease is not ours any more."""
        if self._pid != os.getpid():
            return False
        with self._lock:
            if self.is_ours:
                # Not forced to the disk: when the machine goes down, so does the process that the lease is for.
                self._file_io.replace(self._path, content(), durable=False)
                if self._is_removed:  # by a finalizer, meanwhile
                    self._file_io.delete(self._path)
            return self.is_ours

    def remove(self) -> None:
        """Let the lease go, for good. May be called again."""
        if not self.is_ours:
            return
        with self._lock:
            self._is_removed = True
            self._file_io.delete(self._path)
