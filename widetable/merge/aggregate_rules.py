"""Rules of aggregate functions: their names, and the columns and options that they take.

Source: Paimon `FieldAggregators` and its factories. Wrong options are reported before an unsupported engine is refused.
"""

from __future__ import annotations

from typing import Any, Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.aggregate_columns import aggregate_columns
from widetable.merge.aggregate_function import (
    NESTED_KEY,
    NESTED_SEQUENCE,
    NULL_STRATEGY,
    AggregateColumn,
    nested_fields,
    of_roots,
)
from widetable.merge.aggregate_functions import AGGREGATES, REFUSED
from widetable.schema.field_options import DEFAULT_FUNCTION_KEY
from widetable.schema.option import Option
from widetable.schema.table_schema import TableSchema

_OF_REFUSED: Final = of_roots("VARBINARY", "VARBINARY")


def functions_are_known(schema: TableSchema) -> None:
    """Raise InvalidError for a function that Paimon does not have."""
    for key, function in schema.options.items():
        is_function = key == DEFAULT_FUNCTION_KEY or key.endswith(".aggregate-function")
        names = (*AGGREGATES, *REFUSED)
        if is_function and function not in names:
            raise InvalidError(
                f"option {key!r}",
                found=repr(function),
                expected=f"one of {', '.join(names)}",
                action="Correct the function's name.",
            )


def functions_take_their_columns(schema: TableSchema) -> None:
    """Raise InvalidError for a function on a column of the wrong type, or without the options that it needs."""
    # Names were checked before (`functions_are_known`).
    for column in aggregate_columns(schema).values():
        function = AGGREGATES.get(column.function)
        column_type = _OF_REFUSED if function is None else function.column_type
        if not column_type.takes(column.field.type):
            raise InvalidError(
                f"option {column.option!r}",
                found=f"{column.function!r} for the column {column.name!r} of type {column.field.type}",
                expected=column_type.words,
                action="Use another function or another column.",
            )
        _check_required(column, () if function is None else function.required)
        _check_options(column, None if function is None else function.time_field(column))


def _check_required(column: AggregateColumn, required: tuple[Option[Any], ...]) -> None:
    """Raise InvalidError for an option that the function requires, and for options about nested keys without
    `nested-key`.
    """
    options, prefix = column.schema.options, f"fields.{column.name}"
    of_keys = (f"{prefix}.{option.key}" for option in (NESTED_SEQUENCE, NULL_STRATEGY))
    needing = next((key for key in of_keys if key in options), None)
    for option in required if needing is None else (NESTED_KEY, *required):
        if f"{prefix}.{option.key}" not in options:
            raise InvalidError(
                f"column {column.name!r}" if needing is None else f"option {needing!r}",
                found=f"no {option.key}",
                expected=f"the option '{prefix}.{option.key}'",
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


def _check_options(column: AggregateColumn, time: str | None) -> None:
    """Raise InvalidError for wrong option values, and for fields that the column's rows do not have. time: the name of
    the field that orders values.
    """
    column.values()
    fields = nested_fields(column)
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
