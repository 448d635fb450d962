"""Explains why a read needs write access, if the storage refuses it: a user who only reads may not expect that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.errors import StorageError


@contextlib.contextmanager
def needs_write_access(reason: str) -> Iterator[None]:
    """Replace a StorageError of the block by one that says why the block writes.

    reason: what is stored in the table, and for what: "a consumer's progress, which ..".
    """
    try:
        yield
    except StorageError as cause:
        raise StorageError(
            cause.subject,
            found=cause.found,
            expected=f"write access to the table, which keeps {reason}",
            action="Give this reader write access, free space or repair the storage, then retry.",
        ) from cause
