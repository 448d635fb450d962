"""Computes the features of entity rows from rows of tiles.

In: the rows (`TileRows`) of one tile table, or of several of different sizes, and a time for each entity row. Out: one
array for each feature, null where no tile of the window has a value; numbers of events are 0 there. Pure. Raises
InvalidError for a sum that the column's type does not hold.

    integers, DECIMAL   exact; the bounds are those of the function `sum` (`merge.number_functions`)
    DOUBLE, FLOAT       tiles are added in order of time, in 64 bits, and the sum is rounded to the type once
    min, max            in the order of keys, as the functions do: NaN is the greatest value, -0.0 less than 0.0

No result depends on files, on buckets, or on what else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.kernels.array_types import Lanes, Mask, Positions
from widetable.kernels.arrow_buffers import bitmap, fixed_values, number_type, valid_of
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.kernels.windows.tile_ranges import float_sums, greatest_rows, wide_sums
from widetable.merge.number_functions import least_too_large
from widetable.operations.windows.tile_rows import TileRanges, TileRows, joined_columns, ranges_of
from widetable.operations.windows.window_plan import PlannedWindow


class _Values(NamedTuple):
    """The values of a column without nulls, and the ranges of a window within them. numbers: those of the windows."""

    values: pa.Array
    ranges: TileRanges
    numbers: Positions


def window_values(
    windows: Sequence[PlannedWindow],
    levels: Sequence[TileRows],
    sizes: Sequence[int],
    times: Positions,
    numbers: Positions,
    current: TileRows | None = None,
) -> list[pa.Array]:
    """Return the feature of each window at each time. levels, sizes: as in `ranges_of`. numbers: those of the entity
    rows, for errors. current: rows that each window covers besides, after all others.
    """
    rows = [*levels, *([] if current is None else [current])]
    columns = {name: _without_nulls(column) for name, column in joined_columns(rows).items()}
    ranges: dict[int, TileRanges] = {}
    arrays = []
    for window in windows:
        if window.micros not in ranges:
            complete = ranges_of(levels, sizes, times, window.micros)
            ranges[window.micros] = _with_current(complete, levels, current)
        values, places = columns[window.column]
        inside = ranges[window.micros]
        if places is not None:
            inside = TileRanges(places[inside.starts], places[inside.ends])
        arrays.append(_feature(window, _Values(values, inside, numbers)))
    return arrays


def _with_current(
    ranges: TileRanges, levels: Sequence[TileRows], current: TileRows | None
) -> TileRanges:
    """Add the rows of `current`, which are counted behind those of all levels."""
    if current is None:
        return ranges
    firsts = current.firsts + sum(len(level.tiles) for level in levels)
    return TileRanges(
        np.concatenate([ranges.starts, firsts[np.newaxis]]),
        np.concatenate([ranges.ends, (firsts + current.counts)[np.newaxis]]),
    )


def _without_nulls(column: pa.Array) -> tuple[pa.Array, Positions | None]:
    """Return the values, and for each row and the end the number of values before it; None without nulls."""
    if column.null_count == 0:
        return column, None
    valid = valid_of(column)
    return column.drop_null(), np.concatenate([[0], np.cumsum(valid)]).astype(np.int64)


def _feature(window: PlannedWindow, given: _Values) -> pa.Array:
    kind = given.values.type
    starts, ends = given.ranges
    present: Mask = np.any(starts < ends, axis=0)
    if window.function.picks:
        return _picked(given, smallest=window.function.smallest)
    if pa.types.is_floating(kind):
        return _float_sums(window, given, present)
    if pa.types.is_decimal(kind):
        return _decimal_sums(window, given, present)
    sums = _integer_sums(window, given)
    if window.function.counts:
        return pa.array(sums)
    return pa.array(sums, pa.int64(), mask=~present).cast(window.type)


def _picked(given: _Values, *, smallest: bool) -> pa.Array:
    """Return the greatest or the smallest value of each window."""
    if not len(given.values):
        return pa.nulls(given.ranges.starts.shape[1], given.values.type)
    lanes = key_lanes([given.values], descending=[smallest])
    rows = greatest_rows(_order(lanes), given.ranges.starts, given.ranges.ends)
    return given.values.take(pa.array(rows, mask=rows < 0))


def _order(lanes: Lanes) -> npt.NDArray[np.uint64]:
    """Return numbers in the order of the lanes, equal for equal ones."""
    if lanes.shape[1] == 1:
        return np.ascontiguousarray(lanes[:, 0])
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    sizes = np.diff(group_starts(lanes, order))
    ranks = np.empty(len(lanes), np.uint64)
    ranks[order] = np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes)
    return ranks


def _integer_sums(window: PlannedWindow, given: _Values) -> Positions:
    """Return the sums. Raises InvalidError for one beyond the bounds of the column's type."""
    kind = number_type(given.values.type)
    values = fixed_values(given.values, kind)
    bounds = np.iinfo(number_type(window.type))
    if _fits(values, 1 << 63):
        sums = _plain_sums(values, given.ranges)
        wrong = (sums < bounds.min) | (sums > bounds.max)
    else:
        wide = values.astype(np.int64)
        words = np.stack([wide, wide >> 63], axis=1).reshape(-1).view(np.uint64)
        totals = wide_sums(words, *given.ranges)
        sums = totals[:, 0].copy().view(np.int64)
        sign = (sums >> 63).view(np.uint64)
        wrong = (totals[:, 1] != sign) | (totals[:, 2] != sign)
        wrong |= (sums < bounds.min) | (sums > bounds.max)
    _check_fits(window, given, wrong)
    return sums


