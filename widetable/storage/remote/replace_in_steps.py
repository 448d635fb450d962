"""Methods of a FileIO made of its others. `replace_if` of a storage that puts nothing on a condition on what is there:
a look, a removal, a publish.

Raises what these raise.

    one       reads held    deletes    publishes: True
    another   reads held                                 deletes the new one    publishes: True

Dying between removal and publish leaves nothing there, which for a lease is one that nobody has.
"""

from __future__ import annotations

from widetable.errors import NotFoundError
from widetable.storage.file_io import FileIO


def replace_in_steps(file_io: FileIO, path: str, held: bytes, data: bytes) -> bool:
    """Of two at the same moment both may get True."""
    if not holds(file_io, path, held):
        return False
    file_io.delete(path)  # or another has, meanwhile: of those who publish then, one can
    return file_io.publish(path, data)


def put(file_io: FileIO, path: str, data: bytes, *, replace: bool) -> bool:
    """Whether it was put: with `replace` in any case, else if nobody has the name."""
    if not replace:
        return file_io.publish(path, data)
    file_io.replace(path, data)
    return True


def holds(file_io: FileIO, path: str, data: bytes) -> bool:
    """Whether there is a file with these bytes."""
    try:
        return file_io.read(path) == data
    except NotFoundError:
        return False
