"""Ranges of tiles, and their sums and extremes, against plain loops in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.windows.tile_ranges import (
    BLOCK,
    first_at_least,
    float_sums,
    greatest_rows,
    wide_sums,
)

# In 128 bits, with neighbours of every carry.
WIDE = st.one_of(
    st.integers(-(2**127), 2**127 - 1),
    st.sampled_from([0, 1, -1, 2**63, 2**64 - 1, 2**64, -(2**64), 2**127 - 1, -(2**127)]),
)


@st.composite
def ranges(draw: st.DrawFn, rows: int) -> list[list[tuple[int, int]]]:
    """Up to three ranges for each of up to 8 windows; some are empty."""
    count = draw(st.integers(1, 3))
    edge = st.integers(0, rows)
    one = st.tuples(edge, edge).map(sorted).map(tuple)
    windows = st.lists(st.tuples(*[one] * count), min_size=1, max_size=8)
    return [list(window) for window in draw(windows)]


def laid_out(
    windows: list[list[tuple[int, int]]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    both = np.array(windows, np.int64).transpose(2, 1, 0)
    return both[0].copy(), both[1].copy()


@given(st.lists(WIDE, max_size=30), st.data())
def test_wide_sums(values: list[int], data: st.DataObject) -> None:
    windows = data.draw(ranges(len(values)))
    words = np.array(
        [[value & (2**64 - 1), (value >> 64) & (2**64 - 1)] for value in values], np.uint64
    ).reshape(-1)
    sums = wide_sums(words, *laid_out(windows)).tolist()
    for (low, middle, high), window in zip(sums, windows, strict=True):
        wanted = sum(sum(values[start:end]) for start, end in window)
        assert low | middle << 64 | high << 128 == wanted & (2**192 - 1)


@given(st.integers(0, 6 * BLOCK), st.integers(1, 50), st.data())
def test_greatest_rows(rows: int, most: int, data: st.DataObject) -> None:
    numbers = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    order = numbers.integers(0, most, rows).astype(np.uint64) + np.uint64(2**63)
    windows = data.draw(ranges(rows))
    chosen = greatest_rows(order, *laid_out(windows)).tolist() if rows else []
    for row, window in zip(chosen, windows if rows else [], strict=True):
        inside = [each for start, end in window for each in range(start, end)]
        if not inside:
            assert row == -1
        else:
            assert row in inside
            assert order[row] == max(order[each] for each in inside)


@given(st.lists(st.floats(), max_size=20), st.data())
def test_float_sums(values: list[float], data: st.DataObject) -> None:
    windows = data.draw(ranges(len(values)))
    starts, ends = laid_out(windows)
    sums = float_sums(np.array(values, np.float64), starts, ends)
    for actual, parts in zip(sums.tolist(), windows, strict=True):
        rows = [value for start, end in parts for value in values[start:end]]
        total = rows[0] if rows else 0.0
        for value in rows[1:]:
            total += value
        assert repr(actual) == repr(total)


@given(st.lists(st.lists(st.integers(-9, 9), max_size=9).map(sorted), min_size=1, max_size=5))
def test_first_at_least(of_keys: list[list[int]]) -> None:
    tiles = np.array([tile for key in of_keys for tile in key], np.int64)
    counts = np.array([len(key) for key in of_keys], np.int64)
    firsts = np.cumsum(counts) - counts
    for time in range(-10, 11):
        rows = first_at_least(tiles, firsts, counts, np.full(len(of_keys), time, np.int64))
        wanted = [sum(tile < time for tile in key) for key in of_keys]
        assert (rows - firsts).tolist() == wanted


@given(
    st.sampled_from([1, 7, 2**20, 2**58]),
    st.lists(
        st.lists(st.integers(-16, 15), unique=True, max_size=20).map(sorted),
        min_size=1,
        max_size=5,
    ),
)
def test_first_at_least_of_tiles_that_are_apart(size: int, of_keys: list[list[int]]) -> None:
    """The size of the tiles only narrows the search: with gaps, without any, and up to the farthest times."""
    tiles = np.array([tile * size for key in of_keys for tile in key], np.int64)
    counts = np.array([len(key) for key in of_keys], np.int64)
    firsts = np.cumsum(counts) - counts
    for slot in range(-17, 17):
        for time in (slot * size - 1, slot * size, slot * size + 1):
            times = np.full(len(of_keys), time, np.int64)
            rows = first_at_least(tiles, firsts, counts, times, size)
            wanted = [sum(tile * size < time for tile in key) for key in of_keys]
            assert (rows - firsts).tolist() == wanted
