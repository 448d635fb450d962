"""Which life of a branch this is: one that was dropped and made again is another one, and so is one, main too, that
dropped what it had, to go on as another branch.

On disk, in the branch's directory (ours; other clients neither write it nor look there):

    service/widetable-branch = "making " uuid      from before anything else of the branch is there; while it is dropped
                             | uuid                once all is

A branch of another client has none, nor has main in its first life. Raises NotFoundError for a branch that is not
whole, StorageError.
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
    """Whether the table has branches, or had some. Then manifests may be of any of them, and snapshots of consecutive
    ids need not follow from each other: other clients' fast-forward keeps what main had before.
    """
    return any(entry.name == BRANCHES for entry in file_io.list(paths.shared_root))


def claim(file_io: FileIO, paths: TablePaths) -> bool:
    """Begin to make a branch; False when somebody else does, or has. One that fails leaves nothing, whatever is in."""
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
    """All of the branch is there."""
    file_io.replace(paths.branch_mark, file_io.read(paths.branch_mark).removeprefix(_MAKING))


def begin_to_drop(file_io: FileIO, paths: TablePaths) -> None:
    """From now on it is no branch, whatever is left of it. A full disk, which takes no mark, lets it be dropped."""
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


def begin_anew(file_io: FileIO, paths: TablePaths) -> None:
    """Another life: whoever opened the branch before is told so."""
    file_io.replace(paths.branch_mark, uuid.uuid4().hex.encode())


def branch_life(file_io: FileIO, paths: TablePaths) -> str:
    """The same for as long as the branch lives; empty without a mark."""
    if not file_io.exists(paths.branch_mark):
        return ""
    mark = file_io.read(paths.branch_mark)
    if mark.startswith(_MAKING):
        raise NotFoundError(
            paths.root,
            found="a branch that is being made, or whose making did not end",
            expected="a whole branch",
            action="Open it again when it is made; else drop it, and make it anew.",
        )
    return mark.decode(errors="replace")
