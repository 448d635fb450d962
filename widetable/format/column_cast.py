"""Cast the Arrow values of a data file's column to the type of the column in the current table schema.

In: the Arrow type in the file, the column's type in the file's schema, and its type now; out: a function over
arrays, or None where nothing is to be done. Two steps: the file's values are cast to the file schema's type (other
writers store wider integers, fixed-length binaries, other timestamp units), and then to the current type, by those of
Paimon's implicit casts (`CastExecutors`, `DataTypeCasts`) whose result is exact. ROW fields are matched by id.
Raises DamagedError where the file does not hold its schema's type, UnsupportedError for other changes of type. The
functions raise pyarrow's errors for values that are not of the file schema's type, UnsupportedError for values that the
current type does not hold: the file is not damaged then.

Casts of values of an old type in a column of a new type:

    INT            BIGINT, DECIMAL(12, 2), VARCHAR(11), FLOAT       cast; to FLOAT it is rounded
    INT            DECIMAL(11, 2), VARCHAR(10)                      UnsupportedError: -2147483648 does not fit
    FLOAT          DOUBLE                                           cast; DOUBLE to FLOAT is refused
    VARCHAR(5)     VARCHAR(9)                                       unchanged
    TIMESTAMP(3)   TIMESTAMP(6)                                     cast

The types alone decide whether a change is allowed, once per file and column. A value
that an allowed cast cannot represent, such as a far day in nanoseconds, is detected while reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import DamagedError, UnsupportedError
from widetable.format.damaged_file import damaged_bytes
from widetable.format.printed_value import printed
from widetable.kernels.arrow_buffers import is_bytes
from widetable.schema.types import MAX_LENGTH, DataField, DataType, arrow_type

Step: TypeAlias = Callable[[pa.Array], pa.Array]

# Decimal digits of the largest value, from the narrowest to the widest integer.
_INTEGER_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
# The days of the years 0000 to 9999, which Arrow prints in the usual form.
_FOUR_DIGITS: Final = (-719_528, 2_932_896)


def column_cast(
    file_type: pa.DataType, stored: DataType, wanted: DataType, subject: str
) -> Step | None:
    """Return the cast from the Arrow type in the file to `wanted`; None when no cast is needed.

    stored: the type in the file's schema. subject: the column and file, for messages.

    The cast is made once when a file is opened, and called for every batch. A file whose type is
    not its schema's is damaged; a file with an unsupported change of type is not.
    """
    if stored.root in _NESTED:
        if stored.root != wanted.root:
            raise _not_allowed(stored, wanted, subject)
        return _NESTED[stored.root](file_type, stored, wanted, subject)
    return _chain(_normal_form(file_type, stored, subject), _evolve(stored, wanted, subject))


def _chain(first: Step | None, second: Step | None) -> Step | None:
    if first is None or second is None:
        return first or second
    before, after = first, second
    return lambda array: after(before(array))


def cast_to(target: pa.DataType) -> Step:
    """Return a cast that refuses values which do not fit."""
    return lambda array: array.cast(target)


def _cast_rounding(target: pa.DataType) -> Step:
    return lambda array: array.cast(target, safe=False)


# What the file holds → the type of the file's schema


def _is_time(kind: pa.DataType) -> bool:
    """Whether a file may store TIME so. ORC has no times of day: they are milliseconds there."""
    return bool(pa.types.is_time(kind) or pa.types.is_int32(kind))


_HOLDS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "BOOLEAN": pa.types.is_boolean,
    **dict.fromkeys(_INTEGER_DIGITS, pa.types.is_integer),
    "FLOAT": pa.types.is_float32,
    "DOUBLE": pa.types.is_floating,
    **dict.fromkeys(("CHAR", "VARCHAR", "BINARY", "VARBINARY"), is_bytes),
    "DECIMAL": pa.types.is_decimal,
    "DATE": pa.types.is_date,
    "TIME": _is_time,
    "TIMESTAMP": pa.types.is_timestamp,
    "TIMESTAMP_LTZ": pa.types.is_timestamp,
}


def _normal_form(file_type: pa.DataType, stored: DataType, subject: str) -> Step | None:
    """Return the cast to the file schema's type. Values that this type does not hold, such as 300 in a
    file's INT column of TINYINT, raise Arrow's error, which becomes DamagedError in the reader.
    """
    target = arrow_type(stored)
    if file_type == target:
        return None
    # Arrow casts a dictionary as it casts its values.
    values = file_type.value_type if pa.types.is_dictionary(file_type) else file_type
    if not _HOLDS[stored.root](values):
        raise _another_type(file_type, stored, subject)
    return cast_to(target)


# The type of the file's schema → the current type


def _evolve(old: DataType, new: DataType, subject: str) -> Step | None:
    """Return the cast to the current type. Nullability is not checked here: the reader counts nulls, and
    nested types check their own.
    """
    if old.as_nullable() == new.as_nullable():
        return None
    find = _EVOLUTIONS.get(old.root)
    allowed, step = find(old, new) if find is not None else (False, None)
    if not allowed:
        raise _not_allowed(old, new, subject)
    return None if step is None else _reporting_misfits(step, old, new, subject)


def _reporting_misfits(step: Step, old: DataType, new: DataType, subject: str) -> Step:
    """Return the step with UnsupportedError for values that the new type does not hold, which is no damage."""

    def evolved(array: pa.Array) -> pa.Array:
        try:
            return step(array)
        except pa.ArrowException as cause:
            raise UnsupportedError(
                subject,
                found=f"a value of {old} that {new}, the column's type now, does not hold: {cause}",
                expected=f"values that {new} holds",
                action="Leave the column out, drop it, or roll back to a snapshot without such rows.",
            ) from cause

    return evolved


_Evolution: TypeAlias = tuple[bool, Step | None]
_NO: Final[_Evolution] = (False, None)


def _from_integer(old: DataType, new: DataType) -> _Evolution:
    digits = _INTEGER_DIGITS[old.root]
    if new.root in _INTEGER_DIGITS:
        return digits <= _INTEGER_DIGITS[new.root], cast_to(arrow_type(new))
    if new.root in ("FLOAT", "DOUBLE"):
        return True, _cast_rounding(arrow_type(new))
    if new.root == "DECIMAL":
        return digits <= (new.precision or 0) - (new.scale or 0), cast_to(arrow_type(new))
    # One more for the sign: a shorter VARCHAR would cut the number.
    return _to_varchar(new, digits + 1)


def _to_varchar(new: DataType, length: int) -> _Evolution:
    if new.root != "VARCHAR" or (new.length or 0) < length:
        return _NO
    return True, cast_to(pa.string())


def _from_boolean(old: DataType, new: DataType) -> _Evolution:
    return _to_varchar(new, len("false"))


def _from_float(old: DataType, new: DataType) -> _Evolution:
    return (True, cast_to(pa.float64())) if new.root == "DOUBLE" else _NO


def _from_decimal(old: DataType, new: DataType) -> _Evolution:
    if new.root != "DECIMAL":
        return _NO
    scale, new_scale = old.scale or 0, new.scale or 0
    integer_digits = (old.precision or 0) - scale
    fits = new_scale >= scale and (new.precision or 0) - new_scale >= integer_digits
    return fits, cast_to(arrow_type(new))


def _from_text(old: DataType, new: DataType) -> _Evolution:
    # A CHAR of another length would pad or cut; only growing text keeps its bytes.
    return new.root == "VARCHAR" and (new.length or 0) >= (old.length or MAX_LENGTH), None


def _from_binary(old: DataType, new: DataType) -> _Evolution:
    return new.root == "VARBINARY" and (new.length or 0) >= (old.length or MAX_LENGTH), None


def _from_date(old: DataType, new: DataType) -> _Evolution:
    if new.root == "TIMESTAMP":
        return True, cast_to(arrow_type(new))
    return _to_varchar(new, len("yyyy-MM-dd"))[0], _date_texts


def _date_texts(days: pa.Array) -> pa.Array:
    """Cast dates to texts. Arrow's text of a year with five digits is no date, so our own printer makes it."""
    extremes = pc.min_max(days.view(pa.int32())).as_py()
    first, last = _FOUR_DIGITS
    if extremes["min"] is None or first <= extremes["min"] <= extremes["max"] <= last:
        return days.cast(pa.string())
    return pa.array(printed(days), pa.string())


