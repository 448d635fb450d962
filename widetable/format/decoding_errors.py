"""Map errors of pyarrow and of decoders, raised while a data file is read, to errors of this package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from widetable.errors import StorageError, UnsupportedError
from widetable.format.damaged_file import damaged_file

# The text of Arrow's ORC reader for far times; a wrong bit may cause it, too.
_OUT_OF_RANGE: Final = "out of range for nanosecond resolution"


@contextlib.contextmanager
def mapped_errors(path: str) -> Iterator[None]:
    """Map pyarrow's errors to ours, except lack of memory. An OSError with a number comes from the storage, one without
    from the decoder.

        MemoryError                        unchanged: nothing is wrong with the file
        OSError with errno                 StorageError: the bytes could not be read
        "unknown error" of Arrow           StorageError: the system refused, for instance a thread
        a time that nanoseconds lack       UnsupportedError: a repair would lose sound rows
        all others of Arrow and decoders   DamagedError: the bytes were read, and are invalid

    Errors of this package pass. Only the first line of Arrow's text is kept.
    """
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException too
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError) as cause:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise StorageError(
                path,
                found=f"{cause.strerror or cause} (errno {cause.errno})",
                expected="a storage that gives the bytes",
                action="Mend the storage, then retry.",
            ) from cause
        text = str(cause).partition("\n")[0]
        if (
            type(cause) is pa.ArrowException
        ):  # Arrow's "unknown error": the system refused a thread, for instance
            raise StorageError(
                path,
                found=text,
                expected="a system that lets the file be read",
                action="Give the process the resource that it lacks, then retry.",
            ) from cause
        if _OUT_OF_RANGE in text:  # no damage: repairing would lose the rows
            raise UnsupportedError(
                path,
                found=f"a time outside of the years 1677 to 2262 within a nested column: {text}",
                expected="times that 64 bits of nanoseconds hold",
                action="Read the column with another client, or leave it out.",
            ) from cause
        kind = path.rpartition(".")[2]
        raise damaged_file(
            path, f"bytes that do not decode: {text}", f"a data file of the format {kind!r}"
        ) from cause
