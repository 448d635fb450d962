"""The mark of a branch, which identifies its life: a branch that was dropped and made again has another life.

So has a branch, also main, that dropped its history to continue as another branch. On disk, in the branch's directory
(other clients neither write nor read it):

    service/widetable-branch = "making " uuid      before all other files of the branch; and while it is dropped
                             | uuid                once the branch is complete

A branch of another client has no mark, nor has main in its first life. Raises NotFoundError for an incomplete branch,
StorageError.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from typing import Final

from widetable.errors import NotFoundError, StorageError
from widetable.messages.warning_code import WarningCode, warn
from widetable.storage.file_io import FileIO
from widetable.storage.paths import BRANCHES, TablePaths

_MAKING: Final = b"making "
_log = logging.getLogger("widetable")


def had_branches(file_io: FileIO, paths: TablePaths) -> bool:
    """Return whether the table has or had branches. Then a manifest may belong to any of them, and a snapshot need not
    build on the one with the id before: other clients' fast-forward keeps older snapshots of main.
    """
    return any(entry.name == BRANCHES for entry in file_io.list(paths.shared_root))


def claim(file_io: FileIO, paths: TablePaths) -> bool:
    """Begin to make a branch; return False if another process does or did. If the storage fails, remove the mark."""
    mark = _MAKING + uuid.uuid4().hex.encode()
    try:
        return file_io.publish(paths.branch_mark, mark)
    except StorageError:
        with suppress(StorageError, NotFoundError):
            if file_io.read(paths.branch_mark) == mark:
                file_io.delete(paths.branch_mark)
        for directory in (paths.service_dir, paths.root):
            with suppress(StorageError):
                file_io.delete_empty_dir(directory)
        raise


def finish(file_io: FileIO, paths: TablePaths) -> None:
    """Mark a branch as complete."""
    file_io.replace(paths.branch_mark, file_io.read(paths.branch_mark).removeprefix(_MAKING))


def begin_to_drop(file_io: FileIO, paths: TablePaths) -> None:
    """Mark a branch as incomplete before its files are deleted. A full disk, which takes no mark, does not prevent the
    drop.
    """
    try:
        file_io.replace(paths.branch_mark, _MAKING + uuid.uuid4().hex.encode())
    except StorageError as refusal:
        warn(
            _log,
            WarningCode.BRANCH_WITHOUT_MARK,
            "%s is dropped without a mark: %s",
            paths.root,
            refusal,
        )


def renew_mark(file_io: FileIO, paths: TablePaths) -> None:
    """Begin another life of a branch: a process that opened it before gets an error."""
    file_io.replace(paths.branch_mark, uuid.uuid4().hex.encode())


def branch_life(file_io: FileIO, paths: TablePaths) -> str:
    """Return the mark, which does not change while the branch lives; empty without a mark."""
    if not file_io.exists(paths.branch_mark):
        return ""
    mark = file_io.read(paths.branch_mark)
    if mark.startswith(_MAKING):
        raise NotFoundError(
            paths.root,
            found="a branch that is being made, or whose creation did not finish",
            expected="a complete branch",
            action="Open it again when it is complete; else drop it, and create it again.",
        )
    return mark.decode(errors="replace")
