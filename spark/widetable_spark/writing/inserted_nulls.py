"""Nulls that an INSERT in SQL may not have meant: Spark fills the columns that it does not name, and does not say so.

An INSERT is recognized by the metadata of its columns, which are the table's own (`column_path`); a DataFrame that was
read from it with `format("widetable")` has the same metadata, and is under the same rule. A column that is null in all
of its rows may be one that Spark filled. Where such nulls would take effect, the write is refused by name before
anything is committed; the option `columns` says which columns are meant. The merge engine says which nulls take effect
(`MergeEngine.effective_nulls`).

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

from widetable import InvalidError
from widetable.connector import TableSchema, engine_of
from widetable_spark.frames.declared_options import COLUMNS


def check_inserted(schema: TableSchema, null_columns: Set[str]) -> None:
    """Raise InvalidError that names a column whose nulls take effect.

    null_columns: of the write, those that are null in all rows of all tasks.
    """
    effective = engine_of(schema).effective_nulls(schema, null_columns)
    name = next((name for name in schema.names if name in effective), None)
    if name is not None:
        raise InvalidError(
            f"column {name!r}",
            found="only nulls in an INSERT; Spark fills the columns that the INSERT does not name with nulls",
            expected=f"option {COLUMNS!r} with the columns to write, with this column or without it",
            action="INSERT INTO name WITH (path = '...', columns = 'key, ...') ..., or set the option for the write.",
        )


def check_left_out(schema: TableSchema, columns: Collection[str]) -> None:
    """Raise InvalidError, before any row is read, that names a column that the write leaves out and that would be null.

    columns: that are written. Where columns are merged apart, the engine keeps the values of those that a row does not
    have, or refuses the row.
    """
    if engine_of(schema).mixes_records:
        return
    missing = [name for name in schema.names if name not in columns]
    if missing:
        raise InvalidError(
            f"column {missing[0]!r}",
            found="an INSERT that leaves the column out, as the name in Spark does: each row would have null there",
            expected=f"all columns, or option {COLUMNS!r} with the columns to write",
            action="Register the name again, by widetable_spark.register_catalog or CREATE TABLE, or set the option.",
        )