def _fits(values: npt.NDArray[np.signedinteger], bound: int) -> bool:
    """Whether no sum of any of the values reaches the bound, or its negative."""
    if not len(values):
        return True
    size = max(int(values.max()), -int(values.min()))
    return size * len(values) < bound


def _plain_sums(values: npt.NDArray[np.signedinteger], ranges: TileRanges) -> Positions:
    prefix = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=prefix[1:])
    sums: Positions = (prefix[ranges.ends] - prefix[ranges.starts]).sum(axis=0)
    return sums


def _decimal_sums(window: PlannedWindow, given: _Values, present: Mask) -> pa.Array:
    """Return the sums. Raises InvalidError for one that the function `sum` does not hold either."""
    words = fixed_values(given.values, np.uint64)
    bound = least_too_large(window.type.precision)
    totals = wide_sums(words, *given.ranges)
    # The third word must repeat the sign; sizes are compared in two words.
    negative = totals[:, 2] >> np.uint64(63) != 0
    ones = np.uint64(2**64 - 1)
    third = np.where(negative, ones, np.uint64(0))
    low, high = totals[:, 0], totals[:, 1]
    size_low = np.where(negative, ~low + np.uint64(1), low)
    size_high = np.where(negative, ~high + (size_low == 0).astype(np.uint64), high)
    most_low, most_high = np.uint64(bound & (2**64 - 1)), np.uint64(bound >> 64)
    too_large = (size_high > most_high) | ((size_high == most_high) & (size_low >= most_low))
    signs_differ = (high >> np.uint64(63) != 0) != negative
    _check_fits(window, given, (totals[:, 2] != third) | signs_differ | too_large)
    pairs = np.ascontiguousarray(totals[:, :2])
    return pa.Array.from_buffers(window.type, len(present), [bitmap(present), pa.py_buffer(pairs)])


def _float_sums(window: PlannedWindow, given: _Values, present: Mask) -> pa.Array:
    """Add up the tiles of each window in order of time: `tile_sizes` refuses coarse ones."""
    kind = number_type(given.values.type)
    values = fixed_values(given.values, kind).astype(np.float64)
    sums = float_sums(values, *given.ranges)
    with np.errstate(over="ignore"):
        return pa.array(sums.astype(kind), window.type, mask=~present)


def _check_fits(window: PlannedWindow, given: _Values, wrong: Mask) -> None:
    if wrong.any():
        raise InvalidError(
            f"feature {window.name!r}",
            found=f"a sum that does not fit, for row {given.numbers[wrong].min()} of the entities",
            expected=f"sums that the type {window.type} of column {window.column!r} holds",
            action="Make the type of the column wider, or the window shorter.",
        )
