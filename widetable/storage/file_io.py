"""The storage that a table lives on: a small protocol, given to the table, so that it can be
replaced and made to fail in tests.

All paths are text with "/" between names. Parent directories are made as needed. Every method raises NotFoundError when
the path is not there (where that matters), InvalidError for text that can be no path (too long, a NUL, a lone
surrogate), and StorageError when the storage refuses (disk full, permission, lost device). Not there is only what the
storage says is not there: a look that failed says nothing.

What the methods are for, by the life of a file:

    data files       open_output, sync, then named by a manifest     names are new: nobody looks for them before
    manifests        write_new                                       likewise
    snapshots        publish                                         of several who want one name one gets True
    hints, leases    replace, replace_if                             may be stale or torn: whoever reads them checks
    copies           link                                            no bytes are read where the storage can do without

Threads may call all methods together. A storage of a user's own has each of them
(`given_storage` checks that), is picklable where tasks run in other processes, and need not be a
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

    modified_millis: when the bytes were written, epoch. named_millis: when the file last got or lost a name, was
    changed or written: a name that `link` made is no older than that, however old its bytes are.
    """

    name: str
    is_dir: bool
    size_bytes: int
    modified_millis: int
    named_millis: int


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

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Make `path` hold `data` whole, whatever it held: after a crash it holds the one or the other.

        durable: force it to the storage. Not for what is written with every commit and missed by nobody (hints,
        leases): after the machine crashed it may be torn, and whoever reads it passes that over.
        """
        ...

    def replace_if(self, path: str, held: bytes, data: bytes) -> bool:
        """Make `path` hold `data` if it holds `held`; False when it holds something else, or is not there. An object
        store does it in one step: of several who find the same, one gets True. A disk looks, removes and publishes,
        and two at the same moment may both get True: not for what must be safe.
        """
        ...

    def link(self, source: str, target: str, *, replace: bool = False) -> bool:
        """Make `target` another name of the bytes of `source`, durable when the call returns; it takes no room where
        the storage can do so. False when `target` exists, which with `replace` goes in the same instant.

        Raises NotFoundError when the source is not there.
        """
        ...

    def sync(self, path: str) -> None:
        """Force a file written by `open_output`, and its directory entry, to the storage."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file; False only where the storage says so. Where the storage has directories they
        count, too.
        """
        ...

    def size(self, path: str) -> int:
        """Of a file, in bytes."""
        ...

    def list(self, path: str) -> list[FileStatus]:
        """Entries of a directory by name, not recursive; empty when the directory is not there."""
        ...

    def delete(self, path: str) -> bool:
        """Remove a file; False when it was not there."""
        ...

    def delete_all(self, paths: Iterable[str]) -> Sequence[str]:
        """Remove files, in any order: those that were there, or all, where the storage does not say which were."""
        ...

    def delete_dir(self, path: str) -> bool:
        """Remove a directory and all below; False when it was not there. A link to one goes with what it names."""
        ...

    def delete_empty_dir(self, path: str) -> bool:
        """Remove a directory that has no entries; False when it has some, or was not there."""
        ...

    def moves_dirs(self) -> bool:
        """Whether `move_dir` is served."""
        ...

    def move_dir(self, source: str, target: str) -> bool:
        """Give a directory with all below it another name on the same storage, in one step, durable when the call
        returns. False when `target` is there, unless as a directory without entries.
        """
        ...

    def turn(self, path: str) -> AbstractContextManager[bool]:
        """Wait for the turn at an empty file, which is made when it is not there, and have it while the block runs:
        among all who ask on this machine, first come, first served. It is a courtesy on which nothing may rely: False
        where the storage has no such thing, and when somebody keeps the turn for so long that it must stand still.
        Raises nothing.
        """
        ...
