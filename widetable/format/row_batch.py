"""Row batches: their Arrow schema (sequence number, row kind, then table columns).

Files, merges and writers exchange row batches (ARCHITECTURE.md). Columns have
the current table schema's names and Arrow types, in schema order; key columns are always present,
others may be absent (absent = null).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from widetable.kernels.hidden_nulls import nulls
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

SYSTEM_FIELDS: Final = (
    pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
    pa.field(VALUE_KIND, pa.int8(), nullable=False),
)

# Sorting a name costs as much as scanning so many.
_FEW: Final = 8


def in_schema_order(schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns in the table's order, each once. Raises NotFoundError for a name that it lacks.

    A few columns of many are sorted, without scanning all names.
    """
    wanted = set(columns)
    if len(wanted) * _FEW < len(schema.fields):
        unknown = wanted.difference(schema.place_of)
        if unknown:
            schema.field(min(unknown))
        return tuple(sorted(wanted, key=schema.place_of.__getitem__))
    chosen = tuple(filter(wanted.__contains__, schema.names))
    if len(chosen) < len(wanted):
        schema.field(min(wanted.difference(chosen)))
    return chosen


def row_batch_schema(schema: TableSchema, columns: Iterable[str]) -> pa.Schema:
    """Return the schema of a row batch with these table columns, given in any order."""
    fields = schema.arrow_schema(in_schema_order(schema, columns))
    return pa.schema([*SYSTEM_FIELDS, *fields])


def column_or_nulls(rows: pa.RecordBatch | pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """Return the column of this name; nulls of its type when the rows have none."""
    index = rows.schema.get_field_index(field.name)
    return rows.column(index) if index >= 0 else nulls(rows.num_rows, field.type)
