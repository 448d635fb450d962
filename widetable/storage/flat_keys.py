"""What stores of keys refuse, whichever client asks them: keys that are not there or taken, moves of directories, and
conditions that are passed over.

    probe       two puts of one new key, both on the condition that nobody has it: of a store that can hold a table the
                second is refused. Once per process, before the first write

Raises UnsupportedError; the other errors are made here and raised by who asks.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from widetable.errors import InvalidError, NotFoundError, UnsupportedError


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


def no_move(target: str) -> UnsupportedError:
    """A directory gets no other name: it has none."""
    return UnsupportedError(
        target,
        found="an object store, where no directory gets another name",
        expected="a storage with directories",
        action="Copy the table to a local disk, or write its rows to a new table.",
    )


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
