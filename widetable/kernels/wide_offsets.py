"""Arrays whose texts, joined, would pass the 2 GiB that 32-bit offsets reach: the same with 64-bit offsets.

    string, 1.5 GiB and 1 GiB      large_string, both; the bytes are shared, offsets are made anew
    list<string>, 3 GiB together   list<large_string>

What is taken from them is cast back, which Arrow refuses where it is too much. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray
from widetable.kernels.gather import is_plain_fixed_width

MOST_BYTES: Final = (1 << 31) - 1


def joinable(arrays: Sequence[ArrowArray], most_bytes: int = MOST_BYTES) -> Sequence[ArrowArray]:
    """These arrays, at least one and all of one type, in a type in which they can be joined. most_bytes: that texts of
    32-bit offsets may have.
    """
    kind = arrays[0].type
    if len(arrays) == 1 or is_plain_fixed_width(kind):
        return arrays
    wide = wide_type(kind)
    if wide == kind or sum(array.nbytes for array in arrays) <= most_bytes:
        return arrays
    return [array.cast(wide) for array in arrays]


def wide_type(kind: pa.DataType) -> pa.DataType:
    """The same type with 64-bit offsets of texts and bytes, also of those below it."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_wide_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_wide_field(kind.key_field), _wide_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_wide_field(kind.field(place)) for place in range(kind.num_fields)])
    return kind


def _wide_field(field: pa.Field) -> pa.Field:
    return field.with_type(wide_type(field.type))
