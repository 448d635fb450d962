"""The directory for temporary files. A host may have none, such as a container with a read-only root file system.

`tempfile.gettempdir`, and the functions of `tempfile` that are called without `dir`, then raise a bare
FileNotFoundError. Code that needs the directory calls this module instead.
"""

from __future__ import annotations

import tempfile

from widetable.errors import StorageError


def temporary_directory(purpose: str) -> str:
    """Return the path of a directory for temporary files.

    Parameters
    ----------
    purpose : str
        What it is for, for the message.

    Returns
    -------
    str
        The path.

    Raises
    ------
    StorageError
        No directory can be written to.
    """
    try:
        return tempfile.gettempdir()
    except OSError as cause:
        raise StorageError(
            "temporary directory",
            found=str(cause),
            expected=f"a directory {purpose}",
            action="Set TMPDIR to a directory that can be written.",
        ) from cause
