"""Gather rows of a column or of a batch.

Measured (1 M rows out, 10 % of them from behind the base, M rows/s, one thread): Arrow's own take
without bounds check is as fast as a plain loop for numbers without nulls (1800 against 1700) and
for strings (155 against 100 in order, 40 against 13 at random), the loop is faster for fixed-width
values with nulls (840 against 300) or with missing rows. A chunked column costs the copy into one
array (1000); callers that gather from the same column twice join it first.

Call `take` with -1 for null, `take_any` for types that Arrow's take refuses, `take_rows` for a
batch, and patched_take.py where a column consists of two arrays, and rows are chosen for many
columns at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.kernels.arrow_buffers import (
    ArrowArray,
    ArrowColumn,
    buffer_view,
    fixed_values,
    frozen,
    one_array,
)
from widetable.kernels.hidden_nulls import without_hidden_nulls
from widetable.kernels.jit import kernel
from widetable.kernels.row_widths import check_capacity, check_capacity_of_rows

_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
# Types that replace views in Arrow's take: they have 64-bit offsets, as a view has no limit of 2 GiB.
PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
# For fewer, one call of Arrow for all columns is faster than a call for each.
_FEW_ROWS: Final = 8192
_NO_BITS = frozen(np.empty(0, np.uint8))


def take(column: ArrowColumn, indices: npt.NDArray[np.int64]) -> ArrowArray:
    """Return row indices[i] of the column, or null where it is -1, as one array of the same type.

    Indices i, i + 1, ... give a slice of the column, without a copy when it lies in one chunk.
    Indices must be -1 or a row of the column: this is not checked. Raises pyarrow.ArrowInvalid if
    strings of 32-bit offsets exceed 2 GiB.
    """
    count = len(indices)
    # The first and last index rule out nearly all that is no slice; only then is each index checked.
    if count and indices[0] >= 0 and indices[-1] - indices[0] == count - 1 and contiguous(indices):
        return one_array(column.slice(int(indices[0]), count))
    array = one_array(column)
    missing = bool(count) and int(indices.min()) < 0
    if (missing or array.null_count) and is_plain_fixed_width(array.type):
        return _take_fixed(array, indices)
    check_capacity(array, indices)
    if not missing:
        return pc.take(array, pa.array(indices), boundscheck=False)
    # Arrow leaves nulls below a null row, even where a part of it is NOT NULL.
    rows = pc.take(array, pa.array(indices, mask=indices < 0), boundscheck=False)
    return without_hidden_nulls(rows)


def take_rows(batch: pa.RecordBatch, indices: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return rows of a batch with columns of any type, also views and run-end encoded ones, which Arrow's take refuses.
    Indices must be rows of the batch. Raises the errors of `take`.
    """
    if len(indices) < _FEW_ROWS:
        check_capacity_of_rows(batch, indices)
        with suppress(pa.ArrowNotImplementedError):
            return batch.take(pa.array(indices))
    columns = [take_any(column, indices) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def take_any(array: ArrowArray, indices: npt.NDArray[np.int64]) -> ArrowArray:
    """Return rows of an array of any type. No index is -1. Raises the errors of `take`."""
    plain = PLAIN.get(array.type)
    if plain is not None:
        return take(array.cast(plain), indices).cast(array.type)
    try:
        return take(array, indices)
    except pa.ArrowNotImplementedError:
        if not len(indices):
            return array.slice(0, 0)
        # Join slices of consecutive rows: Arrow can do that with every type. Each slice costs
        # a call of Arrow.
        ends = np.append(np.flatnonzero(np.diff(indices) != 1) + 1, len(indices))
        starts = np.append(0, ends[:-1])
        parts = zip(indices[starts].tolist(), (ends - starts).tolist(), strict=True)
        return pa.concat_arrays([array.slice(first, count) for first, count in parts])


def is_plain_fixed_width(kind: pa.DataType) -> bool:
    """Whether values are 1, 2, 4, 8 or 16 bytes side by side, which a loop can copy."""
    types = pa.types
    is_plain = types.is_integer(kind) or types.is_floating(kind) or types.is_temporal(kind)
    return (is_plain and kind.bit_width in _WORDS) or types.is_decimal128(kind)


def words_of(kind: pa.DataType) -> tuple[Any, int]:
    """Return (word type, words per value) for a type of `is_plain_fixed_width`."""
    return (np.uint64, 2) if kind.bit_width == 128 else (_WORDS[kind.bit_width], 1)


def _take_fixed(array: ArrowArray, indices: npt.NDArray[np.int64]) -> ArrowArray:
    """Gather values with nulls, or with missing rows, in one pass over values and validity."""
    dtype, words = words_of(array.type)
    buffer = array.buffers()[0] if array.null_count else None
    bits = _NO_BITS if buffer is None else buffer_view(buffer, np.uint8)
    values = np.empty(len(indices) * words, dtype)
    out_bits = np.empty((len(indices) + 7) // 8, np.uint8)
    source = fixed_values(array, dtype)
    if words == 1:
        _take_words(source, indices, values)
    else:
        _take_pairs(source, indices, values)
    nulls = _take_bits(bits, array.offset, indices, out_bits)
    buffers = [pa.py_buffer(out_bits) if nulls else None, pa.py_buffer(values)]
    return pa.Array.from_buffers(array.type, len(indices), buffers, null_count=nulls)


@kernel
def contiguous(indices: npt.NDArray[np.int64]) -> bool:
    """Whether each index is one more than the one before it."""
    for i in range(1, len(indices)):
        if indices[i] != indices[i - 1] + 1:
            return False
    return True


@kernel
def _take_words(
    source: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]
) -> None:
    # Branches, not `x if c else 0`: numba joins uint64 and int64 to float64.
    for i in range(len(indices)):
        if indices[i] >= 0:
            values[i] = source[indices[i]]
        else:
            values[i] = 0


@kernel
def _take_pairs(
    source: npt.NDArray[np.uint64], indices: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]
) -> None:
    for i in range(len(indices)):
        if indices[i] >= 0:
            values[2 * i] = source[2 * indices[i]]
            values[2 * i + 1] = source[2 * indices[i] + 1]
        else:
            values[2 * i] = 0
            values[2 * i + 1] = 0


@kernel
def _take_bits(
    bits: npt.NDArray[np.uint8],
    bit_offset: int,
    indices: npt.NDArray[np.int64],
    out_bits: npt.NDArray[np.uint8],
) -> int:
    """Set the validity of the rows at `indices`, and return the number of nulls. With empty `bits` only
    -1 is null.
    """
    valid_rows = 0
    has_bits = len(bits) > 0
    for byte in range(len(out_bits)):
        first = 8 * byte
        packed = 0
        for k in range(min(8, len(indices) - first)):
            index = indices[first + k]
            valid = 0
            if index >= 0:
                position = index + bit_offset
                valid = (np.int64(bits[position >> 3]) >> (position & 7)) & 1 if has_bits else 1
            packed |= valid << k
            valid_rows += valid
        out_bits[byte] = packed
    return len(indices) - valid_rows