def _from_time(old: DataType, new: DataType) -> _Evolution:
    return new.root == "TIME" and (new.precision or 0) >= (old.precision or 0), None


def _from_timestamp(old: DataType, new: DataType) -> _Evolution:
    grows = new.root == old.root and (new.precision or 0) >= (old.precision or 0)
    return grows, cast_to(arrow_type(new))


_EVOLUTIONS: Final[dict[str, Callable[[DataType, DataType], _Evolution]]] = {
    **dict.fromkeys(_INTEGER_DIGITS, _from_integer),
    "BOOLEAN": _from_boolean,
    "FLOAT": _from_float,
    "DECIMAL": _from_decimal,
    "CHAR": _from_text,
    "VARCHAR": _from_text,
    "BINARY": _from_binary,
    "VARBINARY": _from_binary,
    "DATE": _from_date,
    "TIME": _from_time,
    "TIMESTAMP": _from_timestamp,
    "TIMESTAMP_LTZ": _from_timestamp,
}


# Nested types: rebuilt around their children


def _array_cast(
    file_type: pa.DataType, stored: DataType, wanted: DataType, subject: str
) -> Step | None:
    if not (pa.types.is_list(file_type) or pa.types.is_large_list(file_type)):
        raise _another_type(file_type, stored, subject)
    assert stored.element is not None
    assert wanted.element is not None
    element = column_cast(file_type.value_type, stored.element, wanted.element, subject)
    target = arrow_type(wanted)
    if element is None and file_type == target:
        return None
    # A column may have become NOT NULL after the file was written. Only then are nulls searched
    # for.
    forbids_null = stored.element.nullable and not wanted.element.nullable

    def rebuild(array: pa.Array) -> pa.Array:
        if pa.types.is_large_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = array.flatten()
        if forbids_null and values.null_count:
            raise null_before(subject, "elements without a value")
        return _with_values(array, target, values if element is None else element(values))

    return rebuild


