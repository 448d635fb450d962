"""Files and streams that the command line reads and writes, and the system refuses: the errors of Python as ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from widetable.errors import InvalidError, NotFoundError, StorageError


@contextlib.contextmanager
def storage_errors(name: str) -> Iterator[None]:
    """Turns OSError of the block into NotFoundError, InvalidError or StorageError with the file's name. A reader that
    went away (BrokenPipeError) passes: it is no error of ours.
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
        if cause.errno is None:  # Arrow's, of bytes
            raise InvalidError(
                name,
                found=str(cause).splitlines()[0],
                expected="a file of rows",
                action="Correct the file, or name its --format.",
            ) from cause
        raise StorageError(
            name,
            found=f"{cause.strerror} (errno {cause.errno})",
            expected="a storage that takes the operation",
            action="Make room or mend the storage, then retry; nothing was committed.",
        ) from cause
