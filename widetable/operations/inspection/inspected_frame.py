"""Rows of an inspection as an Arrow table of a declared schema.

In: columns of Python values, in the order of the schema. Raises DamagedError for what no such table holds: a number
that is longer than the format's, a text that is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable.errors import DamagedError

# Epoch milliseconds as such.
TIME: Final = pa.timestamp("ms", "UTC")
# Wall clock of whoever wrote it.
LOCAL_TIME: Final = pa.timestamp("ms")
# Types of columns, besides those that Arrow has names for.
_TYPES: Final = {
    "time": TIME,
    "local_time": LOCAL_TIME,
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.string()),
}


def frame_schema(columns: str, /, **more: pa.DataType) -> pa.Schema:
    """columns: `name type` between commas; a type with a `?` may be null. more: types that only this schema has."""
    fields, types = [], _TYPES | more
    for name, kind in (column.split() for column in columns.split(",")):
        alias = kind.removesuffix("?")
        found = types[alias] if alias in types else pa.type_for_alias(alias)
        fields.append(pa.field(name, found, nullable=alias != kind))
    return pa.schema(fields)


def frame_of_rows(schema: pa.Schema, rows: Iterable[Sequence[Any]], subject: str) -> pa.Table:
    """rows: values in the order of the schema. subject: whose they are, for messages.
    No rows at all give a table without rows.
    """
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return frame_of_columns(schema, columns or [()] * len(schema), subject)


def frame_of_columns(schema: pa.Schema, columns: Iterable[Any], subject: str) -> pa.Table:
    """columns: sequences of values, or Arrow arrays.
    Arrays have the field's type. Columns are taken one after the other, so a generator has one of
    Python values in memory at a time.
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
