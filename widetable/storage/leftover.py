"""Deletes a file of a failed write or commit, which no snapshot names now or later.

The caller raises the error of the write or commit, so this module raises no error of this package. A file that cannot
be deleted is named in the log, and left to `remove_orphan_files`.
"""

from __future__ import annotations

import logging

from widetable.errors import WidetableError
from widetable.messages.warning_code import WarningCode, warn
from widetable.storage.file_io import FileIO

_log = logging.getLogger("widetable")


def delete_leftover(file_io: FileIO, path: str) -> None:
    """Delete a file. Call this only if certainly no commit names the file: the commit was refused, or never began.

    After a publish whose answer was lost, the snapshot may exist and name the file.
    """
    try:
        file_io.delete(path)
    except WidetableError as refusal:
        warn(
            _log, WarningCode.FILE_NOT_REMOVED, "a file is left to remove_orphan_files: %s", refusal
        )
