"""The uses for which a table is accepted or refused, and what a check sees. Raises nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from widetable.schema.table_schema import TableSchema


class Use(Enum):
    """A use of a table. The values are its word in docs/refusals.md, and what happens."""

    CREATE = "create", "A table is created."
    ALTER = "alter", "Columns or options are altered."
    READ = "read", "Rows or changes are read."
    LOOK_UP = "look up", "Rows are found, or explained, by their key."
    MAINTAIN = (
        "maintain",
        "Files are compacted, expired, cleaned or repaired, or a commit replaces them.",
    )
    WRITE = "write", "Rows are written, by a user or by the maintainer of derived tables."
    WRITE_IN_TASKS = "write in tasks", "Several tasks write rows of one commit, as Spark's do."
    TAKE_ROWS = "take rows", "A user writes, deletes, restores or expires rows."
    TAKE_UNNAMED_ROWS = (
        "take unnamed rows",
        "A user appends rows without a writer (`Catalog.writer`).",
    )
    REPLACE = (
        "replace",
        "Rows are overwritten, moved or taken back, as by a rollback or a rescaling.",
    )
    RESCALE = "rescale", "The number of buckets is changed."
    BRANCH = "branch", "A table is branched or copied, or continues as a branch."
    EXPIRE = "expire", "Snapshots expire."
    AUDIT = "audit", "A table is audited."


@dataclass(frozen=True)
class Case:
    """What is accepted or refused. schema: of the table, as it would be. path: of the table, for messages.

    before: the schema that an alteration changes, None for others. given: the options that a user sets with this step.
    mends: immutable options that the alteration may change, and their new values.
    """

    schema: TableSchema
    path: str
    before: TableSchema | None
    given: Mapping[str, str]
    mends: Mapping[str, str]
