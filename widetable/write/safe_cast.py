"""A user's column in the table's Arrow type, without losing anything.

In: one Arrow array and the column's declaration; out: an array of `types.arrow_type`. What is taken besides it:

    integers          from integers of any width, when every value fits
    FLOAT, DOUBLE     from narrower floats
    DECIMAL           from decimals of another precision or scale, when no digit is lost
    CHAR, VARCHAR     from strings of any layout; at most n characters
    BINARY, VARBINARY from binaries of any layout; at most n bytes
    DATE              from date64 of whole days
    TIME              from other units, when it is whole milliseconds
    TIMESTAMP         from other units without time zone, when nothing is lost; _LTZ: the same, with any time zone
    ARRAY, MAP, ROW   from what has parts that are taken; the fields of a ROW by name, in the declared order
    any               from dictionaries of these, and from columns of nulls alone

Texts are UTF-8, times lie within a day, decimals within their precision: `check_values` looks, once for a whole array,
as nothing behind it does. In a key every NaN becomes the same one, since buckets are hashes of bits (`key_cast`).

Raises InvalidError naming the column, the type or the value that was found and the type that the table has. Nothing is
padded, cut or rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError
from widetable.types import MAX_LENGTH, DataField, DataType, arrow_type

_Test = Callable[[pa.DataType], bool]


def check_values(array: pa.Array, name: str, first_row: int = 0) -> None:
    """Refuse an array with a value that its Arrow type does not allow. first_row: the number of its first row."""
    try:
        array.validate(full=True)
    except pa.ArrowException as cause:
        row = _first_wrong(array)
        raise InvalidError(
            f"column {name!r}",
            found=f"a value that no {array.type} is, in row {first_row + row} (counted from 0): {cause}",
            expected=f"values of the type {array.type}; texts as UTF-8",
            action="Correct the rows; bytes that are no text belong into a column of binary type.",
        ) from cause


def _first_wrong(array: pa.Array) -> int:
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            # Taken, as a slice of nested values is validated with all that lies beside it.
            array.take(pa.array(range(low, middle), pa.int64())).validate(full=True)
        except pa.ArrowException:
            high = middle
        else:
            low = middle
    return low


def key_cast(array: pa.Array, field: DataField, target: pa.DataType) -> pa.Array:
    """As `safe_cast`, for a column of the primary key."""
    array = safe_cast(array, field, target)
    if pa.types.is_floating(target) and pc.any(pc.is_nan(array)).as_py():
        return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, target), array)
    return array


def safe_cast(array: pa.Array, field: DataField, target: pa.DataType) -> pa.Array:
    """`array` as a column of the table. target: `arrow_type(field.type)`, computed once by the caller."""
    if array.type != target:
        array = _cast(array, field, target)
    if field.type.length is not None and field.type.length != MAX_LENGTH:
        _check_length(array, field)
    if field.type.is_nested:
        _check_inner_nulls(array, field.type, field)
    return array


def _cast(array: pa.Array, field: DataField, target: pa.DataType) -> pa.Array:
    found = array.type
    if not _takes(field.type, found):
        raise InvalidError(
            f"column {field.name!r}",
            found=f"the type {found}",
            expected=f"{field.type}, as Arrow type {target} or one that becomes it without loss",
            action="Cast the column before you write it.",
        )
    try:
        if pa.types.is_dictionary(found):
            array = array.cast(found.value_type)
        return array.cast(target)
    except pa.ArrowException as cause:
        raise InvalidError(
            f"column {field.name!r}",
            found=f"a value of type {found} that does not fit: {cause}",
            expected=f"values that {field.type} holds without loss",
            action="Correct the values, or widen the column's type.",
        ) from cause


def _takes(type_: DataType, found: pa.DataType) -> bool:
    """Whether every value of the Arrow type may be one of the column's, values that lose digits excepted."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return not type_.is_nested and _takes(type_, found.value_type)
    if type_.is_nested:
        return _takes_nested(type_, found)
    test = _TAKES.get(type_.root)
    return found == arrow_type(type_) or (test is not None and test(found))


def _takes_nested(type_: DataType, found: pa.DataType) -> bool:
    if type_.root == "ROW":
        if not pa.types.is_struct(found) or found.num_fields != len(type_.fields):
            return False
        pairs = [(f, found.field(i)) for i, f in enumerate(type_.fields)]
        return all(f.name == have.name and _takes(f.type, have.type) for f, have in pairs)
    if type_.root == "ARRAY":
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and type_.element is not None and _takes(type_.element, found.value_type)
    if not pa.types.is_map(found):
        return False
    key = type_.key if type_.root == "MAP" else type_.element
    value = type_.value if type_.root == "MAP" else DataType("INT")
    assert key is not None
    assert value is not None
    return _takes(key, found.key_type) and _takes(value, found.item_type)


def _is_integer(found: pa.DataType) -> bool:
    return bool(pa.types.is_integer(found))


def _float_up_to(bits: int) -> _Test:
    return lambda found: bool(pa.types.is_floating(found) and found.bit_width <= bits)


def _is_text(found: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
    )


def _is_bytes(found: pa.DataType) -> bool:
    types = pa.types
    sized = types.is_binary(found) or types.is_large_binary(found) or types.is_binary_view(found)
    return bool(sized or types.is_fixed_size_binary(found))


_TAKES: Final[dict[str, _Test]] = {
    "TINYINT": _is_integer,
    "SMALLINT": _is_integer,
    "INT": _is_integer,
    "BIGINT": _is_integer,
    "FLOAT": _float_up_to(32),
    "DOUBLE": _float_up_to(64),
    "DECIMAL": lambda found: bool(pa.types.is_decimal(found)),
    "CHAR": _is_text,
    "VARCHAR": _is_text,
    "BINARY": _is_bytes,
    "VARBINARY": _is_bytes,
    "DATE": lambda found: bool(pa.types.is_date(found)),
    "TIME": lambda found: bool(pa.types.is_time(found)),
    "TIMESTAMP": lambda found: bool(pa.types.is_timestamp(found) and found.tz is None),
    "TIMESTAMP_LTZ": lambda found: bool(pa.types.is_timestamp(found) and found.tz is not None),
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
    """A NOT NULL part of a nested value must not be null; parts of a null value do not count."""
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
    if type_.root == "ROW":
        present = array.drop_null() if array.null_count else array
        return [(present.field(i), f.type) for i, f in enumerate(type_.fields)]
    present = array.drop_null() if array.null_count else array
    if type_.root == "ARRAY":
        assert type_.element is not None
        return [(present.flatten(), type_.element)]
    if type_.root == "MAP" and type_.value is not None:
        return [(_map_values(present), type_.value)]
    return []


def _map_values(array: Any) -> pa.Array:
    first, last = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    values: pa.Array = array.items.slice(first, last - first)
    return values
