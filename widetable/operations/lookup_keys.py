"""The keys of a lookup as a user gives them, as columns of the table's types.

In: a pa.Table, RecordBatch, RecordBatchReader or other source of the Arrow C stream with the primary key columns, in
any order; an iterable of dicts of them; for a key of one column also an Arrow array, a series of pandas or polars, or
an iterable of values. Out: one row per key, in the order given; nulls stay. Types are taken as writes take them
(write.safe_cast).

Raises InvalidError for keys of another form, with other columns, or with values that a column does not hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from widetable.arguments import items, refused
from widetable.errors import InvalidError, UnsupportedError
from widetable.kernels.arrow_buffers import one_array
from widetable.schema import TableSchema
from widetable.types import DataField, arrow_type
from widetable.write.safe_cast import check_values, key_cast
from widetable.write.write_batch import stream_of


def key_rows(keys: Any, schema: TableSchema) -> pa.RecordBatch:
    """The keys with the columns of the primary key, partition columns included, in its order."""
    fields = [schema.field(name) for name in schema.primary_keys]
    columns = _arrow_columns(keys, schema) or _listed_columns(keys, fields)
    arrays = [_cast(columns[field.name], field) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


def _arrow_columns(keys: Any, schema: TableSchema) -> dict[str, pa.Array] | None:
    """The columns of Arrow data; None for anything else."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        _check_single(schema.primary_keys, "an Arrow array")
        return {schema.primary_keys[0]: one_array(keys)}
    if isinstance(keys, pa.RecordBatch):
        keys = pa.Table.from_batches([keys])
    elif not isinstance(keys, pa.Table):
        if not hasattr(keys, "__arrow_c_stream__"):
            return None
        keys = _streamed(keys)
        if isinstance(keys, pa.ChunkedArray):
            return _arrow_columns(keys, schema)
    _check_names(keys.column_names, schema.primary_keys)
    return {name: one_array(keys.column(name)) for name in schema.primary_keys}


def _streamed(keys: Any) -> pa.Table | pa.ChunkedArray:
    """What an Arrow C stream gives: rows, or the values of a series."""
    try:
        return stream_of(keys).read_all()
    except UnsupportedError:
        with contextlib.suppress(pa.ArrowException):
            return pa.chunked_array(keys)
        raise


def _listed_columns(keys: Any, fields: Sequence[DataField]) -> dict[str, pa.Array]:
    names = [field.name for field in fields]
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise _invalid("keys", f"a {type(keys).__name__}", _forms(names), "Give a list of keys.")
    listed: list[Any] = list(items(keys, object, "keys"))
    if not any(isinstance(key, Mapping) for key in listed):
        if listed:
            _check_single(names, f"a {type(listed[0]).__name__}")
        return {name: _array(listed, field) for name, field in zip(names, fields, strict=True)}
    for key in listed:
        if not isinstance(key, Mapping):
            raise _invalid(
                "keys",
                f"a {type(key).__name__} among dicts",
                "dicts, or none",
                "Give all keys alike.",
            )
        _check_names(list(key), names)
    return {field.name: _array([key[field.name] for key in listed], field) for field in fields}


def _check_single(names: Sequence[str], found: str) -> None:
    if len(names) > 1:
        raise _invalid(
            "keys",
            found,
            f"keys with the columns {', '.join(names)}",
            "Give an Arrow table or a list of dicts with these columns.",
        )


def _check_names(found: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if found.count(name) != 1:
            text = "keys without it" if name not in found else "the column twice"
            raise _invalid(
                f"column {name!r}", text, f"each of {', '.join(names)} once", "Correct the keys."
            )
    for name in found:
        if name not in names:
            raise _invalid(
                f"column {name!r}",
                "a column that is not in the primary key",
                f"the columns {', '.join(names)} only",
                "Leave the column out.",
            )


def _array(values: list[Any], field: DataField) -> pa.Array:
    """Python values as an array of the type that they have; of the column's where Python has only one such type."""
    target = arrow_type(field.type)
    for value in values:
        # No key is nested, and Arrow follows nested values until the stack is full.
        if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
            raise refused(value, f"column {field.name!r}", f"values of {field.type}")
    try:
        found = pa.array(values)
        is_float = pa.types.is_float64(found.type) and pa.types.is_floating(target)
        is_number = pa.types.is_integer(found.type) and pa.types.is_decimal(target)
        return pa.array(values, target) if is_float or is_number else found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise _invalid(
            f"column {field.name!r}",
            f"values that make no column: {cause}",
            f"values of {field.type}",
            "Correct the keys.",
        ) from cause


def _cast(array: pa.Array, field: DataField) -> pa.Array:
    try:
        check_values(array, field.name)
        return key_cast(array, field, arrow_type(field.type))
    except InvalidError as wrong:
        raise _invalid(wrong.subject, wrong.found, wrong.expected, "Correct the keys.") from wrong


def _forms(names: Sequence[str]) -> str:
    single = ", or a list of values" if len(names) == 1 else ""
    return f"an Arrow table or a list of dicts with the columns {', '.join(names)}{single}"


def _invalid(subject: str, found: str, expected: str, action: str) -> InvalidError:
    return InvalidError(subject, found=found, expected=expected, action=action)
