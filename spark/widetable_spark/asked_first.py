"""Which source of a query Spark asks first, in each round that it asks all of them where a batch ends.

Spark asks them one after the other, always in one order, each in a process of its own; no process is told of the
others, or when a round begins. A barrier that becomes available in between must not be taken by the later ones only. So
each counts how often it was asked, where the others of its job see it: who has been asked more often than all others is
the first of this round.

    <temporary directory>/widetable-asked-<user>/<digest of the job>/<random> = the count, 8 bytes little-endian, locked
                                                                                by its process for as long as it lives

A file that nobody has locked is of a process that has ended, and is removed. A query that was stopped a moment ago and
whose process has not ended yet makes the new one wait. Raises StorageError where there is no such directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import tempfile
import uuid
from collections.abc import Iterator
from typing import Final

from widetable import StorageError

_COUNT: Final = struct.Struct("<Q")


class AskedFirst:
    """Of one process. key: of its job."""

    def __init__(self, key: str) -> None:
        root = os.path.join(tempfile.gettempdir(), f"widetable-asked-{os.getuid()}")
        self._folder = os.path.join(root, hashlib.sha256(key.encode()).hexdigest()[:32])
        self._name = uuid.uuid4().hex
        self._count = 0
        with self._seen():
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            hidden = os.path.join(self._folder, f".{self._name}")
            self._descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.pwrite(self._descriptor, _COUNT.pack(0), 0)
            # It is seen once it is locked.
            os.rename(hidden, os.path.join(self._folder, self._name))

    def asked(self) -> None:
        """This source is asked."""
        self._count += 1
        with self._seen():
            os.pwrite(self._descriptor, _COUNT.pack(self._count), 0)

    def is_first(self) -> bool:
        """Whether it is the first in this round."""
        with self._seen():
            others = [name for name in os.listdir(self._folder) if name != self._name]
        return all(self._count_of(name) < self._count for name in others)

    def close(self) -> None:
        """It is asked no more."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, self._name))
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    @contextlib.contextmanager
    def _seen(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise StorageError(
                self._folder,
                found=str(cause),
                expected="a directory in which the sources of a job see each other",
                action="Free the disk, or set TMPDIR to a place that can be written and is not tidied up.",
            ) from cause

    def _count_of(self, name: str) -> int:
        """0 for a process that has ended, and for one that is just beginning."""
        if name.startswith("."):
            return 0
        path = os.path.join(self._folder, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return int(_COUNT.unpack(os.pread(descriptor, _COUNT.size, 0))[0])
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return 0
        finally:
            os.close(descriptor)
