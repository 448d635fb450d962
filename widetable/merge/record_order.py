"""Columns by which records are ordered: those of `sequence.field`, sequence groups and `nested-sequence-field`.

Nested types have no order here; Paimon orders lists by their elements. A table of another client
that has such a column is read as long as no two of its records have to be ordered.
"""

from __future__ import annotations

from collections.abc import Iterator

from widetable.merge.aggregate_columns import aggregate_columns
from widetable.merge.aggregate_function import NESTED_SEQUENCE, nested_fields
from widetable.merge.key_order import check_order
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataType


def check_ordered(schema: TableSchema) -> None:
    """Refuse a table that is created, altered or written and would order records by a column of nested type. Raises the
    errors of `check_order`.
    """
    for key, name, kind in _ordering(schema):
        check_order(key, name, kind)


def _ordering(schema: TableSchema) -> Iterator[tuple[str, str, DataType]]:
    """Yield (option, column or field, its type) for every ordering column."""
    for name in schema.sequence_fields:
        if name in schema.by_name:  # other rules refuse an unknown name
            yield opt.SEQUENCE_FIELD.key, name, schema.field(name).type
    for group in schema.sequence_groups:
        for name in group.sequence:
            yield group.option, name, schema.field(name).type
    for column in aggregate_columns(schema).values():
        for name in column.get(NESTED_SEQUENCE):
            key = f"fields.{column.name}.{NESTED_SEQUENCE.key}"
            yield key, name, nested_fields(column)[name].type
