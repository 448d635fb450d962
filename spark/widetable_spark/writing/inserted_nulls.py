"""Nulls that an INSERT in SQL may not have meant: Spark fills the columns that it does not name, and does not say so.

An INSERT is recognized by the metadata of its columns, which are the table's own (`column_path`); a DataFrame that was
read from it with `format("widetable")` has the same metadata, and is under the same rule. A column that is null in all
of its rows may be one that Spark filled. Where such nulls would take effect, the write is refused by name before
anything is committed; the option `columns` says which columns are meant.

    deduplicate      nulls of all columns outside the key take effect: a row replaces the row before it
    partial-update   those of a sequence group, where the group has sequence numbers; others leave the value as it is
    aggregation      those of the functions last_value and first_value, here and in sequence groups; others skip
                     nulls, for example sums; and those of sequence.field, whose nulls make the row the oldest one
    first-row        as deduplicate

    INSERT INTO t (k) VALUES (1)     Spark writes (k, a, b, g) = (1, null, null, null)

A name in Spark may have fewer columns than its table: others were added since, or ALTER TABLE dropped some of the
name's. Where a row replaces the one before it, columns that an INSERT leaves out are null likewise, and refused
(`check_left_out`). The other engines decide themselves which columns go together.

    t                                columns of nulls alone     refused because of
    deduplicate (k, a, b)            a                          a
    partial-update, g orders b       a, b                       b: g has a value, so the null of b is a value
    partial-update, g orders b       a, b, g                    nothing: without g the group is not written
"""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Final

from widetable import InvalidError
from widetable.connector import MERGE_ENGINE, TableSchema
from widetable_spark.frames.source_options import COLUMNS

# Functions that take null as a value.
_NULL_COUNTS: Final = ("last_value", "first_value")
# Engines that keep the values of columns that a row does not have, or refuse the row.
_BY_COLUMN: Final = ("partial-update", "aggregation")


def check_inserted(schema: TableSchema, null_columns: Set[str]) -> None:
    """Raise InvalidError that names a column whose nulls take effect.

    null_columns: of the write, those that are null in all rows of all tasks.
    """
    empty = effective_nulls(schema, null_columns)
    if empty:
        raise InvalidError(
            f"column {empty[0]!r}",
            found="only nulls in an INSERT; Spark fills the columns that the INSERT does not name with nulls",
            expected=f"option {COLUMNS!r} with the columns to write, with this column or without it",
            action="INSERT INTO name WITH (path = '...', columns = 'key, ...') ..., or set the option for the write.",
        )


def check_left_out(schema: TableSchema, columns: Collection[str]) -> None:
    """Raise InvalidError, before any row is read, that names a column that the write leaves out and that would be null.

    columns: that are written.
    """
    if schema.typed_options.get(MERGE_ENGINE) in _BY_COLUMN:
        return
    missing = [name for name in schema.names if name not in columns]
    if missing:
        raise InvalidError(
            f"column {missing[0]!r}",
            found="an INSERT that leaves the column out, as the name in Spark does: each row would have null there",
            expected=f"all columns, or option {COLUMNS!r} with the columns to write",
            action="Register the name again, by widetable_spark.register_catalog or CREATE TABLE, or set the option.",
        )


def effective_nulls(schema: TableSchema, null_columns: Set[str]) -> list[str]:
    """Return those of the columns whose nulls are visible after a merge."""
    names = [name for name in schema.names if name in null_columns]
    engine = schema.typed_options.get(MERGE_ENGINE)
    if engine == "aggregation":
        seen = {name for name in names if _function(schema, name) in _NULL_COUNTS}
        return [name for name in names if name in seen.union(schema.sequence_fields)]
    if engine == "partial-update":
        ordered = [one for one in schema.sequence_groups if not null_columns >= set(one.sequence)]
        in_group = {name for group in ordered for name in group.columns}
        return [n for n in names if n in in_group and _function(schema, n) in (None, *_NULL_COUNTS)]
    return names


def _function(schema: TableSchema, name: str) -> str | None:
    """Return the aggregate function of a column that is in no key and orders nothing."""
    of_all = schema.options.get("fields.default-aggregate-function")
    return schema.options.get(f"fields.{name}.aggregate-function", of_all)
