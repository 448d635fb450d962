"""The columns that every write must have: the key, other NOT NULL columns, and `sequence.field`, with any engine.

A record without `sequence.field` would be older than any other: its write would have no effect, so it is an error
before the first row. Raises InvalidError that says which columns to add, NotFoundError for columns that the table does
not have. Engines add rules of their own (`MergeEngine.check_columns`).
"""

from __future__ import annotations

from collections.abc import Collection

from widetable.errors import InvalidError
from widetable.schema.table_schema import TableSchema


def check_required(schema: TableSchema, columns: Collection[str]) -> None:
    """Raise unless a batch of these columns may be written to a table of any engine."""
    for name in columns:
        schema.field(name)
    for name in schema.required_names:
        if name not in columns:
            what = "key" if name in schema.primary_keys else "NOT NULL"
            raise InvalidError(
                f"column {name!r}",
                found="data without this column",
                expected=f"every {what} column in the data",
                action="Add the column.",
            )
    missing = [name for name in schema.sequence_fields if name not in columns]
    if missing:
        raise missing_columns(columns, missing, "all columns of `sequence.field`")


def missing_columns(
    columns: Collection[str], missing: Collection[str], expected: str, otherwise: str = ""
) -> InvalidError:
    """Return the error for columns that a batch lacks. expected: the required columns; otherwise: another action, in
    words.
    """
    listed = ", ".join(map(repr, missing))
    return InvalidError(
        f"columns to write ({', '.join(columns)})",
        found=f"none named {listed}",
        expected=expected,
        action=f"Add {listed} to the data{otherwise}.",
    )
