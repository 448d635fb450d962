"""Compares rows of the source with rows of its target, by their key. Pure.

    source    1 a, 2 b, 3 c
    target    1 a, 2 x, 4 d      ─►  missing 3, extra 4, different 2 in column b

Both sides have the same columns with the same types, in any order of rows, and no key twice. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SOURCE, _TARGET = "__source", "__target"


@dataclass(frozen=True)
class RowDifferences:
    """Keys that differ. missing: of rows that the target lacks. extra: of rows that only it has. different: of rows
    with other values. columns: the names of the columns that differ, in the order of the rows' columns.
    """

    missing: pa.Table
    extra: pa.Table
    different: pa.Table
    columns: tuple[str, ...]

    @property
    def keys(self) -> pa.Table:
        """All keys that differ."""
        return pa.concat_tables([self.missing, self.extra, self.different])

    def without(self, keys: pa.Table) -> RowDifferences:
        """Return the differences of other keys than these."""

        def others(one: pa.Table) -> pa.Table:
            return one.join(keys, keys=keys.column_names, join_type="left anti")

        return RowDifferences(
            others(self.missing), others(self.extra), others(self.different), self.columns
        )


def row_differences(source: pa.Table, target: pa.Table, key: Sequence[str]) -> RowDifferences:
    """Compare all rows of both sides."""
    keys = list(key)
    left = source.select(keys).append_column(_SOURCE, pa.array(np.arange(source.num_rows)))
    right = target.select(keys).append_column(_TARGET, pa.array(np.arange(target.num_rows)))
    joined = left.join(right, keys=keys, join_type="full outer")
    has_source = np.asarray(joined[_SOURCE].is_valid())
    has_target = np.asarray(joined[_TARGET].is_valid())
    both = joined.filter(pa.array(has_source & has_target))
    rows = both[_SOURCE].combine_chunks(), both[_TARGET].combine_chunks()
    differs = np.zeros(both.num_rows, dtype=np.bool_)
    columns = []
    for name in source.column_names:
        if name in keys:
            continue
        mask = _differing(source[name].take(rows[0]), target[name].take(rows[1]))
        if mask.any():
            columns.append(name)
            differs |= mask
    return RowDifferences(
        missing=joined.filter(pa.array(has_source & ~has_target)).select(keys),
        extra=joined.filter(pa.array(has_target & ~has_source)).select(keys),
        different=both.filter(pa.array(differs)).select(keys),
        columns=tuple(columns),
    )


def _differing(one: pa.ChunkedArray, other: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which values differ. Nulls are equal to nulls, and NaN to NaN."""
    if one.equals(other):
        return np.zeros(len(one), dtype=np.bool_)
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], dtype=np.bool_)
    unequal = pc.fill_null(pc.not_equal(one, other), fill_value=False)
    if pa.types.is_floating(one.type):
        are_nan = pc.and_(pc.is_nan(one), pc.is_nan(other))
        unequal = pc.and_not(unequal, pc.fill_null(are_nan, fill_value=False))
    differs: npt.NDArray[np.bool_] = np.asarray(
        pc.or_(unequal, pc.xor(one.is_null(), other.is_null()))
    )
    return differs
