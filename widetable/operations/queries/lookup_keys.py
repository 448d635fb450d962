"""Converts the keys that a user gives to a lookup into columns of the table's types.

In: rows in any form that `write.row_source` takes, with the primary key columns in any order, or with leading ones only
(`prefix_rows`); for a key of one column also its values alone. Out: one row per key, in the order given; nulls stay.
Types are cast as in writes (write.safe_cast).

    primary key (dt, id), bucket key id     {"id": [1], "dt": ["a"]}      ─► one row (dt, id) = ("a", 1)
    primary key (a, b), bucket key a        prefixes: {"a": [9, 7]}       ─► rows (a,); b may be given as well
    primary key (id)                        [3, None], a Series, ..       ─► rows (id,), the second one null

The whole input is held in memory: keys are few compared with the rows of a table, and answers keep their order.

Raises InvalidError for keys of another form, with other columns, or with values that a column does not hold;
UnsupportedError for leading columns without the whole bucket key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.errors import InvalidError, UnsupportedError
from widetable.kernels.arrow_buffers import one_array
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField, arrow_type
from widetable.write.row_source import RowSource, row_source
from widetable.write.safe_cast import check_values, key_cast


def key_rows(keys: Any, schema: TableSchema) -> pa.RecordBatch:
    """Return the keys with the columns of the primary key, partition columns included, in its order.

    Point reads have a fast path: an Arrow array that needs neither cast nor check is used without a copy.
    """
    accept(schema, Use.LOOK_UP)
    names = schema.primary_keys
    if isinstance(keys, pa.Array) and len(names) == 1 and _is_as_stored(keys, schema, names[0]):
        return pa.RecordBatch.from_arrays([keys], [*names])
    return rows_of(keys, schema, names, lambda given: names)


def _is_as_stored(keys: pa.Array, schema: TableSchema, name: str) -> bool:
    """Whether the keys are integers that need no cast: point reads are short, and checks of values are not."""
    target = arrow_type(schema.field(name).type)
    return bool(pa.types.is_integer(target) and keys.type == target)


def prefix_rows(keys: Any, schema: TableSchema) -> pa.RecordBatch:
    """Return the partition columns and the leading columns of the key within a partition, as many as the keys have."""
    accept(schema, Use.LOOK_UP)
    least = (*schema.partition_keys, schema.trimmed_primary_key[0])
    return rows_of(keys, schema, least, lambda given: _prefix(given, schema))


def _prefix(key_columns: Sequence[str], schema: TableSchema) -> tuple[str, ...]:
    """Return the key columns that keys with these columns must have.

    They are all columns up to the last given one, so a gap is an error that names the missing column. Without the
    whole bucket key, every bucket would have to be searched.
    """
    trimmed = schema.trimmed_primary_key
    count = max(
        (number for number, name in enumerate(trimmed, 1) if name in key_columns), default=1
    )
    names = (*schema.partition_keys, *trimmed[:count])
    missing = [name for name in schema.bucket_keys if name not in names]
    if missing:
        raise UnsupportedError(
            f"column {missing[0]!r}",
            found=f"keys without it, which is part of the bucket key ({', '.join(schema.bucket_keys)})",
            expected="keys with all columns of the bucket key",
            action="Give the column too, or scan with a filter.",
        )
    return names


def rows_of(
    keys: Any,
    schema: TableSchema,
    least: Sequence[str],
    required: Callable[[Sequence[str]], Sequence[str]],
) -> pa.RecordBatch:
    """Convert keys to rows. least: the columns that keys have at least; required: maps the columns of the keys to
    those that they must have.

    Raises InvalidError; its text says "keys" where that of a write would say "data".
    """
    source = _source(keys, schema, least)
    names = required(least if source.columns is None else source.columns)
    if source.columns is not None:
        _check_names(source.columns, names)
    with _errors_of_keys():
        batches = list(source.batches)
        arrays = [_column(batches, schema.field(name)) for name in names]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def _source(keys: Any, schema: TableSchema, names: Sequence[str]) -> RowSource:
    """Return the rows of the keys. Plain values are those of the only column, if there is one.

    An unknown form raises InvalidError, because it is a wrong argument of a lookup.
    """
    try:
        with _errors_of_keys():
            return row_source(keys, schema, names[0] if len(names) == 1 else None)
    except UnsupportedError as wrong:
        single = ", or a list of values" if len(names) == 1 else ""
        expected = (
            f"rows with the columns {', '.join(names)} (Arrow, a frame, a list of dicts){single}"
        )
        raise _invalid("keys", wrong.found, expected) from wrong


@contextlib.contextmanager
def _errors_of_keys() -> Iterator[None]:
    """Make errors of reading and casting rows speak of keys, because the caller writes no data."""
    try:
        yield
    except InvalidError as wrong:
        subject = "keys" if wrong.subject == "data" else wrong.subject
        raise _invalid(subject, wrong.found, wrong.expected) from wrong


def _column(batches: Sequence[pa.RecordBatch], field: DataField) -> pa.Array:
    target = arrow_type(field.type)
    arrays = []
    for batch in batches:
        check_values(batch.column(field.name), field.name)
        arrays.append(key_cast(batch.column(field.name), field, target))
    return one_array(pa.chunked_array(arrays, target))


def _check_names(columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse missing, repeated and additional columns: an additional column is probably a mistake."""
    for name in names:
        if columns.count(name) != 1:
            text = "keys without it" if name not in columns else "the column twice"
            raise _invalid(f"column {name!r}", text, f"each of {', '.join(names)} once")
    for name in columns:
        if name not in names:
            raise _invalid(
                f"column {name!r}",
                "a column that is not in the primary key",
                f"the columns {', '.join(names)} only",
                "Leave the column out.",
            )


def _invalid(
    subject: str, actual: str, expected: str, action: str = "Correct the keys."
) -> InvalidError:
    return InvalidError(subject, found=actual, expected=expected, action=action)
