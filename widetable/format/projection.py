"""Gives rows exactly the columns of a schema: in its order, and null where the rows have none. Pure.

    rows             k  c7           the schema may have thousands of columns
    distinct arrays  k  c7  null     one array of nulls for each type of absent columns
    selected         0  2  2  2 .. 1 .. 2

Arrow selects columns of a batch by number, several times if need be. That takes a third less time than a batch that is
made from as many arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.format.row_batch import row_batch_schema
from widetable.kernels.hidden_nulls import nulls
from widetable.runtime.derived_value import once_per_object
from widetable.schema.table_schema import TableSchema

# The number of cached layouts, one per set of columns that files hold. Files of one writer hold the same columns.
_LAYOUTS: Final = 16
# The number of cached projections of a table, one per set of columns that a merge or a lookup needs.
_SCHEMAS: Final = 8


class _Selection(NamedTuple):
    """How rows with some columns become those of the schema.

    present: numbers of their columns that the schema has. absent: types of the arrays of nulls. distinct: the schema of
    both. order: for each column of the schema its number there; None if both are the same.
    """

    present: list[int]
    absent: list[pa.DataType]
    distinct: pa.Schema
    order: list[int] | None


class Projection:
    """Brings rows to one schema, batch after batch. fields: those of the schema, from a caller that has them."""

    def __init__(self, schema: pa.Schema, fields: Sequence[pa.Field] | None = None) -> None:
        self.schema = schema
        # Read once, because each access to an Arrow schema creates new objects.
        self._fields = list(schema) if fields is None else fields
        self._names = schema.names
        self._layout = lru_cache(_LAYOUTS)(self._layout_of)

    def of(self, rows: pa.RecordBatch, metadata: Mapping[str, str] | None = None) -> pa.RecordBatch:
        """Return the rows with exactly the columns of the schema; a missing one is null. metadata: in place of that of
        the schema.
        """
        if rows.schema == self.schema:
            return rows if metadata is None else rows.replace_schema_metadata(metadata)
        rows = self._columns_of(rows)
        # Arrow drops the metadata when it renames. To set it copies the whole schema, so it is set once.
        new_metadata = self.schema.metadata if metadata is None else metadata
        return rows if new_metadata is None else rows.replace_schema_metadata(new_metadata)

    def _columns_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._fields:
            return without_columns(rows.num_rows)
        layout = self._layout(tuple(rows.schema.names))
        arrays = [rows.column(number) for number in layout.present]
        arrays += [nulls(rows.num_rows, kind) for kind in layout.absent]
        distinct = pa.RecordBatch.from_arrays(arrays, schema=layout.distinct)
        if layout.order is None:
            return distinct
        return distinct.select(layout.order).rename_columns(self._names)

    def _layout_of(self, names: tuple[str, ...]) -> _Selection:
        number_of = {name: number for number, name in enumerate(names)}
        kept = [
            field
            for name, field in zip(self._names, self._fields, strict=True)
            if name in number_of
        ]
        place_of = {field.name: place for place, field in enumerate(kept)}
        # By all of a field but its name, which is set later.
        absent: dict[tuple[pa.DataType, bool, str], tuple[int, pa.Field]] = {}
        order = []
        for name, field in zip(self._names, self._fields, strict=True):
            place = place_of.get(name)
            if place is None:
                kind = field.type, field.nullable, str(field.metadata)
                place, _ = absent.setdefault(kind, (len(kept) + len(absent), field))
            order.append(place)
        fields = kept + [field for _, field in absent.values()]
        return _Selection(
            [number_of[field.name] for field in kept],
            [field.type for _, field in absent.values()],
            pa.schema(fields, metadata=self.schema.metadata),
            None if order == list(range(len(fields))) else order,
        )


def projection_of(schema: TableSchema, columns: Iterable[str]) -> Projection:
    """Return the projection to row batches with these columns of a table, given in any order."""
    return _projections(schema)(tuple(columns))


@once_per_object
def _projections(schema: TableSchema) -> Callable[[tuple[str, ...]], Projection]:
    """Return the cached projections of a table. Making one costs as much as projecting several batches."""
    return lru_cache(_SCHEMAS)(lambda columns: Projection(row_batch_schema(schema, columns)))


def with_columns(rows: pa.RecordBatch, fields: Iterable[pa.Field]) -> pa.RecordBatch:
    """Return the rows with these columns besides their own; a missing one is null."""
    for field in fields:
        if rows.schema.get_field_index(field.name) < 0:
            rows = rows.append_column(field, nulls(rows.num_rows, field.type))
    return rows


def without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of so many rows without columns. It is made from a struct array, because a batch that is made from
    no columns has no rows.
    """
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
