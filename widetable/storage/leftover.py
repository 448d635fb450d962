"""Deletes a file that nobody names and nobody will, of a write or a commit that has failed.

That error is the one to be raised, so nothing of this package is raised here: a file that cannot be deleted is named in
the log and left to `remove_orphan_files`.
"""

from __future__ import annotations

import logging

from widetable.errors import WidetableError
from widetable.messages.warning_code import WarningCode, warn
from widetable.storage.file_io import FileIO

_log = logging.getLogger("widetable")


def delete_leftover(file_io: FileIO, path: str) -> None:
    """Only when it is certain that no commit named the file: never after one whose outcome is not known.

    Certain is what was refused, or never got as far as a commit. After a publish whose answer
    got lost the snapshot may be there, and name the file.
    """
    try:
        file_io.delete(path)
    except WidetableError as refusal:
        warn(_log, WarningCode.FILE_LEFT, "left to remove_orphan_files: %s", refusal)
