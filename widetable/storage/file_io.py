"""The storage of a table: a small protocol that is passed to the table, so that it can be replaced, and made to fail
in tests.

All paths are text with "/" between names. Parent directories are created as needed. Every method raises NotFoundError
when the path does not exist (where that matters), InvalidError for text that cannot be a path (too long, a NUL, a lone
surrogate), and StorageError when the storage refuses (disk full, permission, lost device). A path counts as missing
only if the storage says so; a failed request does not show that it is missing.

The methods, by the kind of file that they serve:

    data files       open_output, sync, then named by a manifest     names are new: nobody looks for them before
    manifests        write_new                                       names are new
    snapshots        publish                                         of several callers for one name one gets True
    hints, leases    replace, replace_if                             may be stale or torn: readers check them
    copies           link                                            reads no bytes where the storage can avoid it

Threads may call all methods concurrently. A storage that a user implements must have all methods
(`given_storage` checks that), must be picklable if tasks run in other processes, and need not be a
class of this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class FileStatus:
    """One entry of a directory. name: without the directory; size_bytes: 0 for directories.

    modified_millis: when the bytes were written, epoch. named_millis: when the file was last written or changed, or
    gained or lost a name, epoch. A name that `link` made is not older than that, however old its bytes are.
    """

    name: str
    is_dir: bool
    size_bytes: int
    modified_millis: int
    named_millis: int


class FileIO(Protocol):
    """The operations that a table needs of its storage."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a seekable file for Parquet and Arrow readers (memory mapped where the storage can)."""
        ...

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; it must not exist. The bytes are durable only after `sync`."""
        ...

    def write_new(self, path: str, data: bytes) -> None:
        """Write a small new file (manifest), durable when the call returns."""
        ...

    def publish(self, path: str, data: bytes) -> bool:
        """Create `path` atomically and durably if it does not exist; return False if it exists. This is
        the commit point of a table.
        """
        ...

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace the content of `path` atomically: after a crash it has the old bytes or the new ones.

        durable: force the bytes to the storage. Files that each commit writes and that may get lost (hints, leases) are
        not durable: after a crash of the machine they may be torn, and readers ignore them then.
        """
        ...

    def replace_if(self, path: str, expected: bytes, data: bytes) -> bool:
        """Replace the content of `path` by `data` if it is `expected`; return False if it is not, or if there is no
        file. An object store does it in one step: of several callers with the same `expected` one gets True. A disk
        reads, removes and publishes: two callers at the same moment may both get True. Do not rely on it for safety.
        """
        ...

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Make `target` another name of the bytes of `source`, durable when the call returns. It takes no space where
        the storage supports that. Return False if `target` exists; with `replace`, `target` is replaced atomically.

        Raises NotFoundError when the source does not exist.
        """
        ...

    def sync(self, path: str) -> None:
        """Force a file written by `open_output`, and its directory entry, to the storage."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file exists; False only if the storage says so. A directory counts as well, where the
        storage has directories.
        """
        ...

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """List the entries of a directory, ordered by name, not recursively; empty if the directory does not exist."""
        ...

    def delete(self, path: str) -> bool:
        """Remove a file; return False if it did not exist."""
        ...

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """Remove files, in any order. Return those that existed, or all if the storage does not say which existed."""
        ...

    def delete_dir(self, path: str) -> bool:
        """Remove a directory and all below; return False if it did not exist. A link is removed with its directory."""
        ...

    def delete_empty_dir(self, path: str) -> bool:
        """Remove a directory without entries; return False if it has entries, or did not exist."""
        ...

    def moves_dirs(self) -> bool:
        """Return whether the storage supports `move_dir`."""
        ...

    def move_dir(self, source: str, target: str) -> bool:
        """Rename a directory with all below it on the same storage, in one step, durable when the call returns. Return
        False if `target` exists, unless it is a directory without entries.
        """
        ...

    def turn(self, path: str) -> AbstractContextManager[bool]:
        """Hold the fair advisory lock of an empty file while the block runs. The file is created if it does not exist.
        The threads and processes of this machine get the lock in the order in which they ask for it.

        Yield whether the lock was acquired. Nothing may rely on it: it is False where the storage has no locks, and
        where a holder keeps the lock for so long that it is probably stuck. Raises nothing.
        """
        ...
