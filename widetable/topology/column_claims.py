"""The columns that jobs write in one table, and whether two may write the same column. Pure.

The result of several writers must not depend on which of them came first. So no two may write the same column, except
key columns, unless the rows say which value is newer.

    engine                       a job writes                   order is given by
    deduplicate, first-row       all columns, whatever it       sequence.field
                                 names: its rows replace rows
    others                       the columns that it names      sequence.field, or the column's sequence group

Source: rule R3 of docs/consistency.md. Raises ConflictError naming both jobs and the column.

A table (k, a, b, g), partial-update, where g orders b:

    one: a        two: a, b      refused: a, which nothing orders; b does not matter
    one: b, g     two: b, g      accepted: the group says which value is newer
    one: a        two: null      refused: null is all columns, including a

The check compares names, not rows: two jobs that never write the same key are refused, too (0043).
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.commit.barriers.writer_registration import Job
from widetable.errors import ConflictError
from widetable.merge.engine import unchecked_engine
from widetable.messages.error_code import ErrorCode
from widetable.schema.table_schema import TableSchema


def check_columns(job: Job, others: Iterable[Job], table: str, schema: TableSchema) -> None:
    """Raise ConflictError for a job that writes a column of the table that another writes, without an order of values.

    others: may include the job itself, which is skipped.
    """
    claimed = _claims(job, table, schema)
    if schema.sequence_fields or not claimed:
        return
    ordered = {column for group in schema.sequence_groups for column in group.columns}
    for other in others:
        contested = claimed & _claims(other, table, schema) - ordered
        if other.name != job.name and contested:
            raise _contested(job, other, table, schema, contested)


def _claims(job: Job, table: str, schema: TableSchema) -> set[str]:
    """Return the columns besides the key that a job writes, without columns that the table no longer has."""
    named = {sink.table: sink.columns for sink in job.sinks}
    if table not in named:
        return set()
    columns = named[table]
    by_column = unchecked_engine(schema.typed_options).mixes_records
    chosen = columns if columns is not None and by_column else schema.names
    return {name for name in chosen if name in schema.by_name} - set(schema.primary_keys)


def _contested(
    job: Job, other: Job, table: str, schema: TableSchema, columns: set[str]
) -> ConflictError:
    listed = ", ".join(repr(name) for name in schema.names if name in columns)
    return ConflictError(
        f"job {job.name!r}",
        found=f"columns of {table} that job {other.name!r} writes, too: {listed}",
        expected="columns of its own, or a sequence group or sequence.field that orders their values",
        action=f"Write other columns, alter the table, or drop {other.name!r} if it has ended.",
        code=ErrorCode.COLUMNS_TAKEN,
    )
