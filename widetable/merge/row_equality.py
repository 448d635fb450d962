"""Which values of two columns are equal by Java's `equals`: null is null, NaN is NaN, -0.0 is not 0.0.

In: two arrays of one type and length; out: bool[n]. Nested values are equal part by part, maps by their entries in
order. Raises nothing for types that a table can have.

    left     0.0   NaN   ·   1.0     [1 ·]  [1 2]  []
    right   -0.0   NaN   ·   ·       [1 ·]  [1 3]  [1]
    equal    F     T     T   F       T      F      F

Arrow's own `equal` gives null for null, false for NaN, and does not take lists. A changelog
with row-deduplicate uses this, so the result must agree with Java. To compare many values with
many others see `value_codes`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import valid_of
from widetable.merge.value_codes import offsets_of


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Return bool[n]: where the two columns have equal values."""
    left_valid, right_valid = valid_of(left), valid_of(right)
    both = left_valid & right_valid
    equal = ~left_valid & ~right_valid
    if both.any():
        chosen = pa.array(both)
        equal[both] = _equal_valid(left.filter(chosen), right.filter(chosen))
    return equal


def _equal_valid(left: pa.Array, right: pa.Array) -> Mask:
    """Compare arrays without top-level nulls."""
    kind = left.type
    if pa.types.is_struct(kind):
        return _equal_structs(left, right)
    if pa.types.is_map(kind):
        return _equal_lists(left, right, "keys") & _equal_lists(left, right, "items")
    if pa.types.is_list(kind):
        return _equal_lists(left, right, "values")
    if not pa.types.is_floating(kind):
        return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)
    a, b = left.to_numpy(), right.to_numpy()
    return np.asarray(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))


def _equal_structs(left: pa.Array, right: pa.Array) -> Mask:
    equal = np.ones(len(left), np.bool_)
    for index in range(left.type.num_fields):
        equal &= equal_values(left.field(index), right.field(index))
    return equal


def _equal_lists(left: pa.Array, right: pa.Array, parts: str) -> Mask:
    """Compare lists. parts: the attribute that holds the elements of all lists, end to end.

    Only lists of equal length are compared by their elements, all at once; one that
    differs makes its list differ. The two arrays need not share offsets: each is read by
    its own.
    """
    left_offsets, right_offsets = offsets_of(left), offsets_of(right)
    lengths = np.diff(left_offsets)
    equal = lengths == np.diff(right_offsets)
    rows = np.flatnonzero(equal)
    sizes = lengths[rows]
    # 0, 1, .. within each list: the positions of its elements, counted from its first.
    steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def parts_of(lists: pa.Array, offsets: npt.NDArray[np.int64]) -> pa.Array:
        return getattr(lists, parts).take(pa.array(np.repeat(offsets[rows], sizes) + steps))

    same = equal_values(parts_of(left, left_offsets), parts_of(right, right_offsets))
    equal[np.repeat(rows, sizes)[~same]] = False
    return np.asarray(equal)
