"""Codes of errors: what a program may act upon, where the wording of a message may change.

    error.code == "WT-E204"        the snapshot has expired

Each error has the general code of its kind, such as WT-E200, or the code of one situation, such as WT-E204. A code
keeps its meaning for ever. A code that no error has any more is not given to another situation. An error that has the
general code today may get a code of its own later, so compare general codes by kind (`except NotFoundError`).
docs/errors.md is made of this list (`errors_doc`). Raises nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Coded(NamedTuple):
    """One code: when errors have it, and what the caller should do, as whole sentences."""

    code: str
    cause: str
    action: str


class ErrorCode(Enum):
    """All codes. Their first digit is the kind of error, in the order of `errors`."""

    INVALID = Coded(
        "WT-E100",
        "An argument, an option or data is wrong.",
        "Correct what the message names and call again.",
    )
    OTHER_TABLE = Coded(
        "WT-E101",
        "The table was dropped and created again, or replaced by a branch, since it was opened.",
        "Open the table again, and restart what reads from it or writes to it.",
    )
    IDENTIFIER_OF_ANOTHER_COMMIT = Coded(
        "WT-E102",
        "A commit of other content has the same user and identifier.",
        "Use an identifier that the user has not used, or another user.",
    )
    WRITER_NEEDED = Coded(
        "WT-E103",
        "The table is under barriers, and the operation has no writer.",
        "Write by `Catalog.writer`, or by Spark's option `barrier.writer`.",
    )
    SUM_OVERFLOW = Coded(
        "WT-E104",
        "The merged value of a key does not fit its column.",
        "Find the records with `explain`, then change the type of the column or delete the key.",
    )
    NOT_FOUND = Coded(
        "WT-E200",
        "Something that the call names does not exist.",
        "Correct the name.",
    )
    TABLE_NOT_FOUND = Coded(
        "WT-E201",
        "There is no table at this path or of this name.",
        "Correct the path or name, or create the table.",
    )
    COLUMN_NOT_FOUND = Coded(
        "WT-E202",
        "The schema has no such column or field.",
        "Correct the name. `widetable schema PATH` lists the columns.",
    )
    SNAPSHOT_NOT_FOUND = Coded(
        "WT-E203",
        "There is no such snapshot, or none as old as the given time.",
        "Choose another snapshot. `widetable inspect PATH --what snapshots` lists them.",
    )
    SNAPSHOT_EXPIRED = Coded(
        "WT-E204",
        "The snapshot, or a file of it, has expired.",
        "Read a newer snapshot. Keep snapshots longer, or keep this one by a tag.",
    )
    TAG_NOT_FOUND = Coded(
        "WT-E205",
        "There is no such tag.",
        "Correct the name. `widetable tag PATH` lists the tags.",
    )
    BRANCH_NOT_FOUND = Coded(
        "WT-E206",
        "There is no such branch.",
        "Correct the name, or create the branch.",
    )
    FILE_NOT_FOUND = Coded(
        "WT-E208",
        "There is no such file or object.",
        "Correct the path. If a table names the file, run `widetable doctor PATH`.",
    )
    CHANGES_EXPIRED = Coded(
        "WT-E209",
        "The changes after the given point have expired.",
        "Start from a full read, or from a newer point. A consumer keeps changes that it has not read.",
    )
    BARRIER_INCOMPLETE = Coded(
        "WT-E211",
        "The table is not complete up to the barrier.",
        "Wait for the missing writers, or read an earlier barrier.",
    )
    BARRIER_EXPIRED = Coded(
        "WT-E212",
        "The barrier has expired, or lies before the first one of the table.",
        "Read a later barrier. `widetable.barriers-kept` keeps more of them.",
    )
    JOB_NOT_FOUND = Coded(
        "WT-E213",
        "There is no such job, or no table waits for it.",
        "Correct the name. `widetable meta jobs WAREHOUSE` lists the jobs.",
    )
    UNSUPPORTED = Coded(
        "WT-E300",
        "The table or the call needs something that this version does not support.",
        "Use another client, or change what the message names.",
    )
    DAMAGED = Coded(
        "WT-E400",
        "Bytes on disk are not what they must be.",
        "Restore the file, or go back to an older snapshot. `widetable doctor PATH` shows what is damaged.",
    )
    DATA_FILE_DAMAGED = Coded(
        "WT-E401",
        "A data, changelog or index file is missing or damaged.",
        "Run `widetable doctor PATH`, then `repair` or `rollback`.",
    )
    METADATA_DAMAGED = Coded(
        "WT-E402",
        "A manifest, list or snapshot is not the one that was written.",
        "Restore the file, or run `widetable doctor PATH`.",
    )
    SNAPSHOTS_LOST = Coded(
        "WT-E403",
        "The table has no snapshots, although it had some.",
        "Restore the directory `snapshot` before you write.",
    )
    CONFLICT = Coded(
        "WT-E500",
        "Another operation committed first, and this result cannot be kept.",
        "Plan again on the newest snapshot.",
    )
    FILES_CHANGED = Coded(
        "WT-E501",
        "Files that the commit replaces are no longer live.",
        "Plan again on the newest snapshot.",
    )
    RETRIES_EXHAUSTED = Coded(
        "WT-E502",
        "The commit lost too many races.",
        "Commit again with the same identifier. Let fewer processes commit at once.",
    )
    WRITER_REPLACED = Coded(
        "WT-E503",
        "Another process writes under the name of this writer.",
        "Stop one of the two processes.",
    )
    REVISION_BEGAN = Coded(
        "WT-E504",
        "A revision took the table back after the writer or job had begun.",
        "Make the writer again, or restart the job with a new checkpoint.",
    )
    COLUMNS_TAKEN = Coded(
        "WT-E505",
        "Another job writes the same columns.",
        "Write other columns, or let the other job leave.",
    )
    KEYS_CHANGED = Coded(
        "WT-E506",
        "Other commits changed keys that this commit was computed from.",
        "Read the keys again and compute the commit again.",
    )
    STORAGE = Coded(
        "WT-E600",
        "The storage refused an operation.",
        "Correct what the message names and retry with the same identifier.",
    )
    COMMIT_UNKNOWN = Coded(
        "WT-E601",
        "The storage failed while a snapshot was published, so it is unknown whether the commit succeeded.",
        "Commit again with the same user and identifier: the commit counts once.",
    )
    SERVICE_UNREACHABLE = Coded(
        "WT-E602",
        "The service did not answer.",
        "Check the address, and that the service runs.",
    )

    @property
    def code(self) -> str:
        """The code as text."""
        return self.value.code
