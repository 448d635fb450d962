"""Sorted runs on the local disk, for a writer whose rows exceed its memory budget.

    space     = a temporary directory, widetable-spill-HOST-*, created with the first spill, removed by `remove` (at the
                latest when Python exits); its process holds an flock on it until then
    file      = Arrow IPC, lz4: the batches of one or more runs one after the other
    SpilledRun = a file and the range of its batches

One file holds the runs of all buckets that were spilled together, so the number of files does not grow with the number
of buckets. Raises StorageError when the disk refuses.

A killed process leaves its directory, but its lock ends: a process that can lock a directory of the same machine and
user removes it, before it creates its own. A forked child shares the lock, so the files that it may still read stay. On
a file system without locks the directory keeps its initial name, and no process removes it.

Runs are read lazily: each run that is being read has its file open, and one batch in memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from widetable.errors import StorageError
from widetable.storage.temporary_directory import temporary_directory

# Another machine may have the same directory, and does not see the locks of this one.
_PREFIX: Final = f"widetable-spill-{os.uname().nodename}-"


@dataclass(frozen=True)
class SpilledRun:
    """One sorted run: batches first .. end - 1 of a spill file."""

    path: str
    first: int
    end: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the run, which are read one by one."""
        with _mapped_errors(self.path), pa.OSFile(self.path, "rb") as source:
            reader = pa.ipc.open_file(source)
            for index in range(self.first, self.end):
                yield reader.get_batch(index)


class SpillFile:
    """A spill file that is being written: `write` one run after the other; it is readable after `close`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: pa.RecordBatchFileWriter | None = None
        self._batches = 0

    def write(self, run: Iterable[pa.RecordBatch]) -> SpilledRun:
        """Add a run. All batches of a file have the same schema."""
        first = self._batches
        with _mapped_errors(self._path):
            for batch in run:
                if self._writer is None:
                    options = pa.ipc.IpcWriteOptions(compression="lz4")
                    self._writer = pa.ipc.new_file(self._path, batch.schema, options=options)
                self._writer.write_batch(batch)
                self._batches += 1
        return SpilledRun(self._path, first, self._batches)

    def close(self) -> None:
        if self._writer is not None:
            with _mapped_errors(self._path):
                self._writer.close()


class SpillSpace:
    """The temporary files of one writer. Not thread-safe. directory: that of the files; None before the first spill
    and after `remove`.
    """

    def __init__(self) -> None:
        self.directory: str | None = None
        self._files = 0
        self._finalizer: weakref.finalize[..., SpillSpace] | None = None

    def new_file(self) -> contextlib.closing[SpillFile]:
        """Create a file for runs, which is closed at the end of the `with` block."""
        path = f"{self._make_directory()}/{self._files}.arrow"
        self._files += 1
        return contextlib.closing(SpillFile(path))

    def remove(self) -> None:
        """Delete all files. Runs must not be read afterwards; the space may be used again."""
        if self._finalizer is not None:
            self._finalizer()
        self.directory = self._finalizer = None

    def _make_directory(self) -> str:
        if self.directory is None:
            folder = temporary_directory("for rows that do not fit into memory")
            _remove_abandoned(folder)
            with _mapped_errors(folder):
                self.directory, lock = _locked_directory(folder)
            self._finalizer = weakref.finalize(self, _remove, self.directory, lock, os.getpid())
        return self.directory


def _locked_directory(folder: str) -> tuple[str, int]:
    """Create a directory and return it with the descriptor of its lock. It gets its final name once it is locked, so
    that no other process removes it before.
    """
    made = tempfile.mkdtemp(prefix="widetable-new-spill-", dir=folder)
    lock = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return made, lock
    directory = os.path.join(folder, _PREFIX + made.rpartition("-")[2])
    os.rename(made, directory)
    return directory, lock


def _remove(directory: str, lock: int, process: int) -> None:
    """Close the lock, and remove the directory unless this process is a forked child."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(folder: str) -> None:
    """Remove directories of this machine and user whose process has ended. Failures are ignored; the next call
    retries.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(folder) if name[: name.rfind("-") + 1] == _PREFIX]
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, lock)
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise StorageError(
            path,
            found=str(cause),
            expected="a local disk with space for the rows that do not fit into memory",
            action="Free space there, set TMPDIR to another disk, or raise write-buffer-size; nothing was committed.",
        ) from cause
