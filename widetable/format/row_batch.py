"""The Arrow schema of a row batch: sequence number, row kind, then table columns.

A row batch is what files, merges and writers hand to one another (ARCHITECTURE.md). Columns have
the current table schema's names and Arrow types, in schema order; key columns are always there,
others may be absent (absent = null).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from widetable.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

SYSTEM_FIELDS: Final = (
    pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
    pa.field(VALUE_KIND, pa.int8(), nullable=False),
)


def in_schema_order(schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns in the table's order, each once. Raises NotFoundError for a name that it lacks."""
    chosen = {schema.field(name).name for name in columns}
    return tuple(name for name in schema.names if name in chosen)


def row_batch_schema(schema: TableSchema, columns: Iterable[str]) -> pa.Schema:
    """The schema of a row batch with these table columns, whatever their order."""
    fields = schema.arrow_schema(in_schema_order(schema, columns))
    return pa.schema([*SYSTEM_FIELDS, *fields])
