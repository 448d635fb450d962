"""Turns the system's errors for files and streams of the command line into errors of widetable.

    error of the block                                                  error that is raised
    BrokenPipeError                                                     the same: the command ends with 141
    FileNotFoundError, NotADirectoryError, IsADirectoryError            NotFoundError
    other OSError of the system (it has an errno)                       StorageError
    OSError without errno: Arrow raises it for unreadable bytes         the same

name is the name of the file in messages: its path as typed, or the stream's name in words. A command prints its result
after its work, so a failure of standard output undoes nothing.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from widetable.errors import NotFoundError, StorageError
from widetable.messages.error_code import ErrorCode

_RETRY: Final = "Free space or repair the storage, then retry; nothing was committed."
_CHECK: Final = (
    "Free space or repair the storage. The output is incomplete, but the command may have changed the table: look at "
    "its snapshots before you run it again."
)


def output_errors(name: str) -> contextlib.AbstractContextManager[None]:
    """Turn errors of a stream to which a command prints its result into StorageError; see `storage_errors`."""
    return storage_errors(name, _CHECK)


@contextlib.contextmanager
def storage_errors(name: str, action: str = _RETRY) -> Iterator[None]:
    """Turn OSError of the block into NotFoundError or StorageError with the file's name, and this action.

    BrokenPipeError, and Arrow's errors for unreadable bytes, pass: they are no errors of the storage.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as cause:
        raise NotFoundError(
            name,
            found=cause.strerror or "no file",
            expected="a file, in an existing directory",
            action="Check the path.",
            code=ErrorCode.FILE_NOT_FOUND,
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


class CheckedOutput(io.RawIOBase):
    """A file to write to, which raises these errors; closing it does not close the file below it.

    Arrow's writers take Python files and close them. But standard output must stay open, and a new file is closed by
    its creator. Arrow passes the error on unchanged.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def __del__(self) -> None:
        """Do nothing: Python would close the file here, and print errors that an earlier flush has raised already."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with storage_errors(self._name):
            return self._file.write(data)

    def flush(self) -> None:
        """Flush the file, unless it is closed: closing has flushed it, and Python flushes the files it collects."""
        if not self._file.closed:
            with storage_errors(self._name):
                self._file.flush()
