"""The orders in which a table is sorted for queries: by columns one after the other, or along a curve through all.

In: a sample of the rows, the same columns of more rows. Out: a coarse key of each row, by which rows are divided into
ranges, and the order of the rows within a range. Pure.

    linear     a, then b within equal a: best for filters of a, of little use for b alone
    zorder     a and b matter equally; filters of either skip files
    hilbert    the same, with fewer jumps between neighbours

A curve needs coordinates of equal weight whatever the values are, so a value counts by its rank in the sample: skewed
numbers, texts with a long common prefix and times are spread alike. Null comes first, NaN last. Of a long text only the
first `KEY_LENGTH` characters count in keys, as a sample of whole ones could fill the memory.

    sample of a    10 20 20 90     ranks of 10 15 20 200     1 1 3 4      of b likewise, then the curve's key

Raises nothing for columns of plain types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.curves.curve_keys import Points, hilbert_keys, z_keys
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import sort_order
from widetable.merge.value_codes import ranks

Keys: TypeAlias = npt.NDArray[np.uint64]
Order: TypeAlias = npt.NDArray[np.int64]

# Characters of texts, bytes of binaries.
KEY_LENGTH: Final = 256
_KEY_BITS: Final = 60
# More would make the search of a rank slower than the cache of a processor.
_MOST_BITS: Final = 14


class RowCurve(Protocol):
    """An order of rows. columns: those by which a table is sorted, in their order, of rows of one batch."""

    def keys(self, columns: Sequence[pa.Array]) -> Keys:
        """Return a key of each row, uint64[n]; rows of different keys are in the order of these."""

    def order(self, columns: Sequence[pa.Array]) -> Order:
        """Return the numbers of the rows in their order, int64[n]."""


@dataclass(frozen=True)
class _Linear:
    """Order rows by the first column, then the second, and so on. sample: some rows, in that order."""

    sample: Sequence[pa.Array]

    def keys(self, columns: Sequence[pa.Array]) -> Keys:
        return _places(self.sample, columns)

    def order(self, columns: Sequence[pa.Array]) -> Order:
        lanes = key_lanes(columns)
        return sort_order(lanes, np.zeros(len(lanes), np.int64))


@dataclass(frozen=True)
class _Curved:
    """Order rows along a curve. bounds: values of a sample of each column, ascending, fewer than 2^bits."""

    bounds: Sequence[pa.Array]
    bits: int
    key_of: Callable[[Points, int], Keys]

    def keys(self, columns: Sequence[pa.Array]) -> Keys:
        points = np.empty((len(columns[0]), len(columns)), np.uint64)
        largest = np.uint64((1 << self.bits) - 1)
        for at, (bound, column) in enumerate(zip(self.bounds, columns, strict=True)):
            # Few distinct values are spread over all bits, or the column would count less than others.
            points[:, at] = _places([bound], [column]) * largest // np.uint64(len(bound))
        return self.key_of(points, self.bits)

    def order(self, columns: Sequence[pa.Array]) -> Order:
        keys = self.keys(columns)
        return sort_order(keys.reshape(-1, 1), np.zeros(len(keys), np.int64))


def shortened(column: pa.Array) -> pa.Array:
    """Return the values of a column as keys need them: the beginnings of texts and binaries."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(column, 0, KEY_LENGTH)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_slice(column, 0, KEY_LENGTH)
    return column


def _linear(sample: Sequence[pa.Array]) -> RowCurve:
    sample = [shortened(column) for column in sample]
    order = pa.array(_Linear(sample).order(sample))
    return _Linear([column.take(order) for column in sample])


def _curved(sample: Sequence[pa.Array], key_of: Callable[[Points, int], Keys]) -> RowCurve:
    bits = min(_MOST_BITS, _KEY_BITS // len(sample))
    bounds = [_bounds(shortened(column), (1 << bits) - 1) for column in sample]
    return _Curved(bounds, bits, key_of)


# By the word with which a user names it.
ORDERS: Final[Mapping[str, Callable[[Sequence[pa.Array]], RowCurve]]] = {
    "linear": _linear,
    "zorder": lambda sample: _curved(sample, z_keys),
    "hilbert": lambda sample: _curved(sample, hilbert_keys),
}


def _bounds(column: pa.Array, most: int) -> pa.Array:
    """Return at most so many values of a sample that divide it evenly, ascending and distinct."""
    order = sort_order(key_lanes([column]), np.zeros(len(column), np.int64))
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(np.int64)]
    codes = ranks([column.take(pa.array(order))])
    return column.take(pa.array(order[np.flatnonzero(np.diff(codes, prepend=-1))]))


def _places(bounds: Sequence[pa.Array], columns: Sequence[pa.Array]) -> Keys:
    """Return how many of the bounds are not above each row. bounds: shortened values, ascending, as columns."""
    count = len(bounds[0])
    columns = [shortened(column) for column in columns]
    both = [pa.concat_arrays(pair) for pair in zip(bounds, columns, strict=True)]
    lanes = key_lanes(both)
    values = lanes[:, 0] if lanes.shape[1] == 1 else ranks(both)
    return np.searchsorted(values[:count], values[count:], side="right").astype(np.uint64)
