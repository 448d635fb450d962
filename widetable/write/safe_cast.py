"""Casts a user's column to the table's Arrow type without loss.

In: one Arrow array and the column's declaration; out: an array of `types.arrow_type`. Other types that are accepted:

    integers          from integers of any width, with or without sign, when every value fits
    FLOAT, DOUBLE     from narrower floats, half floats among them
    DECIMAL           from integers and decimals of another precision or scale, when no digit is lost
    CHAR, VARCHAR     from strings of any layout; at most n characters
    BINARY, VARBINARY from binaries of any layout; at most n bytes
    DATE              from date64 of whole days
    TIME              from other units, when it is whole milliseconds
    TIMESTAMP         from other units without time zone, when nothing is lost; _LTZ: the same, with any time zone
    ARRAY             from lists of any layout (large, of fixed size, views) of what is taken
    MAP, ROW          from what has parts that are taken; the fields of a ROW by name, in the declared order
    any               from dictionaries and runs of these, and from columns of nulls alone

Values of Python, numpy and pandas (`python_cast`) have fewer types than columns. Therefore they are also accepted:

    FLOAT             from 64-bit floats, rounded; a number too large for it is refused
    FLOAT, DOUBLE     from integers that the column holds as they are
    integers          from floats that are whole
    DATE              from timestamps at midnight
    all but floats    NaN is null
    ROW               from dicts with fields in any order; one that is missing is null

Texts must be UTF-8, times must be within a day, decimals within their precision: `check_values` checks that, once for a
whole array, because no later step does. In a key all NaNs become one bit pattern, as buckets are hashes of bits
(`key_cast`).

Raises InvalidError naming the column, the type or value that was found, and the type of the table. Nothing is padded,
cut or, with the one exception above, rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.format.parsed_text import first_refused
from widetable.kernels.gather import PLAIN
from widetable.kernels.hidden_nulls import without_hidden_nulls
from widetable.schema.types import MAX_LENGTH, DataField, DataType, arrow_type
from widetable.schema.types_from_arrow import is_list

_Test = Callable[[pa.DataType], bool]
# Holds the integers of all Arrow types.
_ANY_INTEGER: Final = pa.decimal128(20, 0)


def check_values(array: pa.Array, name: str, first_row: int = 0) -> None:
    """Refuse an array with a value that its Arrow type does not allow. first_row: the number of its first row.

    It is called once for each batch of the user, before slices of it are cast: later kernels would
    not notice invalid UTF-8, unordered offsets or a decimal with too many digits.
    """
    try:
        array.validate(full=True)
    except pa.ArrowException as cause:
        # `take` copies, because the validation of a slice of nested values includes the values outside of the slice.
        row = first_refused(
            array,
            lambda part: part.take(pa.array(range(len(part)), pa.int64())).validate(full=True),
        )
        raise InvalidError(
            f"column {name!r}",
            found=f"an invalid {array.type} in row {first_row + row} (counted from 0): {cause}",
            expected=f"values of the type {array.type}; texts as UTF-8",
            action="Correct the rows; write bytes that are not text to a column of binary type.",
        ) from cause


def key_cast(array: pa.Array, field: DataField, target: pa.DataType) -> pa.Array:
    """Cast a column of the primary key, as `safe_cast` does; all NaNs become one bit pattern."""
    array = safe_cast(array, field, target)
    if pa.types.is_floating(target) and pc.any(pc.is_nan(array)).as_py():
        return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, target), array)
    return array


def safe_cast(array: pa.Array, field: DataField, target: pa.DataType) -> pa.Array:
    """Cast `array` to a column of the table. target: `arrow_type(field.type)`, computed once by the caller.

    Raises InvalidError for another type, a value that does not fit or is too long, and for nulls
    inside of a value if the type forbids them. The caller checks nulls of the column itself.
    """
    if array.type != target:
        array = _Cast(field, array.type, target).cast(array, field.type, target)
    if field.type.length is not None and field.type.length != MAX_LENGTH:
        _check_length(array, field)
    if field.type.is_nested:
        _check_inner_nulls(array, field.type, field)
        array = without_hidden_nulls(array)
    return array


def python_cast(array: pa.Array, field: DataField) -> pa.Array:
    """Cast values whose Arrow type Python, numpy or pandas chose; lengths and nulls are not checked here."""
    target = arrow_type(field.type)
    return _Cast(field, array.type, target, is_python=True).cast(array, field.type, target)


@dataclass(frozen=True)
class _Cast:
    """The cast of one column. Nested values are cast part by part: Arrow's own cast of a slice of list views returns
    wrong rows, and that of lists checks values below nulls. source, target: the types of the whole column, for
    messages.
    """

    field: DataField
    source: pa.DataType
    target: pa.DataType
    is_python: bool = False

    def cast(self, array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
        array = _decoded(array)
        if array.type == target:
            return array
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), target)
        if type_.root == "ROW" and pa.types.is_struct(array.type):
            return self._struct(array, type_, target)
        if type_.root == "ARRAY" and is_list(array.type):
            return self._list(array, type_, target)
        if type_.root in ("MAP", "MULTISET") and pa.types.is_map(array.type):
            return self._map(array, type_, target)
        return self._plain(array, type_, target)

    def _struct(self, array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
        arrays = {
            part.name: part_array
            for part, part_array in zip(array.type, array.flatten(), strict=True)
        }
        names = [part.name for part in type_.fields]
        if set(arrays) - set(names) if self.is_python else list(arrays) != names:
            raise self._refused()
        parts = [
            self.cast(arrays.get(part.name, pa.nulls(len(array))), part.type, part_target.type)
            for part, part_target in zip(type_.fields, target, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())

    def _list(self, array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
        assert type_.element is not None
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        values = self.cast(array.flatten(), type_.element, target.value_type)
        return pa.ListArray.from_arrays(offsets, values, target, mask=array.is_null())

    def _map(self, array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
        key, value = type_.entry
        offsets = array.offsets.to_numpy()
        keys = self.cast(_within(array, array.keys), key, target.key_type)
        values = self.cast(_within(array, array.items), value, target.item_type)
        starts = pa.array(offsets - offsets[0], pa.int32())
        return pa.MapArray.from_arrays(starts, keys, values, target, mask=array.is_null())

    def _plain(self, array: pa.Array, type_: DataType, target: pa.DataType) -> pa.Array:
        try:
            if self.is_python:
                array = _of_python(array, target)
            takes = _TAKES.get(type_.root)
            if array.type != target and (takes is None or not takes(array.type)):
                raise self._refused()
            if pa.types.is_integer(array.type) and pa.types.is_decimal(target):
                array = array.cast(_ANY_INTEGER)
            return array.cast(target)
        except pa.ArrowException as cause:
            raise InvalidError(
                f"column {self.field.name!r}",
                found=f"a value of type {self.source} that does not fit: {cause}",
                expected=f"values that {self.field.type} holds without loss",
                action="Correct the values, or widen the column's type.",
            ) from cause

    def _refused(self) -> InvalidError:
        return InvalidError(
            f"column {self.field.name!r}",
            found=f"the type {self.source}",
            expected=f"{self.field.type}, as Arrow type {self.target} or a type that converts to it without loss",
            action="Cast the column before you write it.",
        )


def _decoded(array: pa.Array) -> pa.Array:
    """Replace dictionaries and runs by their values."""
    if pa.types.is_run_end_encoded(array.type):
        # The number of the run of each row, as Arrow itself decodes runs of few types.
        runs = pa.array(np.arange(len(array.values)))
        numbered = pa.RunEndEncodedArray.from_arrays(array.run_ends, runs)
        return _values_at(array.values, pc.run_end_decode(numbered.slice(array.offset, len(array))))
    if pa.types.is_dictionary(array.type):
        return _values_at(array.dictionary, array.indices)
    return array


def _values_at(values: pa.Array, numbers: pa.Array) -> pa.Array:
    values = _decoded(values)
    plain = PLAIN.get(values.type)
    return (values if plain is None else values.cast(plain)).take(numbers)


def _of_python(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert Python values that are rounded, or have another meaning in Arrow data. Raises ArrowInvalid for a value
    that does not fit.
    """
    types, source = pa.types, array.type
    if types.is_floating(source) and types.is_floating(target):
        rounded = array.cast(target)
        if source.bit_width <= target.bit_width:
            return rounded
        lost = pc.and_(pc.is_inf(rounded), pc.is_finite(array))
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{array.filter(lost)[0]} is out of range")
        return rounded
    if types.is_floating(source):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, source), array)
        if array.null_count == len(array):
            return pa.nulls(len(array), target)
        return array.cast(target) if types.is_integer(target) else array
    if types.is_integer(source) and types.is_floating(target):
        return array.cast(target)
    if types.is_timestamp(source) and source.tz is None and types.is_date(target):
        days = array.cast(target)
        if not days.cast(source).equals(array):
            raise pa.ArrowInvalid("a timestamp that is not at midnight")
        return days
    return array


