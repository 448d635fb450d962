"""Convert arrays to 64-bit offsets where their texts, joined, would exceed the 2 GiB that 32-bit offsets reach.

    string, 1.5 GiB and 1 GiB      large_string, both; the bytes are shared, only offsets are new
    list<string>, 3 GiB together   list<large_string>

Callers cast gathered rows back, which Arrow refuses where they exceed the limit. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray
from widetable.kernels.gather import is_plain_fixed_width

MAX_BYTES: Final = (1 << 31) - 1


def joinable(arrays: Sequence[ArrowArray], most_bytes: int = MAX_BYTES) -> Sequence[ArrowArray]:
    """Return these arrays, at least one and all of one type, in a type in which they can be joined. most_bytes: the
    limit of texts with 32-bit offsets.
    """
    kind = arrays[0].type
    if len(arrays) == 1 or is_plain_fixed_width(kind):
        return arrays
    wide = wide_type(kind)
    if wide == kind or sum(array.nbytes for array in arrays) <= most_bytes:
        return arrays
    return [array.cast(wide) for array in arrays]


def wide_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with 64-bit offsets for texts and bytes, also in nested types."""
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
