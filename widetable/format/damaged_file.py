"""Errors for a file, or a part of one, that is not what a snapshot says: one place for the words and the advice.

In: the path and a finding. Out: a DamagedError; raises nothing.
"""

from __future__ import annotations

from typing import Final

from widetable.errors import DamagedError
from widetable.messages.error_code import ErrorCode
from widetable.storage.paths import TablePaths

ACTION: Final = (
    "Restore the file from a copy of the table. Without one, Table.doctor (widetable doctor --deep) names a snapshot "
    "to which Table.rollback loses nothing, if there is one; otherwise Table.repair keeps what can be read, and "
    "reports what is lost."
)
# For a changelog file, which a repair does not treat.
CHANGELOG_ACTION: Final = (
    "Restore the file. Otherwise readers of changes that have not read this snapshot yet must start again with scan "
    "mode latest-full, under a new consumer id or checkpoint. Rows of the table are not affected."
)
_CHANGELOG_NAME: Final = "/changelog-"


def damaged_file(subject: str, finding: str, expected: str) -> DamagedError:
    """Return the error for a file whose bytes are wrong. subject: the path, or a part of the file and the path."""
    action = CHANGELOG_ACTION if _CHANGELOG_NAME in subject else ACTION
    return DamagedError(
        subject, found=finding, expected=expected, action=action, code=ErrorCode.DATA_FILE_DAMAGED
    )


def damaged_bytes(subject: str, finding: str, expected: str) -> DamagedError:
    """Return the error for wrong bytes of a manifest, a snapshot or another small part of a table."""
    action = "Restore the file, or go back to an older snapshot."
    return DamagedError(subject, found=finding, expected=expected, action=action)


def missing_file(paths: TablePaths, path: str, named_by: str) -> DamagedError:
    """Return the error for a missing file that `named_by` (a snapshot, in words) names."""
    place = paths.place_of(path)
    where = "" if place is None else f" of {place}"
    return damaged_file(path, "no such file", f"a file{where} that {named_by} names")
