"""Rows of an inspection as an Arrow table of a declared schema.

In: columns of Python values, in the order of the schema. Raises DamagedError for values that do not fit: a number
that is longer than the format's, or an invalid text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.errors import DamagedError

# Epoch milliseconds.
TIME: Final = pa.timestamp("ms", "UTC")
# The wall clock of the writer.
LOCAL_TIME: Final = pa.timestamp("ms")
# Types of columns, besides those for which Arrow has names.
_TYPES: Final = {
    "time": TIME,
    "local_time": LOCAL_TIME,
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.string()),
}


def frame_schema(columns: str, /, **more: pa.DataType) -> pa.Schema:
    """Parse a schema. columns: `name type` between commas; a type with a `?` may be null. more: additional types."""
    fields, types = [], _TYPES | more
    for name, kind in (column.split() for column in columns.split(",")):
        alias = kind.removesuffix("?")
        arrow_type = types[alias] if alias in types else pa.type_for_alias(alias)
        fields.append(pa.field(name, arrow_type, nullable=alias != kind))
    return pa.schema(fields)


def frame_of_rows(schema: pa.Schema, rows: Iterable[Sequence[Any]], subject: str) -> pa.Table:
    """Make a table of rows, which may be none. rows: values in the order of the schema. subject: their table, for
    messages.
    """
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return frame_of_columns(schema, columns or [()] * len(schema), subject)


def frame_of_columns(schema: pa.Schema, columns: Iterable[Any], subject: str) -> pa.Table:
    """Make a table of columns: sequences of values, or Arrow arrays of the field's type.

    Columns are consumed one after the other, so that a generator has one column of Python values in memory at a time.
    """
    try:
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)
    except (pa.ArrowException, OverflowError, UnicodeError) as cause:
        raise DamagedError(
            subject,
            found=f"a value that the format does not have: {cause}",
            expected="numbers of 64 bits and texts",
            action="Run widetable doctor: it names the file.",
        ) from cause
