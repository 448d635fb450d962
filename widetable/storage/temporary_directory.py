"""The directory for temporary files, which a host may lack: a container with a read-only root file system.

`tempfile.gettempdir` looks for one when it is first asked and raises a bare FileNotFoundError, and
so do the functions of `tempfile` that are given no `dir`. Who needs one asks here.
"""

from __future__ import annotations

import tempfile

from widetable.errors import StorageError


def temporary_directory(purpose: str) -> str:
    """Its path. purpose: what it is for, for the message. Raises StorageError where no directory can be written."""
    try:
        return tempfile.gettempdir()
    except OSError as cause:
        raise StorageError(
            "temporary directory",
            found=str(cause),
            expected=f"a directory {purpose}",
            action="Set TMPDIR to a directory that can be written.",
        ) from cause
