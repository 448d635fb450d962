"""Remove nulls below nulls: parts of a null ROW, which no reader sees, in an array whose type declares them NOT NULL.

    ROW<a INT NOT NULL>     null    {a: 1}
    its array's own nulls   x       -
    those of its child a    x       -       left by Arrow's `take`, `nulls` and `flatten`, refused by its casts

In: an array of any type. Out: the same values, without such nulls. A null below a value stays; the check of values
reports it. Pure. Raises nothing.
"""

from __future__ import annotations

import functools
from typing import Final

import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray, ArrowColumn, is_bytes

# Arrays of up to so many nulls share memory: half a megabyte for each of so many types.
_MAX_SHARED: Final = 1 << 16
_MAX_TYPES: Final = 32


def has_required_parts(kind: pa.DataType) -> bool:
    """Whether the type contains a ROW with a NOT NULL part; keys of maps are never null."""
    types = pa.types
    if types.is_struct(kind):
        return any(not field.nullable or has_required_parts(field.type) for field in kind)
    if types.is_map(kind):
        return has_required_parts(kind.item_type)
    return types.is_list(kind) and has_required_parts(kind.value_type)


def nulls(count: int, kind: pa.DataType) -> ArrowArray:
    """Return an array of so many nulls of any type, without nulls below them.

    Arrays of one type share memory: thousands of absent columns take that of one.
    """
    if count <= _MAX_SHARED and (is_bytes(kind) or _is_narrow(kind)):
        return _shared_nulls(kind).slice(0, count)
    return _without(pa.nulls(count, kind))


@functools.lru_cache(_MAX_TYPES)
def _shared_nulls(kind: pa.DataType) -> ArrowArray:
    return pa.nulls(_MAX_SHARED, kind)


def _is_narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def without_hidden_nulls(column: ArrowColumn) -> ArrowColumn:
    """Return the column without nulls below nulls; the column itself where its type rules them out."""
    if not has_required_parts(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_without(chunk) for chunk in column.chunks], column.type)
    return _without(column)


def _without(array: ArrowArray) -> ArrowArray:
    kind = array.type
    if not has_required_parts(kind):
        return array
    if pa.types.is_struct(kind):
        parts = [_without(array.field(number)) for number in range(kind.num_fields)]
        mask = array.is_null()
        shown = [
            part if field.nullable or not part.null_count else _shown(part, array)
            for part, field in zip(parts, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(shown, fields=list(kind), mask=mask)
    # `values`, `keys` and `items` are complete even for a slice; so the offset of the array is kept.
    below = _without(array.values) if pa.types.is_list(kind) else _entries(array)
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset, [below])


def _entries(array: pa.MapArray) -> pa.StructArray:
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, _without(array.items)], fields=fields)


def _shown(part: ArrowArray, parent: pa.StructArray) -> ArrowArray:
    """Return the part without its nulls, if all of them lie below nulls of its parent.

    A part with a null below a valid parent keeps all nulls: the value is wrong, and the check of
    values reports it.
    """
    if part.filter(parent.is_valid()).null_count:
        return part
    if pa.types.is_struct(part.type):
        fields = [part.field(number) for number in range(part.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(part.type))
    children = None
    if pa.types.is_list(part.type):
        children = [part.values]
    elif pa.types.is_map(part.type):
        children = [_entries(part)]
    # No bitmap means no nulls. Lists and maps keep their offsets, other types all buffers behind
    # the bitmap.
    own = [None, *part.buffers()[1 : 2 if children else None]]
    return pa.Array.from_buffers(part.type, len(part), own, 0, part.offset, children)
