"""The storage that a table lives on: a small protocol, given to the table, so that it can be
replaced and made to fail in tests.

All paths are text with "/" between names. Parent directories are made as needed. Every method
raises NotFoundError when the
path is not there (where that matters) and StorageError when the storage refuses (disk full, permission, lost device).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class FileStatus:
    """One entry of a directory. name: without the directory; size_bytes: 0 for directories; modified_millis: epoch."""

    name: str
    is_dir: bool
    size_bytes: int
    modified_millis: int


class FileIO(Protocol):
    """What a table asks of its storage."""

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """A seekable file for Parquet and Arrow readers (memory mapped where the storage can)."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file to write; it must not exist. The bytes are durable only after `sync`."""
        ...

    def write_new(self, path: str, data: bytes) -> None:
        """A small new file (manifest), durable when the call returns."""
        ...

    def publish(self, path: str, data: bytes) -> bool:
        """Make `path` appear whole, durable and only if nobody has it: False when it exists. The
        commit point of a table.
        """
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Make `path` hold `data` whole, whatever it held (hints)."""
        ...

    def sync(self, path: str) -> None:
        """Force a file written by `open_output`, and its directory entry, to the storage."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name, not recursive; empty when the directory is not there."""
        ...

    def delete(self, path: str) -> bool:
        """Remove a file; False when it was not there."""
        ...

    def delete_dir(self, path: str) -> bool:
        """Remove a directory and all below; False when it was not there."""
        ...

    def delete_empty_dir(self, path: str) -> bool:
        """Remove a directory that has no entries; False when it has some, or was not there."""
        ...
