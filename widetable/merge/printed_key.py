"""Print the key of one row, for messages: `a=1, b='x'`."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from widetable.format.printed_value import printed
from widetable.schema.table_schema import TableSchema


def printed_key(schema: TableSchema, value_of: Callable[[str], pa.Array]) -> str:
    """Return the key as text. value_of: a column's value in the row, as an array of one. Partition columns are left
    out.
    """
    columns = ((name, printed(value_of(name))) for name in schema.trimmed_primary_key)
    return ", ".join(f"{name}={values[0]!r}" for name, values in columns)


def printed_key_of(schema: TableSchema, row_batch: pa.RecordBatch, row: int) -> str:
    """Return the key of a row of a batch as text."""
    return printed_key(schema, lambda name: row_batch.column(name).slice(row, 1))
