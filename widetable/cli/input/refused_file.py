"""Files and streams that the command line reads and writes, and the system refuses: the errors of Python as ours.

    error of the block                                                  what comes out
    BrokenPipeError                                                     the same: the command ends with 141
    FileNotFoundError, NotADirectoryError, IsADirectoryError            NotFoundError
    other OSError of the system (it has an errno)                       StorageError
    OSError without one: Arrow says it of bytes that it cannot read     the same

name is what a message calls the file: its path as it was given, or the stream's name in words. Standard output gets
what a command says when it has done its work, so refusing it undoes nothing.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from widetable.errors import NotFoundError, StorageError

_RETRY: Final = "Make room or mend the storage, then retry; nothing was committed."
_LOOK: Final = (
    "Make room or mend the storage. The output is not whole, but what the command does to a table may be done: look at "
    "its snapshots before you run it again."
)


def output_errors(name: str) -> contextlib.AbstractContextManager[None]:
    """The same of a stream that a command says its result on."""
    return storage_errors(name, _LOOK)


@contextlib.contextmanager
def storage_errors(name: str, action: str = _RETRY) -> Iterator[None]:
    """Turns OSError of the block into NotFoundError or StorageError with the file's name, and this action. A reader
    that went away (BrokenPipeError) passes, and what Arrow says of bytes: these are no errors of the system.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as cause:
        raise NotFoundError(
            name,
            found=cause.strerror or "no file",
            expected="a file, in a directory that is there",
            action="Check the path.",
        ) from cause
    except OSError as cause:
        if cause.errno is None:
            raise
        raise StorageError(
            name,
            found=f"{cause.strerror} (errno {cause.errno})",
            expected="a storage that takes the operation",
            action=action,
        ) from cause


class RefusingFile(io.RawIOBase):
    """A file to write to whose refusals are such errors; closing it closes nothing.

    For Arrow's writers, which take Python files and close them: standard output must stay open, and
    a new file is closed by who made it. The error passes through Arrow as it is.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def __del__(self) -> None:
        """Python would close it, and print what that raises: where it matters, it was flushed and has raised."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with storage_errors(self._name):
            return self._file.write(data)

    def flush(self) -> None:
        """Nothing of a file that was closed: closing has done it, and Python flushes what it collects."""
        if not self._file.closed:
            with storage_errors(self._name):
                self._file.flush()
