"""The values that an update sets: constants, and expressions over the columns of a row.

    {"city": "Oslo", "paid": pc.field("paid") * 2}

A constant is any value that `Table.write` takes for the column; None is null. An expression is computed from the row as
it was before. Raises InvalidError for columns that cannot be set, and for values that do not fit their column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import mapping
from widetable.errors import InvalidError
from widetable.format.deletion_vector import RowNumbers
from widetable.format.projection import with_columns
from widetable.runtime.forked_child import UNFORKABLE
from widetable.schema.table_schema import TableSchema
from widetable.write.row_source import row_source
from widetable.write.safe_cast import safe_cast

# How Arrow says that an expression names a column that the rows lack.
_NO_COLUMN: Final = re.compile(r"No match for FieldRef\.Name\((.*?)\) in ")


@dataclass(frozen=True)
class NewValues:
    """What an update sets. constants: an array of one value for each column. expressions: by column."""

    schema: TableSchema
    constants: Mapping[str, pa.Array]
    expressions: Mapping[str, pc.Expression]

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.constants, *self.expressions)

    @staticmethod
    def of(schema: TableSchema, given: Any) -> NewValues:
        """Check the values that a caller gave, a dict by column."""
        values = mapping(given, "set")
        if not values:
            raise InvalidError(
                "set",
                found="no column",
                expected="a dict of columns and their new values",
                action="Name the columns to set.",
            )
        for name in values:
            _check_may_change(schema, name)
        expressions = {
            name: value for name, value in values.items() if isinstance(value, pc.Expression)
        }
        constants = {
            name: _constant(schema, name, value)
            for name, value in values.items()
            if name not in expressions
        }
        new = NewValues(schema, constants, expressions)
        no_row = pa.RecordBatch.from_pylist([], schema.arrow_schema(schema.names))
        for name, expression in expressions.items():
            new._computed(name, expression, no_row)
        return new

    def set_in(self, rows: pa.RecordBatch, numbers: RowNumbers) -> pa.RecordBatch:
        """Return the rows, those of these numbers with the new values."""
        if not len(numbers):
            return rows
        old = rows.take(pa.array(numbers))
        if self.expressions:
            old = with_columns(old, self.schema.arrow_schema(self.schema.names))
        new = {
            name: value.take(pa.nulls(len(numbers), pa.int64()).fill_null(0))
            for name, value in self.constants.items()
        }
        new |= {name: self._computed(name, of, old) for name, of in self.expressions.items()}
        # Row i keeps its value, or gets that of its place among the new ones, which stand behind the old ones.
        places = np.arange(rows.num_rows)
        places[numbers] = np.arange(rows.num_rows, rows.num_rows + len(numbers))
        for name, values in new.items():
            at = rows.schema.get_field_index(name)
            column = pa.concat_arrays([rows.column(at), values]).take(pa.array(places))
            rows = rows.set_column(at, rows.schema.field(at), column)
        return rows

    def _computed(self, name: str, expression: pc.Expression, rows: pa.RecordBatch) -> pa.Array:
        try:
            values = _projected(rows, expression)
        except pa.ArrowException as cause:
            unknown = _NO_COLUMN.match(str(cause))
            raise InvalidError(
                f"the new value of column {name!r}",
                found=f"the column {unknown[1]!r}" if unknown else str(cause).splitlines()[0],
                expected="columns of the table"
                if unknown
                else "an expression that can be computed for every row",
                action="Correct the expression, for instance the types of its literals.",
            ) from cause
        return _fitting(self.schema, name, values)


def _projected(rows: pa.RecordBatch, expression: pc.Expression) -> pa.Array:
    # Arrow sets up what computes in its first call; a child that is forked meanwhile would wait for it forever.
    with UNFORKABLE:
        from pyarrow import acero

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration(
                "table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([rows]))
            ),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["new"])),
        ]
    )
    computed = plan.to_table(use_threads=False).column("new").combine_chunks()
    return pa.concat_arrays(computed.chunks) if isinstance(computed, pa.ChunkedArray) else computed


def _constant(schema: TableSchema, name: str, value: Any) -> pa.Array:
    (batch,) = row_source({name: [value]}, schema).batches
    return _fitting(schema, name, batch.column(0))


def _fitting(schema: TableSchema, name: str, values: pa.Array) -> pa.Array:
    """Return values in the type of their column."""
    field = schema.field(name)
    array = safe_cast(values, field, schema.arrow_field(name).type)
    if array.null_count and not field.type.nullable:
        raise InvalidError(
            f"column {name!r}",
            found="null as its new value",
            expected="a value, as the column is NOT NULL",
            action="Give a value.",
        )
    return array


def _check_may_change(schema: TableSchema, name: str) -> None:
    """Refuse the columns that say where a row lies."""
    schema.field(name)
    if name in (*schema.partition_keys, *schema.bucket_keys):
        raise InvalidError(
            f"column {name!r}",
            found="a column that says in which partition or bucket a row lies",
            expected="other columns",
            action="Delete the rows, and write them again.",
        )
