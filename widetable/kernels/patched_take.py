"""Gather rows of a column that consists of two arrays: a large one, and a rest that patches it.

A merge takes most rows of a column from one run. Joining the runs' arrays first would copy the large one needlessly;
here the large array is gathered without a branch, then the rows from the rest and the missing ones are written over it.
Positions are computed once (`PatchChoice`) for all columns with the same layout. Measured (64 K rows in cache, one in
ten from the rest, CPU ns per value): 8-byte values 0.8 against 1.0 for joining and taking, 1.7 against 2.2 with nulls;
strings are joined and taken, 5.

Raises pyarrow.ArrowInvalid if strings of 32-bit offsets exceed 2 GiB.

    large 10 11 12 13 14      rest 90 91      positions 2, 3, 5, -1      result 12, 13, 90, null
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.kernels.arrow_buffers import ArrowArray, bitmap, fixed_values, valid_of
from widetable.kernels.gather import contiguous, is_plain_fixed_width, take, words_of
from widetable.kernels.jit import kernel
from widetable.runtime.derived_value import derived_value

Rows: TypeAlias = npt.NDArray[np.int64]
Items: TypeAlias = npt.NDArray[Any]  # of one unsigned type in each call


@dataclass(frozen=True)
class PatchChoice:
    """The rows to take. positions int64[n]: of the large array, then of the rest behind it; -1 is null.

    Derived values are computed once, when the first column needs them, and shared by all
    columns of the same pieces. Unless no row is taken, the large array has at least one row: its
    row 0 is read for rows from elsewhere, and overwritten.
    """

    positions: Rows
    large_rows: int

    @derived_value
    def is_slice(self) -> bool:
        """Whether the rows are consecutive rows of the large array."""
        rows = self.positions
        count = len(rows)
        ends = count == 0 or (rows[-1] - rows[0] == count - 1 and 0 <= rows[0] < self.large_rows)
        return bool(ends) and not self.patch[0].size and not self.missing.size and contiguous(rows)

    @derived_value
    def large(self) -> Rows:
        """Rows of the large array; row 0 where another value is written over it."""
        return np.where(
            (self.positions >= 0) & (self.positions < self.large_rows), self.positions, 0
        )

    @derived_value
    def patch(self) -> tuple[Rows, Rows]:
        """The rows of the rest, and their positions in the result."""
        target = np.flatnonzero(self.positions >= self.large_rows)
        return self.positions[target] - self.large_rows, target

    @derived_value
    def missing(self) -> Rows:
        """Positions in the result that are null in every column."""
        return np.flatnonzero(self.positions < 0)

    @derived_value
    def validity(self) -> pa.Buffer:
        """The validity of a column whose arrays have no nulls, when a row is missing."""
        valid = np.ones(len(self.positions), np.bool_)
        valid[self.missing] = False
        return bitmap(valid)


def take_patched(large: ArrowArray, rest: ArrowArray | None, choice: PatchChoice) -> ArrowArray:
    """Return the chosen rows as one array; a slice without a copy where they are consecutive. rest None: no row is from
    it.

    large, rest: of one type; -1 in `positions` gives null. Strings, booleans and nested types are
    taken by `gather.take`.
    """
    if choice.is_slice:
        first = int(choice.positions[0]) if len(choice.positions) else 0
        return large.slice(first, len(choice.positions))
    if not is_plain_fixed_width(large.type):
        return take(large if rest is None else pa.concat_arrays([large, rest]), choice.positions)
    rest = large.slice(0, 0) if rest is None else rest
    validity, nulls = _validity(large, rest, choice)
    buffers = [validity, pa.py_buffer(_values(large, rest, choice))]
    return pa.Array.from_buffers(large.type, len(choice.positions), buffers, null_count=nulls)


def _values(large: ArrowArray, rest: ArrowArray, choice: PatchChoice) -> Items:
    dtype, words = words_of(large.type)
    values = np.empty(len(choice.positions) * words, dtype)
    _take_all(fixed_values(large, dtype), words, choice.large, values)
    _put(fixed_values(rest, dtype), words, *choice.patch, values)
    _put_zeros(words, choice.missing, values)
    return values


def _validity(
    large: ArrowArray, rest: ArrowArray, choice: PatchChoice
) -> tuple[pa.Buffer | None, int]:
    if not large.null_count and not rest.null_count:
        nulls = len(choice.missing)
        return choice.validity if nulls else None, nulls
    valid = has_values(large, rest, choice)
    return bitmap(valid), len(valid) - int(np.count_nonzero(valid))


def has_values(
    large: ArrowArray, rest: ArrowArray | None, choice: PatchChoice
) -> npt.NDArray[np.bool_]:
    """Return which of the chosen rows exist and are not null. Values are not read, because texts may be long.

    Validity is gathered as bytes, one per row: unpacking and packing bits is cheaper than reading them one by one.
    """
    valid = np.empty(len(choice.positions), np.uint8)
    _take_all(valid_of(large).view(np.uint8), 1, choice.large, valid)
    if rest is not None:
        _put(valid_of(rest).view(np.uint8), 1, *choice.patch, valid)
    _put_zeros(1, choice.missing, valid)
    return valid.view(np.bool_)


@kernel
def _take_all(source: Items, words: int, rows: Rows, values: Items) -> None:
    if words == 1:
        for i in range(len(rows)):
            values[i] = source[rows[i]]
    else:
        for i in range(len(rows)):
            for word in range(words):
                values[i * words + word] = source[rows[i] * words + word]


@kernel
def _put(
    source: Items,
    words: int,
    rows: Rows,
    target: Rows,
    values: Items,
) -> None:
    for i in range(len(rows)):
        for word in range(words):
            values[target[i] * words + word] = source[rows[i] * words + word]


@kernel
def _put_zeros(words: int, target: Rows, values: Items) -> None:
    """Set the values of missing rows to zero, so that the bytes of a result depend on its rows alone."""
    for i in range(len(target)):
        for word in range(words):
            values[target[i] * words + word] = 0
