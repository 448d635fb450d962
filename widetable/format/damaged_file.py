"""What is said of a file, or a part of one, that is not what a snapshot names: one place for the words, and for whose
fault it is.

In: the path and what was found. Out: a DamagedError; raises nothing.
"""

from __future__ import annotations

from typing import Final

from widetable.errors import DamagedError
from widetable.storage.paths import TablePaths

ACTION: Final = (
    "Restore the file from a copy of the table. Without one, Table.doctor (widetable doctor --deep) names the snapshot "
    "to which Table.rollback loses nothing, if there is one; else Table.repair keeps what can be read, and says what "
    "is gone."
)
# Of a changelog file, which no repair concerns.
CHANGELOG_ACTION: Final = (
    "Restore the file; else readers of changes that have yet to read this snapshot start anew with scan mode "
    "latest-full, under a new consumer id or checkpoint. Rows of the table are not concerned."
)
_CHANGELOG_NAME: Final = "/changelog-"


def damaged_file(subject: str, found: str, expected: str) -> DamagedError:
    """A file whose bytes are wrong. subject: the path, or something in it and the path."""
    action = CHANGELOG_ACTION if _CHANGELOG_NAME in subject else ACTION
    return DamagedError(subject, found=found, expected=expected, action=action)


def damaged_bytes(subject: str, found: str, expected: str) -> DamagedError:
    """Of what is smaller than a file, or says what files there are."""
    action = "Restore the file, or go back to an older snapshot."
    return DamagedError(subject, found=found, expected=expected, action=action)


def missing_file(paths: TablePaths, path: str, named_by: str) -> DamagedError:
    """A file that is not there although `named_by` (a snapshot, in words) names it."""
    place = paths.place_of(path)
    where = "" if place is None else f" of {place}"
    return damaged_file(path, "no such file", f"a file{where} that {named_by} names")
