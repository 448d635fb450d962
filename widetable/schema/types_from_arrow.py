"""The Paimon types of the Arrow types that a caller declares or gives.

    int64 ─► BIGINT        large_string ─► STRING        list<item: int32> ─► ARRAY<INT>        uint64 ─► refused

An Arrow type goes in, a `DataType` comes out. Pure. Raises UnsupportedError for types that Paimon lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from widetable.errors import UnsupportedError
from widetable.schema.types import MAX_DIGITS, MAX_LENGTH, MAX_NESTED, DataField, DataType

# The first match counts. Other properties of an Arrow type (unsigned, 64-bit offsets, views) are lost.
_FROM_ARROW: Final[tuple[tuple[Any, DataType], ...]] = (
    (pa.types.is_boolean, DataType("BOOLEAN")),
    (pa.types.is_int8, DataType("TINYINT")),
    (pa.types.is_int16, DataType("SMALLINT")),
    (pa.types.is_int32, DataType("INT")),
    (pa.types.is_int64, DataType("BIGINT")),
    (pa.types.is_uint8, DataType("SMALLINT")),
    (pa.types.is_uint16, DataType("INT")),
    (pa.types.is_uint32, DataType("BIGINT")),
    (pa.types.is_float16, DataType("FLOAT")),
    (pa.types.is_float32, DataType("FLOAT")),
    (pa.types.is_float64, DataType("DOUBLE")),
    (pa.types.is_string, DataType("VARCHAR", length=MAX_LENGTH)),
    (pa.types.is_large_string, DataType("VARCHAR", length=MAX_LENGTH)),
    (pa.types.is_string_view, DataType("VARCHAR", length=MAX_LENGTH)),
    (pa.types.is_binary, DataType("VARBINARY", length=MAX_LENGTH)),
    (pa.types.is_large_binary, DataType("VARBINARY", length=MAX_LENGTH)),
    (pa.types.is_binary_view, DataType("VARBINARY", length=MAX_LENGTH)),
    (pa.types.is_date, DataType("DATE")),
)
# Arrow's unit -> digits of the second. `timestamp_unit` maps 0 digits back to ms, so s becomes ms.
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def is_list(t: pa.DataType) -> bool:
    """Return whether a type is a list of any layout. All become ARRAY; arrays are cast when they are written."""
    return any(
        matches(t)
        for matches in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def check_depth(depth: int, subject: str) -> None:
    """Refuse a new column's type that is nested deeper than `MAX_NESTED`. Raises UnsupportedError."""
    if depth > MAX_NESTED:
        raise UnsupportedError(
            subject,
            found=f"more than {MAX_NESTED} nested types",
            expected=f"at most {MAX_NESTED}",
            action="Store such values as text or bytes.",
        )


def type_from_arrow(t: pa.DataType, *, nullable: bool = True, depth: int = 0) -> DataType:
    """Return the Paimon type of an Arrow type. Nested ROW fields get id 0: `assign_field_ids` numbers them.

    The layout of strings, binaries and lists is ignored, and so is the fixed size of a list. An Arrow type that Paimon
    lacks gets the next wider one: unsigned integers a signed one, half floats FLOAT.
    Raises UnsupportedError for Arrow types without a counterpart (uint64, intervals, unions, ...), and for types that
    no client could open: decimals of negative scale, binaries of zero bytes, structs without fields, types that are
    nested too deep. depth: the number of outer types.
    """
    check_depth(depth, "Arrow type")
    for matches, kind in _FROM_ARROW:
        if matches(t):
            return replace(kind, nullable=nullable)
    if pa.types.is_decimal(t) and 0 <= t.scale <= t.precision <= MAX_DIGITS:
        return DataType("DECIMAL", nullable, precision=t.precision, scale=t.scale)
    if pa.types.is_fixed_size_binary(t) and t.byte_width > 0:
        return DataType("BINARY", nullable, length=t.byte_width)
    if pa.types.is_time(t):
        return DataType("TIME", nullable, precision=3)
    if pa.types.is_timestamp(t):
        return DataType(
            "TIMESTAMP_LTZ" if t.tz else "TIMESTAMP", nullable, precision=_DIGITS[t.unit]
        )
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return type_from_arrow(t.value_type, nullable=nullable, depth=depth)
    return _nested_from_arrow(t, nullable=nullable, depth=depth + 1)


def have_own_names(names: Sequence[str]) -> bool:
    """Return whether fields with these names form a ROW: there is at least one, and the names are distinct."""
    return bool(names) and all(names) and len(set(names)) == len(names)


def _nested_from_arrow(t: pa.DataType, *, nullable: bool, depth: int) -> DataType:
    """Return the Paimon type of a nested Arrow type. depth: that of the inner types."""

    def within(part: pa.Field) -> DataType:
        return type_from_arrow(part.type, nullable=part.nullable, depth=depth)

    if is_list(t):
        return DataType("ARRAY", nullable, element=within(t.value_field))
    if pa.types.is_map(t):
        key = type_from_arrow(t.key_type, nullable=False, depth=depth)
        return DataType("MAP", nullable, key=key, value=within(t.item_field))
    if pa.types.is_struct(t) and have_own_names([part.name for part in t]):
        fields = tuple(DataField(0, part.name, within(part)) for part in t)
        return DataType("ROW", nullable, fields=fields)
    raise UnsupportedError(
        f"Arrow type {t}",
        found="a type without a counterpart in Paimon",
        expected="integers, floats, decimals of up to 38 digits whose scale is 0 to their precision, strings, binary, "
        "date, time, timestamp, list, map, or a struct of one field or more with distinct names",
        action="Declare int64 if all numbers are below 2^63, else decimal128(20, 0)."
        if pa.types.is_uint64(t)
        else "Declare another type, and cast the column before you write it.",
    )
