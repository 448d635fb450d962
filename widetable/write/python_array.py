"""Converts Python values into an Arrow array, with or without a column's type.

Arrow infers the types of most values. It infers a ROW from a dict and a list from pairs, so a MAP is built by its type.
Built by its type, Arrow ignores names that a ROW does not have, so a column with both is built part by part:

    ROW       a dict, all of whose names the ROW has; missing names are null
    MAP       a dict, or pairs; MULTISET: pairs of values and counts
    ARRAY     a list, a tuple, a numpy array
    others    as a separate column (safe_cast.python_cast)

In: a list of values, None for null. Out: an array, which has the column's type only if it was built by it. Raises
`NO_ARRAY`, InvalidError naming the column.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable.arguments import shown
from widetable.errors import InvalidError
from widetable.format.parsed_value import list_offsets, null_mask
from widetable.schema.types import DataField, DataType, arrow_type
from widetable.write.safe_cast import python_cast

# The errors of Arrow for values that do not form an array.
NO_ARRAY: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
_MAPS: Final = ("MAP", "MULTISET")


def python_array(
    values: list[Any], field: DataField | None, *, is_pandas: bool = False
) -> pa.Array | pa.ChunkedArray:
    """Convert values. field: the table's column, if there is one. is_pandas: NaN is a missing value, not a number.

    An array that is not built by the column's type is cast later (`python_cast`), batch by batch. For a column
    that the table does not have, such as one of row kinds, field is None and Arrow infers the type.
    """
    if field is not None and _needs_parts(field.type):
        return _built(_without_missing(values) if is_pandas else values, field)
    if field is not None and _needs_type(field.type, values):
        return pa.array(values, arrow_type(field.type), from_pandas=is_pandas)
    try:
        array = pa.array(values, from_pandas=is_pandas)
    except NO_ARRAY:
        # pandas' missing values may be mixed with others.
        array = pa.array(values, from_pandas=True)
    if "pandas" in sys.modules and pa.types.is_timestamp(array.type):
        try:  # timestamps of pandas would lose their nanoseconds
            return pa.array(values, pa.timestamp("ns", array.type.tz), from_pandas=True)
        except NO_ARRAY:
            pass
    return array


def _needs_type(type_: DataType, values: Sequence[Any]) -> bool:
    """Return whether Arrow cannot infer the type from the values: pairs are lists to it, not maps, and large integers
    are no decimals.
    """
    if type_.root == "DECIMAL":
        return all(value is None or isinstance(value, int) for value in values)
    return type_.root in _MAPS


def _needs_parts(type_: DataType) -> bool:
    """Return whether the type has a MAP inside of another value, or a ROW inside of a MAP."""
    if type_.root in _MAPS:
        return _holds(type_, ("ROW",))
    return type_.is_nested and _holds(type_, _MAPS)


def _holds(type_: DataType, roots: Sequence[str]) -> bool:
    inside = (type_.element, type_.key, type_.value, *(field.type for field in type_.fields))
    return any(part is not None and (part.root in roots or _holds(part, roots)) for part in inside)


def _without_missing(values: Sequence[Any]) -> list[Any]:
    """Replace the missing values of pandas by None."""
    is_missing = sys.modules["pandas"].isna
    parts = (Mapping, list, tuple, np.ndarray)
    return [
        value if isinstance(value, parts) or not is_missing(value) else None for value in values
    ]


def _built(values: Sequence[Any], field: DataField) -> pa.Array:
    build = _BUILDERS.get(field.type.root)
    if build is None:
        return python_cast(python_array(list(values), field), field)
    return build(values, field)


def _row(values: Sequence[Any], field: DataField) -> pa.Array:
    kind = arrow_type(field.type)
    names = {part.name for part in field.type.fields}
    for value in values:
        if value is not None and not (isinstance(value, Mapping) and names >= value.keys()):
            raise _refused(value, field, "dicts with these names, or some of them")
    parts = [
        _built(
            [None if value is None else value.get(part.name) for value in values],
            _of(field, part.type),
        )
        for part in field.type.fields
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null_mask(values))


def _list(values: Sequence[Any], field: DataField) -> pa.Array:
    assert field.type.element is not None
    for value in values:
        if value is not None and not isinstance(value, list | tuple | np.ndarray):
            raise _refused(value, field, "lists")
    items = _built([*chain.from_iterable(_present(values))], _of(field, field.type.element))
    return pa.ListArray.from_arrays(
        list_offsets(values), items, arrow_type(field.type), mask=null_mask(values)
    )


def _map(values: Sequence[Any], field: DataField) -> pa.Array:
    kind = field.type
    key, value_type = kind.entry
    pairs = [
        None if value is None else [*value.items()] if isinstance(value, Mapping) else value
        for value in values
    ]
    for value in _present(pairs):
        if not isinstance(value, list | tuple) or not all(map(_is_pair, value)):
            raise _refused(value, field, "dicts, or lists of pairs")
    flat = [*chain.from_iterable(_present(pairs))]
    keys = _built([one for one, _ in flat], _of(field, key))
    items = _built([one for _, one in flat], _of(field, value_type))
    return pa.MapArray.from_arrays(
        list_offsets(pairs), keys, items, arrow_type(kind), mask=null_mask(values)
    )


_BUILDERS: Final[Mapping[str, Callable[[Sequence[Any], DataField], pa.Array]]] = {
    "ROW": _row,
    "ARRAY": _list,
    "MAP": _map,
    "MULTISET": _map,
}


def _of(field: DataField, part: DataType) -> DataField:
    """Return a part of the column; errors show the name of the column."""
    return replace(field, type=part)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _refused(value: Any, field: DataField, expected: str) -> InvalidError:
    return InvalidError(
        f"column {field.name!r}",
        found=shown(value),
        expected=f"{expected}, for {field.type}",
        action="Correct the values.",
    )
