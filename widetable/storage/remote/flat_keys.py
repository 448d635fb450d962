"""The common part of object stores, whichever client is used: their errors for missing and existing keys, the moves of
directories that they do not support, and the probe for conditional puts.

    probe       two puts of one new key, both on the condition that the key does not exist. A store that can hold a
                table refuses the second one. The probe runs once per process, before the first write

Raises UnsupportedError; the other errors are created here and raised by the callers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.messages.error_code import ErrorCode
from widetable.storage.lock_queue import turn_of_name


def no_object(path: str) -> NotFoundError:
    """Create the error for a key that does not exist."""
    return NotFoundError(
        path,
        found="no such object",
        expected="an object",
        action="Check the path; the snapshot may have expired.",
        code=ErrorCode.FILE_NOT_FOUND,
    )


def taken_key(path: str) -> InvalidError:
    """Create the error for a key that exists."""
    return InvalidError(path, found="an object", expected="no object yet", action="Use a new name.")


class FlatKeys:
    """The part of a FileIO that all object stores share: a closed object is durable, and there are no directories.
    _root: the URL of the bucket.
    """

    _root: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root!r})"

    def sync(self, path: str) -> None:
        """Do nothing: a closed object is durable."""

    def delete_empty_dir(self, path: str) -> bool:
        return False

    def moves_dirs(self) -> bool:
        return False

    def move_dir(self, source: str, target: str) -> bool:
        raise UnsupportedError(
            target,
            found="an object store, which cannot rename directories",
            expected="a storage with directories",
            action="Copy the table to a local disk, or write its rows to a new table.",
        )

    def turn(self, path: str) -> AbstractContextManager[bool]:
        return turn_of_name(path)


def check_exclusive(
    root: str,
    beside: str,
    put_new: Callable[[str, bytes], bool],
    delete: Callable[[str], object],
) -> None:
    """Check that the store honours conditional puts: some stores and clients ignore the condition and overwrite.

    beside: a path in a writable directory. put_new: puts on the condition that the key does not exist, and returns
    whether it held. Raises UnsupportedError.
    """
    path = f"{beside.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
    try:
        # A refused first put fails the probe as well: a random name cannot exist.
        is_exclusive = put_new(path, b"one") and not put_new(path, b"two")
    finally:
        delete(path)
    if not is_exclusive:
        raise UnsupportedError(
            root,
            found="a store that overwrote an object although the put was conditional (If-None-Match)",
            expected="a store that honours conditional puts: without them commits are lost",
            action="Use a store that does, such as S3 itself, or a local disk.",
        )
