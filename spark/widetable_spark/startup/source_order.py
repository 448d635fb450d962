"""Which source of a query Spark asks first, in each round in which it asks all of them where a batch ends.

Spark asks them one after the other, always in one order, each in a process of its own; no process learns of the
others, or when a round begins. A barrier that becomes available in between must not be taken by the later ones only. So
each source counts how often it was asked, where the others of its job can read the count: a source that has been asked
more often than all others is the first of this round.

    <temporary directory>/widetable-asked-<user>/<digest of the job>/<random> = the count, 8 bytes little-endian, locked
                                                                                by its process for as long as it lives

A file that no process has locked belongs to a process that has ended, and is removed. A query that was stopped a moment
ago and whose process has not ended yet makes the new one wait. Raises StorageError where there is no such directory.

Two sources, asked as a, b in each round; the counts are those after the question:

    round   asked   counts     is_first
    1       a       a 1        True: b has no file yet, or a count of 0
            b       a 1, b 1   False: a was asked as often
    2       a       a 2, b 1   True
            b       a 2, b 2   False

The source that is first in a round has been asked once more than the others, whatever the number of the round. One that
joins later begins at 0, so it is not first as long as the others go on: no count needs to be agreed on at the start.
All this relies only on the order that Spark keeps. If a count were too high, no source would be first, which costs
time; if two sources were first, a batch might end at two barriers, which the sink refuses (`query_offsets`). Neither
loses a row.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import uuid
from collections.abc import Iterator
from typing import Final

from widetable import StorageError
from widetable.connector import temporary_directory

_COUNT: Final = struct.Struct("<Q")


class RoundCount:
    """The count of one process, which is one source of a job; sources with the same key see each other's counts.

    key: of the job, one text per warehouse and name. It is not thread-safe. Close it; a process that dies without
    closing it counts as ended, as the system releases its lock. The sources are processes of one driver, so they have
    one machine and user.
    """

    def __init__(self, key: str) -> None:
        temporary = temporary_directory("in which the sources of a job see each other")
        root = os.path.join(temporary, f"widetable-asked-{os.getuid()}")
        self._folder = os.path.join(root, hashlib.sha256(key.encode()).hexdigest()[:32])
        self._name = uuid.uuid4().hex
        self._count = 0
        with self._seen():
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            hidden = os.path.join(self._folder, f".{self._name}")
            self._descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            os.pwrite(self._descriptor, _COUNT.pack(0), 0)
            # The file gets its name once it is locked: otherwise another source could find it unlocked for a moment,
            # take it for one of a dead process, and remove it. Hidden names count as 0 and are never removed.
            os.rename(hidden, os.path.join(self._folder, self._name))

    def asked(self) -> None:
        """Count a question to this source. Call it once per question of Spark, before `is_first`, even if the answer is
        cached.
        """
        self._count += 1
        with self._seen():
            os.pwrite(self._descriptor, _COUNT.pack(self._count), 0)

    def is_first(self) -> bool:
        """Whether it is the first in this round. The only source of a job always is."""
        with self._seen():
            others = [name for name in os.listdir(self._folder) if name != self._name]
        return all(self._count_of(name) < self._count for name in others)

    def close(self) -> None:
        """Remove the count; Spark no longer asks this source."""
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
                action="Free the disk, or set TMPDIR to a writable directory that is not cleaned up.",
            ) from cause

    def _count_of(self, name: str) -> int:
        """Return the count of another source; 0 for a process that has ended, and for one that is just beginning.

        The lock distinguishes them from a living process: a caller that gets the lock has found the file of a dead one.
        It holds the lock for a moment then, in which a third source would take the file for that of a living process;
        the file has the count of the dead one, so that source is not the first in this round, and is in the next.
        """
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
