"""Says why a read writes, where the storage refuses that: who reads a table may not expect to need write access."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.errors import StorageError


@contextlib.contextmanager
def needs_write_access(reason: str) -> Iterator[None]:
    """While the block writes. reason: what is kept in the table, and for what: "a consumer's progress, which ..".

    Raises StorageError that says so in place of the one that the block raises.
    """
    try:
        yield
    except StorageError as cause:
        raise StorageError(
            cause.subject,
            found=cause.found,
            expected=f"write access to the table, which keeps {reason}",
            action="Give this reader write access, make room or mend the storage, then retry; nothing was committed.",
        ) from cause