def _float_up_to(bits: int) -> _Test:
    return lambda kind: bool(pa.types.is_floating(kind) and kind.bit_width <= bits)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is a string of any layout, except dictionaries and runs."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    sized = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(sized or types.is_fixed_size_binary(kind))


_TAKES: Final[dict[str, _Test]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), pa.types.is_integer),
    "FLOAT": _float_up_to(32),
    "DOUBLE": _float_up_to(64),
    "DECIMAL": lambda kind: bool(pa.types.is_decimal(kind) or pa.types.is_integer(kind)),
    "CHAR": is_text,
    "VARCHAR": is_text,
    "BINARY": _is_bytes,
    "VARBINARY": _is_bytes,
    "DATE": pa.types.is_date,
    "TIME": pa.types.is_time,
    "TIMESTAMP": lambda kind: bool(pa.types.is_timestamp(kind) and kind.tz is None),
    "TIMESTAMP_LTZ": lambda kind: bool(pa.types.is_timestamp(kind) and kind.tz is not None),
}


def _check_length(array: pa.Array, field: DataField) -> None:
    text = field.type.root in ("CHAR", "VARCHAR")
    lengths = pc.utf8_length(array) if text else pc.binary_length(array)
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > (field.type.length or 0):
        raise InvalidError(
            f"column {field.name!r}",
            found=f"a value of {longest} {'characters' if text else 'bytes'}",
            expected=f"{field.type}",
            action="Shorten the values, or widen the column's type; nothing is cut off.",
        )


def _check_inner_nulls(array: pa.Array, type_: DataType, field: DataField) -> None:
    """Check that NOT NULL parts of nested values are not null; parts of a null value are ignored."""
    for part, part_type in _parts(array, type_):
        if not part_type.nullable and part.null_count:
            raise InvalidError(
                f"column {field.name!r}",
                found="a null inside of a nested value",
                expected=f"{field.type}",
                action="Fill the nulls before you write the column.",
            )
        if part_type.is_nested:
            _check_inner_nulls(part, part_type, field)


def _parts(array: Any, type_: DataType) -> list[tuple[pa.Array, DataType]]:
    present = array.drop_null() if array.null_count else array
    if type_.root == "ROW":
        return [(present.field(i), f.type) for i, f in enumerate(type_.fields)]
    if type_.root == "ARRAY":
        assert type_.element is not None
        return [(present.flatten(), type_.element)]
    return [(_within(present, present.items), type_.entry[1])]


def _within(array: Any, values: pa.Array) -> pa.Array:
    """Return the keys or values of a map array, only those of its rows if it is a slice."""
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    return values.slice(first, last - first)
