"""Sorted runs on the local disk, while a writer holds more rows than its memory may.

    space     = a temporary directory, made with the first spill, gone with `remove` (at the latest when Python exits)
    file      = Arrow IPC, lz4: the batches of one or more runs one after the other
    SpilledRun = a file and the range of its batches

One file holds the runs of all buckets that left memory together, so their number does not grow with the buckets.
Raises StorageError when the disk refuses.

A process that is killed leaves its directory, `widetable-spill-*` in the temporary directory;
nobody else reads or removes it. Runs are read lazily: each that is being read has its file
open, and a batch in memory.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from widetable.errors import StorageError


@dataclass(frozen=True)
class SpilledRun:
    """One sorted run: batches first .. end - 1 of a spill file."""

    path: str
    first: int
    end: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The run's batches, read one by one."""
        with _mapped_errors(self.path), pa.OSFile(self.path, "rb") as source:
            reader = pa.ipc.open_file(source)
            for index in range(self.first, self.end):
                yield reader.get_batch(index)


class SpillFile:
    """A spill file while it is written: `write` one run after the other, readable after `close`."""

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
    """Temporary files of one writer. Not thread-safe."""

    def __init__(self) -> None:
        self._directory: str | None = None
        self._files = 0
        self._finalizer: weakref.finalize[..., SpillSpace] | None = None

    @property
    def directory(self) -> str | None:
        """Where the files are; None before the first spill and after `remove`."""
        return self._directory

    @contextlib.contextmanager
    def new_file(self) -> Iterator[SpillFile]:
        """A file to write runs to; closed afterwards."""
        file = SpillFile(f"{self._make_directory()}/{self._files}.arrow")
        self._files += 1
        try:
            yield file
        finally:
            file.close()

    def remove(self) -> None:
        """Delete all files. Runs must not be read any more; the space may be used again."""
        if self._finalizer is not None:
            self._finalizer()
        self._directory = self._finalizer = None

    def _make_directory(self) -> str:
        if self._directory is None:
            with _mapped_errors(tempfile.gettempdir()):
                self._directory = tempfile.mkdtemp(prefix="widetable-spill-")
            self._finalizer = weakref.finalize(self, shutil.rmtree, self._directory, True)
        return self._directory


@contextlib.contextmanager
def _mapped_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise StorageError(
            path,
            found=str(cause),
            expected="a local disk that takes the rows that do not fit into memory",
            action="Make room there, set TMPDIR to another disk, or raise write-buffer-size; nothing was committed.",
        ) from cause