def _map_cast(
    file_type: pa.DataType, stored: DataType, wanted: DataType, subject: str
) -> Step | None:
    key_type, value_type = _entry_types(file_type, stored, subject)
    (old_key, old_value), (new_key, new_value) = stored.entry, wanted.entry
    key = column_cast(key_type, old_key, new_key, subject)
    value = column_cast(value_type, old_value, new_value, subject)
    target = arrow_type(wanted)
    if key is None and value is None and file_type == target:
        return None
    forbids_null = old_value.nullable and not new_value.nullable

    def rebuild(array: pa.Array) -> pa.Array:
        if pa.types.is_map(array.type):
            entry = [array.type.key_field, array.type.item_field]
            array = array.cast(pa.list_(pa.struct(entry)))
        pairs = array.flatten()
        keys, items = pairs.field(0), pairs.field(1)
        if forbids_null and items.null_count:
            raise null_before(subject, "keys without a value")
        keys = keys if key is None else key(keys)
        items = items if value is None else value(items)
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[target.key_field, target.item_field]
        )
        return _with_values(array, target, entries)

    return rebuild


def _entry_types(
    file_type: pa.DataType, stored: DataType, subject: str
) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of key and value. Avro has maps with text keys only: others are lists of entries there."""
    if pa.types.is_map(file_type):
        return file_type.key_type, file_type.item_type
    entry = file_type.value_type if pa.types.is_list(file_type) else None
    if entry is None or not pa.types.is_struct(entry) or entry.num_fields != 2:
        raise _another_type(file_type, stored, subject)
    return entry.field(0).type, entry.field(1).type


def _row_cast(
    file_type: pa.DataType, stored: DataType, wanted: DataType, subject: str
) -> Step | None:
    if not pa.types.is_struct(file_type):
        raise _another_type(file_type, stored, subject)
    target = arrow_type(wanted)
    before = _fields_before(stored, wanted, subject)
    children: list[tuple[int, Step | None]] = []
    forbids_null = False
    for f, old in zip(wanted.fields, before, strict=True):
        index = -1 if old is None else file_type.get_field_index(old.name)
        if old is not None and index < 0:
            raise damaged_bytes(subject, f"no field {old.name!r}", f"all fields of {stored}")
        forbids_null |= not f.type.nullable and (old is None or old.type.nullable)
        cast = None
        if old is not None:
            cast = column_cast(file_type.field(index).type, old.type, f.type, subject)
        children.append((index, cast))
    in_place = all(i == index and cast is None for i, (index, cast) in enumerate(children))
    if in_place and file_type == target:
        return None

    def rebuild(array: pa.Array) -> pa.Array:
        arrays = []
        for (index, cast), field in zip(children, target, strict=True):
            child = pa.nulls(len(array), field.type) if index < 0 else array.field(index)
            if forbids_null and not field.nullable:
                _check_filled(array, child, f"field {field.name!r} in {subject}")
            arrays.append(child if cast is None else cast(child))
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=array.is_null())

    return rebuild


def _fields_before(stored: DataType, wanted: DataType, subject: str) -> Sequence[DataField | None]:
    """Return the stored field of each wanted field, by id. Duplicate ids, of a client that assigned none, are accepted
    only where no field changed.

    A new field has None: it is null in every row. Dropped fields are left out, and renamed fields
    are matched by their id.
    """
    names = [[(f.id, f.name) for f in kind.fields] for kind in (stored, wanted)]
    by_id = {f.id: f for f in stored.fields}
    if len(by_id) == len(stored.fields):
        return [by_id.get(f.id) for f in wanted.fields]
    if names[0] != names[1]:
        raise UnsupportedError(
            subject,
            found=f"changed fields in a ROW with duplicate ids: {stored}",
            expected="an id of its own for each field",
            action="Read the table with the client that made it, and write it to a new table.",
        )
    return stored.fields


_NESTED: Final[dict[str, Callable[[pa.DataType, DataType, DataType, str], Step | None]]] = {
    "ARRAY": _array_cast,
    "MAP": _map_cast,
    "MULTISET": _map_cast,
    "ROW": _row_cast,
}


def _with_values(lists: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    """Return the lists, nulls included, with cast values. values: those that belong to the lists, not the whole child
    array: values outside of a slice or below a null are neither checked nor cast.

    target: a list or map type.
    """
    ends = pc.cumulative_sum(lists.value_lengths().fill_null(0))
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
    over = pa.ListArray.from_arrays(offsets, values, mask=lists.is_null())
    return pa.Array.from_buffers(target, len(lists), over.buffers()[:2], children=[values])


def _check_filled(rows: pa.Array, child: pa.Array, subject: str) -> None:
    if pc.any(pc.and_(child.is_null(), rows.is_valid())).as_py():
        raise null_before(subject, "rows without a value")


def null_before(subject: str, finding: str) -> UnsupportedError:
    """Return the error for a file that was written while the column, or a part of it, was nullable."""
    return UnsupportedError(
        subject,
        found=f"{finding}, written before it became NOT NULL",
        expected="a value in every row",
        action="Make it nullable again: Catalog.alter_table(change_nullability={...: True}).",
    )


def _another_type(file_type: pa.DataType, stored: DataType, subject: str) -> DamagedError:
    expected = f"values of {stored}, the column's type in the file's schema"
    return damaged_bytes(subject, f"values of the Arrow type {file_type}", expected)


def _not_allowed(old: DataType, new: DataType, subject: str) -> UnsupportedError:
    return UnsupportedError(
        subject,
        found=f"values of {old} in a column that is {new} now",
        expected="a change of type that keeps every value exactly",
        action="Read the table with another client, or rewrite it with the column's new type.",
    )
