"""The file of a lease while a process has it: only this process rewrites and removes it.

A forked child inherits the object, but not the lease: in the child, the object neither writes nor removes the file.
Threads may share it. A finalizer may remove it at any point, even in the thread that is writing the file. So the lock
is reentrant, and the writer checks for a removal after its write. Raises StorageError.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from widetable.storage.file_io import FileIO


class LeaseFile:
    """The file of one lease. path: the caller has checked that no other owner has a lease there.

    The file is not written before `write`.
    """

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._file_io = file_io
        self._path = path
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._is_removed = False

    @property
    def is_ours(self) -> bool:
        """Whether this process has the lease and has not released it."""
        return self._pid == os.getpid() and not self._is_removed

    def write(self, content: Callable[[], bytes]) -> bool:
        """Write new content; return False if the lease is no longer ours."""
        if self._pid != os.getpid():
            return False
        with self._lock:
            if self.is_ours:
                # Not synced to the disk: if the machine goes down, so does the process that has the lease.
                self._file_io.replace(self._path, content(), durable=False)
                if self._is_removed:  # by a finalizer, meanwhile
                    self._file_io.delete(self._path)
            return self.is_ours

    def remove(self) -> None:
        """Release the lease for good. May be called again."""
        if not self.is_ours:
            return
        with self._lock:
            self._is_removed = True
            self._file_io.delete(self._path)
