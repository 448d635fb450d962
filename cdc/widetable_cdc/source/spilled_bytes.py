"""What a large transaction has beyond memory: bytes of the log, and columns that were decoded from them, in files.

    writes ─► in memory up to `IN_MEMORY_BYTES`, then a file ─► `whole`: bytes, or the mapped file
    columns ─► as they are up to `IN_MEMORY_BYTES`, then written and mapped again

A file has no name: it is gone with the last array that points into it, or with the process. Mapped pages are the
system's to drop. The directory is that of temporary files. Raises StorageError where it is full or cannot be written.
"""

from __future__ import annotations

import io
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

import pyarrow as pa

from widetable import StorageError
from widetable.connector import temporary_directory

IN_MEMORY_BYTES: Final = 32 << 20
_PURPOSE: Final = "for transactions that do not fit into memory"


class SpilledBytes:
    """Bytes, written one after another."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._most = in_memory_bytes
        self._file: IO[bytes] = io.BytesIO()
        self._size = 0
        self._is_spilled = False

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes at the end."""
        if not self._is_spilled and self._size + len(data) > self._most:
            assert isinstance(self._file, io.BytesIO)
            before = self._file.getbuffer()
            with _storage_errors():
                self._file, self._is_spilled = _new_file(), True
            self._write(before)
        self._write(data)
        self._size += len(data)

    def _write(self, data: bytes | memoryview) -> None:
        with _storage_errors():
            try:
                self._file.write(data)
            except OSError:
                self.close()
                raise

    def close(self) -> None:
        """Let go of the bytes, also where not all of them were written."""
        with suppress(OSError):
            self._file.close()

    def whole(self) -> bytes | mmap.mmap:
        """Return all bytes. Nothing is written behind it."""
        if isinstance(self._file, io.BytesIO):
            return self._file.getvalue()
        with _storage_errors(), self._file as file:
            file.flush()
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class SpilledColumns:
    """Columns of one part of the log, of which those beyond `in_memory_bytes` lie in files."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._left = in_memory_bytes

    def keep(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns with the values that they have, perhaps in a file."""
        self._left -= columns.nbytes
        if self._left >= 0 or not columns.num_rows:
            return columns
        with _storage_errors(), _new_file() as file:
            with pa.ipc.new_file(file, columns.schema) as writer:
                writer.write_batch(columns)
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).get_batch(0)


def _new_file() -> IO[bytes]:
    # Without a buffer: what is left in one would fail once more when the file is closed.
    return tempfile.TemporaryFile(
        buffering=0, dir=temporary_directory(_PURPOSE), prefix="widetable-cdc-"
    )


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise StorageError(
            "a file of a large transaction",
            found=str(cause),
            expected=f"room in the directory of temporary files {_PURPOSE}",
            action="Make room there, or set TMPDIR to another directory.",
        ) from cause
