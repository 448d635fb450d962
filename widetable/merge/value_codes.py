"""Codes of values: equal values have equal codes, also inside lists, maps and rows; codes of plain types are ordered.

Equality is that of `row_equality`: null is null, NaN is NaN, -0.0 is not 0.0, a map is its entries in order. So code
that compares many values with many others compares integers. Pure; raises nothing for types that a table can have.

    b  ·  a  b                      2 0 1 2           plain: in their order, null first
    0.0  -0.0  NaN  ·  NaN          2 1 3 0 3
    [1 2]  ·  []  [2 1]  [1 2]      0 1 2 3 0         lists, maps: by first occurrence; rows: by their fields

Codes of two calls are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import valid_of
from widetable.kernels.key_lanes import key_lanes

Codes: TypeAlias = npt.NDArray[np.int64]


def value_codes(array: pa.Array) -> Codes:
    """Return int64[n]: the code of each value; null has a code like any other value."""
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
    """Return int64[n] for columns of plain types: codes in the order of the rows by these columns, null first."""
    lanes = key_lanes(columns)
    # One lane is the usual case, and much faster to sort than rows of several.
    if lanes.shape[1] == 1:
        return np.unique(lanes[:, 0], return_inverse=True)[1].astype(np.int64)
    return _distinct(lanes)


def offsets_of(lists: pa.Array) -> Codes:
    """Return int64[n + 1]: where each list or map starts in `values`, `keys` and `items`, and where the last ends."""
    return np.asarray(lists.offsets.to_numpy(zero_copy_only=False), np.int64)


def _joined(parts: Sequence[Codes], valid: Mask | None = None) -> Codes:
    """Return codes of tuples. valid: whether each tuple is not null; the parts below a null do not count."""
    table = np.stack(list(parts), axis=1)
    if valid is not None:
        table = np.concatenate([valid[:, None].astype(np.int64), table], axis=1)
        table[~valid] = 0
    return _distinct(table) if len(table) else np.empty(0, np.int64)


def _distinct(table: npt.NDArray[np.int64] | npt.NDArray[np.uint64]) -> Codes:
    """Return the code of each row of the table: distinct rows are numbered in lexicographic order."""
    inverse = np.unique(table, axis=0, return_inverse=True)[1]
    return np.asarray(inverse, np.int64).reshape(-1)


def _sequences(lists: pa.Array, codes: Codes) -> Codes:
    """Return codes of lists. codes: of all their elements, end to end; lists are equal when the
    codes between their offsets have the same bytes. A Python step per list, none per element.
    """
    offsets, valid = offsets_of(lists).tolist(), valid_of(lists).tolist()
    seen: dict[bytes | None, int] = {}
    numbers = np.empty(len(lists), np.int64)
    for row, is_valid in enumerate(valid):
        key = codes[offsets[row] : offsets[row + 1]].tobytes() if is_valid else None
        numbers[row] = seen.setdefault(key, len(seen))
    return numbers
