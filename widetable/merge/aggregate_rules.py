"""Aggregate functions: their names, and the columns and options that they take.

Source: Paimon `FieldAggregators` and its factories. Wrong options are reported before an unsupported engine is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.aggregate_function import (
    NESTED_KEY,
    NESTED_SEQUENCE,
    AggregateColumn,
    nested_fields,
    time_field,
)
from widetable.runtime.derived_value import once_per_object
from widetable.schema.field_options import DEFAULT_FUNCTION_KEY
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import MAX_LENGTH, DataType

_Test: TypeAlias = Callable[[DataType], bool]


def _is(*roots: str) -> _Test:
    return lambda kind: kind.root in roots


def _is_comparable(kind: DataType) -> bool:
    return not kind.is_nested


def _is_unbounded_string(kind: DataType) -> bool:
    return kind.root == "VARCHAR" and kind.length == MAX_LENGTH


def _is_map_of_rows(kind: DataType) -> bool:
    return kind.value is not None and kind.value.root == "ROW" and len(kind.value.fields) >= 2


def _is_array_of_rows(kind: DataType) -> bool:
    return kind.element is not None and kind.root == "ARRAY" and kind.element.root == "ROW"


_IS_NUMBER: Final = _is("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
# Paimon's functions of binary sketches and bitmaps, which this version does not support.
REFUSED: Final = ("rbm32", "rbm64", "hll_sketch", "theta_sketch")
# Function -> the type that its column must have, in words and as a test.
FUNCTIONS: Final[dict[str, tuple[str, _Test]]] = {
    "last_value": ("any type", lambda kind: True),
    "last_non_null_value": ("any type", lambda kind: True),
    "first_value": ("any type", lambda kind: True),
    "first_non_null_value": ("any type", lambda kind: True),
    "first_not_null_value": ("any type", lambda kind: True),
    **dict.fromkeys(("max", "min"), ("a type that has an order", _is_comparable)),
    **dict.fromkeys(("sum", "product"), ("a number", _IS_NUMBER)),
    **dict.fromkeys(("bool_and", "bool_or"), ("BOOLEAN", _is("BOOLEAN"))),
    "listagg": ("STRING without a length", _is_unbounded_string),
    "collect": ("ARRAY", _is("ARRAY")),
    "merge_map": ("MAP", _is("MAP")),
    "merge_map_with_keytime": ("MAP of ROWs of two fields or more", _is_map_of_rows),
    "nested_update": ("ARRAY of ROWs", _is_array_of_rows),
    "nested_partial_update": ("ARRAY of ROWs", _is_array_of_rows),
    **dict.fromkeys(REFUSED, ("VARBINARY", _is("VARBINARY"))),
}


def aggregate_column(schema: TableSchema, column: str) -> AggregateColumn | None:
    """Return a column with its own or the default function; None for keys and columns that order records."""
    return aggregate_columns(schema).get(column)


@once_per_object
def aggregate_columns(schema: TableSchema) -> dict[str, AggregateColumn]:
    """Return the columns that an option gives a function: few, while merges ask for thousands of columns often."""
    if not any(key.endswith("aggregate-function") for key in schema.options):
        return {}
    ordering = {name for group in schema.sequence_groups for name in group.sequence}
    without = {*schema.primary_keys, *schema.sequence_fields, *ordering}
    columns = {}
    for field in schema.fields:
        keys = (f"fields.{field.name}.aggregate-function", DEFAULT_FUNCTION_KEY)
        key = next((key for key in keys if key in schema.options), None)
        if key is not None and field.name not in without:
            columns[field.name] = AggregateColumn(schema, field, schema.options[key], key)
    return columns


def functions_are_known(schema: TableSchema) -> None:
    """Raise InvalidError for a function that Paimon does not have."""
    for key, function in schema.options.items():
        is_function = key == DEFAULT_FUNCTION_KEY or key.endswith(".aggregate-function")
        if is_function and function not in FUNCTIONS:
            raise InvalidError(
                f"option {key!r}",
                found=repr(function),
                expected=f"one of {', '.join(FUNCTIONS)}",
                action="Correct the function's name.",
            )


def functions_take_their_columns(schema: TableSchema) -> None:
    """Raise InvalidError for a function on a column of the wrong type, or without the options that it needs."""
    # Names were checked before (`functions_are_known`).
    for column in aggregate_columns(schema).values():
        expected, takes = FUNCTIONS[column.function]
        if not takes(column.field.type):
            raise InvalidError(
                f"option {column.option!r}",
                found=f"{column.function!r} for the column {column.name!r} of type {column.field.type}",
                expected=expected,
                action="Use another function or another column.",
            )
        _check_nested_key(column)
        _check_options(column)


def _check_nested_key(column: AggregateColumn) -> None:
    """Raise InvalidError when nested_partial_update, or an option about nested keys, comes without `nested-key`."""
    options, prefix = column.schema.options, f"fields.{column.name}"
    if f"{prefix}.nested-key" in options:
        return
    for key in (f"{prefix}.nested-sequence-field", f"{prefix}.nested-key-null-strategy"):
        if key in options or column.function == "nested_partial_update":
            raise InvalidError(
                f"option {key!r}" if key in options else f"column {column.name!r}",
                found="no nested-key",
                expected=f"the option '{prefix}.nested-key'",
                action="Add it.",
            )


def functions_are_honoured(schema: TableSchema) -> None:
    """Raise UnsupportedError for a function whose values only its own library can read."""
    for column in aggregate_columns(schema).values():
        if column.function in REFUSED:
            raise UnsupportedError(
                f"option {column.option!r}",
                found=f"{column.function!r} for the column {column.name!r}",
                expected="a function that this version supports: all but " + ", ".join(REFUSED),
                action="Use another function, or another client.",
            )


def _check_options(column: AggregateColumn) -> None:
    """Raise InvalidError for wrong option values, and for fields that the column's rows do not have."""
    column.values()
    fields, time = nested_fields(column), time_field(column)
    names = [*column.get(NESTED_KEY), *column.get(NESTED_SEQUENCE), *([time] if time else [])]
    for name in names:
        if name not in fields:
            raise InvalidError(
                f"column {column.name!r}, function {column.function!r}",
                found=f"the field {name!r} in its options",
                expected=f"one of {', '.join(fields) or 'no fields'}",
                action="Correct the name.",
            )
    if time is not None and fields[time].type.root not in ("VARCHAR", "CHAR"):
        raise InvalidError(
            f"column {column.name!r}, function {column.function!r}",
            found=f"the time field {time!r} of type {fields[time].type}",
            expected="STRING",
            action="Name another field by 'ts-field'.",
        )
