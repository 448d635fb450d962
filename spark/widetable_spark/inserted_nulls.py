"""Nulls that an INSERT in SQL may not have meant: Spark fills the columns that it does not name, and does not say so.

An INSERT is known by the metadata of its columns, which are the table's own (`column_path`); a DataFrame that was read
from it with `format("widetable")` has the same, and is held to the same rule. A column that is null in all of its rows
may be one that Spark filled. Where such nulls would take effect, the write is refused by name before anything is
committed; the option `columns` says what is meant.

    deduplicate      nulls of all columns outside the key take effect: a row replaces the row before it
    partial-update   those of a sequence group, where the group has sequence numbers; others leave the value as it is
    other engines    as deduplicate

    INSERT INTO t (k) VALUES (1)     Spark writes (k, a, b, g) = (1, null, null, null)

    t                                columns of nulls alone     refused because of
    deduplicate (k, a, b)            a                          a
    partial-update, g orders b       a, b                       b: g is there, so the null of b is a value
    partial-update, g orders b       a, b, g                    nothing: without g the group is not written
"""

from __future__ import annotations

from collections.abc import Set

from widetable import InvalidError
from widetable.connector import MERGE_ENGINE, TableSchema
from widetable_spark.source_options import COLUMNS


def check_inserted(schema: TableSchema, null_columns: Set[str]) -> None:
    """null_columns: of the write, those that are null in all rows, of all tasks. Raises
    InvalidError, which names one of them.
    """
    empty = effective_nulls(schema, null_columns)
    if empty:
        raise InvalidError(
            f"column {empty[0]!r}",
            found="nulls alone in an INSERT; Spark fills the columns that it does not name with them",
            expected=f"option {COLUMNS!r} with the columns that are meant, with it or without it",
            action="INSERT INTO name WITH (path = '...', columns = 'key, ...') ..., or set the option for the write.",
        )


def effective_nulls(schema: TableSchema, null_columns: Set[str]) -> list[str]:
    """Those of the columns whose nulls are seen after a merge."""
    names = [name for name in schema.names if name in null_columns]
    if schema.typed_options.get(MERGE_ENGINE) != "partial-update":
        return names
    ordered = [group for group in schema.sequence_groups if not null_columns >= set(group.sequence)]
    return [name for name in names if any(name in group.columns for group in ordered)]
