"""What stores of keys refuse, whichever client asks them: keys that are not there or taken, moves of directories, and
conditions that are passed over.

    probe       two puts of one new key, both on the condition that nobody has it: of a store that can hold a table the
                second is refused. Once per process, before the first write

Raises UnsupportedError; the other errors are made here and raised by who asks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.storage.lock_queue import turn_of_name


def no_object(path: str) -> NotFoundError:
    """Nobody has the key."""
    return NotFoundError(
        path,
        found="no such object",
        expected="an object",
        action="Check the path; the snapshot may have expired.",
    )


def taken_key(path: str) -> InvalidError:
    """Somebody has it."""
    return InvalidError(path, found="an object", expected="none yet", action="Use a new name.")


class FlatKeys:
    """The part of a FileIO that all stores of keys have alike: an object that was closed is durable, and there are no
    directories. _root: the URL of the bucket.
    """

    _root: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root!r})"

    def sync(self, path: str) -> None:
        """What was closed is durable."""

    def delete_empty_dir(self, path: str) -> bool:
        return False

    def moves_dirs(self) -> bool:
        return False

    def move_dir(self, source: str, target: str) -> bool:
        raise UnsupportedError(
            target,
            found="an object store, where no directory gets another name",
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
    """Some stores, and clients, pass the condition over, and write over what is there. beside: a path in a directory
    that may be written. put_new: on the condition; whether it held.
    """
    path = f"{beside.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
    try:
        # A first put that is refused counts as well: nobody can have had a random name.
        is_exclusive = put_new(path, b"one") and not put_new(path, b"two")
    finally:
        delete(path)
    if not is_exclusive:
        raise UnsupportedError(
            root,
            found="a store that put an object where there was one, though asked not to (If-None-Match)",
            expected="a store that honours conditional puts: without them commits get lost",
            action="Use a store that does, such as S3 itself, or a local disk.",
        )
