"""Numbers for values: equal ones have equal numbers, also inside lists, maps and rows; of plain types in their order.

Equal as `row_equality` has it: null is null, NaN is NaN, -0.0 is not 0.0, a map is its entries in order. So what
compares many values with many others compares integers. Pure; raises nothing for types that a table can have.

    b  ·  a  b                      2 0 1 2           plain: in their order, null first
    0.0  -0.0  NaN  ·  NaN          2 1 3 0 3
    [1 2]  ·  []  [2 1]  [1 2]      0 1 2 3 0         lists, maps: as they come; rows: in the order of their fields

Numbers mean nothing outside of the call that gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.key_lanes import key_lanes
from widetable.merge.fold import Mask

Codes: TypeAlias = npt.NDArray[np.int64]


def value_codes(array: pa.Array) -> Codes:
    """int64[n]; nulls have a number like any other value."""
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [value_codes(array.field(at)) for at in range(kind.num_fields)]
        return _joined(parts, valid_of(array))
    if pa.types.is_map(kind):
        entries = _joined([value_codes(array.keys), value_codes(array.items)])
        return _sequences(array, entries)
    if pa.types.is_list(kind):
        return _sequences(array, value_codes(array.values))
    return ranks([array])


def ranks(columns: Sequence[pa.Array]) -> Codes:
    """int64[n] for columns of plain types: as rows are ordered by them, null first."""
    lanes = key_lanes(columns)
    # One lane is the rule, and much faster to sort than rows of several.
    if lanes.shape[1] == 1:
        return np.unique(lanes[:, 0], return_inverse=True)[1].astype(np.int64)
    return _distinct(lanes)


def offsets_of(lists: pa.Array) -> Codes:
    """int64[n + 1]: where each list or map starts in `values`, `keys` and `items`, and where the last ends."""
    return np.asarray(lists.offsets.to_numpy(zero_copy_only=False), np.int64)


def _joined(parts: Sequence[Codes], valid: Mask | None = None) -> Codes:
    """Numbers of tuples. valid: where a tuple is; what a null one hides does not count."""
    table = np.stack(list(parts), axis=1)
    if valid is not None:
        table = np.concatenate([valid[:, None].astype(np.int64), table], axis=1)
        table[~valid] = 0
    return _distinct(table) if len(table) else np.empty(0, np.int64)


def _distinct(table: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> Codes:
    """A number per distinct row of the table, in their lexicographic order."""
    inverse = np.unique(table, axis=0, return_inverse=True)[1]
    return np.asarray(inverse, np.int64).reshape(-1)


def _sequences(lists: pa.Array, codes: Codes) -> Codes:
    """Numbers of lists. codes: of all their elements, end to end; lists are equal when the
    codes between their offsets are the same bytes. A Python step per list, none per element.
    """
    offsets, valid = offsets_of(lists).tolist(), valid_of(lists).tolist()
    seen: dict[bytes | None, int] = {}
    found = np.empty(len(lists), np.int64)
    for row, is_valid in enumerate(valid):
        key = codes[offsets[row] : offsets[row + 1]].tobytes() if is_valid else None
        found[row] = seen.setdefault(key, len(seen))
    return found
