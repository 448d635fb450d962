"""Methods of a FileIO that are built from its other methods. On a storage without conditional replacement, `replace_if`
reads, removes and publishes.

Raises what these methods raise.

    one       reads expected    deletes    publishes: True
    another   reads expected                               deletes the new one    publishes: True

If the process dies between removal and publish, no file is left, which for a lease means that it is free.
"""

from __future__ import annotations

from widetable.errors import NotFoundError
from widetable.storage.file_io import FileIO


def replace_in_steps(file_io: FileIO, path: str, expected: bytes, data: bytes) -> bool:
    """Replace the content of a file if it is `expected`. Two callers at the same moment may both get True."""
    if not holds(file_io, path, expected):
        return False
    file_io.delete(
        path
    )  # or another caller deleted it meanwhile: only one of them can publish then
    return file_io.publish(path, data)


def put(file_io: FileIO, path: str, data: bytes, *, replace: bool) -> bool:
    """Write a file and return True; without `replace` only if the file does not exist."""
    if not replace:
        return file_io.publish(path, data)
    file_io.replace(path, data)
    return True


def holds(file_io: FileIO, path: str, data: bytes) -> bool:
    """Return whether a file exists and has these bytes."""
    try:
        return file_io.read(path) == data
    except NotFoundError:
        return False
