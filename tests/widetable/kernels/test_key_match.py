"""Matching of sorted keys and sorted rows, against a dictionary of the rows and a plain numpy search."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.strategies import ORDERED
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.key_match import RowsOutOfOrder, match_keys, slices_in_ranges
from widetable.kernels.sort_order import sort_order

_Rows = list[tuple[Any, ...]]


def _columns(rows: _Rows, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]


def _sorted(columns: Sequence[pa.Array]) -> list[pa.Array]:
    lanes = key_lanes(columns)
    order = pa.array(sort_order(lanes, np.zeros(len(lanes), np.int64)))
    return [column.take(order) for column in columns]


def _pairs_by_search(
    keys: Sequence[pa.Array], rows: Sequence[pa.Array]
) -> tuple[list[int], list[int]]:
    """The twin: the lanes of a row as one big number, and numpy's binary search."""
    lanes = key_lanes([pa.chunked_array([a, b]) for a, b in zip(keys, rows, strict=True)])
    numbers = np.array(
        [int.from_bytes(row.astype(">u8").tobytes(), "big") for row in lanes], object
    )
    count = len(keys[0])
    hits: list[int] = []
    positions: list[int] = []
    for key in range(count):
        first = int(np.searchsorted(numbers[count:], numbers[key], side="left"))
        last = int(np.searchsorted(numbers[count:], numbers[key], side="right"))
        hits += [key] * (last - first)
        positions += range(first, last)
    return hits, positions


@st.composite
def _two_sides(draw: st.DrawFn) -> tuple[list[pa.Array], list[pa.Array]]:
    kinds = draw(st.lists(st.sampled_from(list(ORDERED)), min_size=1, max_size=3))
    row = st.tuples(*(ORDERED[kind] for kind in kinds))
    # -0.0 and 0.0 are two keys, but one in a set.
    one = draw(st.lists(row, max_size=12, unique_by=repr))
    other = draw(st.lists(row, max_size=12))
    return _sorted(_columns(one, kinds)), _sorted(_columns(other, kinds))


@given(_two_sides())
def test_pairs_are_those_of_a_search_for_every_key_type(
    sides: tuple[list[pa.Array], list[pa.Array]],
) -> None:
    hits, positions = match_keys(*sides, check_order=True)
    assert {hits.dtype, positions.dtype} == {np.dtype(np.int64)}
    assert (hits.tolist(), positions.tolist()) == _pairs_by_search(*sides)


@pytest.mark.parametrize(("few", "many"), [(0, 50), (1, 5000), (40, 5000), (5000, 5000)])
def test_keys_that_are_far_apart_or_dense_are_found(
    few: int, many: int, rng: random.Random
) -> None:
    rows = np.array(sorted(rng.sample(range(2 * many), many)), np.int64)
    keys = np.array(sorted(rng.sample(range(2 * many), few)), np.int64)
    for a, b in [(keys, rows), (rows, keys)]:
        common, hits, positions = np.intersect1d(a, b, return_indices=True)
        assert len(common) or not few or few == 1
        for kind in (pa.int64(), pa.timestamp("us"), pa.string()):
            one, other = (pa.array(side, pa.int64()) for side in (a, b))
            if kind == pa.string():
                one, other = (_zero_padded(side) for side in (a, b))
            found = match_keys([one.cast(kind)], [other.cast(kind)], check_order=True)
            assert found[0].tolist() == hits.tolist()
            assert found[1].tolist() == positions.tolist()


def _zero_padded(values: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    return pa.array([f"{value:06d}" for value in values], pa.string())


def test_slices_are_matched_from_where_they_start() -> None:
    keys = pa.array([0, 5, 7, 9], pa.int32()).slice(1, 2)
    rows = pa.array([9, 5, 6, 7], pa.int32()).slice(1)
    hits, positions = match_keys([keys], [rows])
    assert (hits.tolist(), positions.tolist()) == ([0, 1], [0, 2])


def test_an_empty_side_has_no_pairs() -> None:
    some, none = pa.array(["a", "b"]), pa.array([], pa.string())
    for keys, rows in [(some, none), (none, some), (none, none)]:
        hits, positions = match_keys([keys], [rows])
        assert (len(hits), len(positions)) == (0, 0)


def test_rows_out_of_order_are_refused_when_asked() -> None:
    for rows in (pa.array([1, 3, 2], pa.int64()), pa.array(["a", "c", "b"])):
        with pytest.raises(RowsOutOfOrder, match="row 2"):
            match_keys([rows.slice(0, 1)], [rows], check_order=True)


def test_sides_of_different_types_are_refused() -> None:
    with pytest.raises(TypeError, match="expected those of the rows"):
        match_keys([pa.array([1], pa.int32())], [pa.array([1], pa.int64())])


def test_keys_that_do_not_ascend_are_refused() -> None:
    rows = pa.array([1, 2, 3], pa.int64())
    for keys in ([2, 1], [1, 1]):
        with pytest.raises(ValueError, match="keys: found key 1"):
            match_keys([pa.array(keys, pa.int64())], [rows])


@given(_two_sides())
def test_slices_hold_all_keys_of_each_range(
    sides: tuple[list[pa.Array], list[pa.Array]],
) -> None:
    keys, bounds = sides
    starts, ends = slices_in_ranges(keys, bounds, [column[::-1] for column in bounds])
    lanes = key_lanes([pa.chunked_array([a, b]) for a, b in zip(keys, bounds, strict=True)])
    numbers = [tuple(row) for row in lanes.tolist()]
    count, ranges = len(keys[0]), len(bounds[0])
    for i in range(ranges):
        low, high = numbers[count + i], numbers[count + ranges - 1 - i]
        inside = [k for k in range(count) if low <= numbers[k] <= high]
        assert list(range(starts[i], ends[i])) == inside


def test_a_bound_that_is_not_known_leaves_out_nothing() -> None:
    keys = [pa.array([1, 1, 2, 3, 3]), pa.array(["a", "x", "m", "a", "x"])]
    lower = [pa.array([1, 2, None, 3]), pa.array(["x", None, "z", "b"])]
    upper = [pa.array([2, 3, 1, None]), pa.array(["l", None, None, "a"])]
    starts, ends = slices_in_ranges(keys, lower, upper)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [
        (1, 2),
        (2, 5),
        (0, 2),
        (4, 5),
    ]


def test_no_ranges_have_no_slices() -> None:
    none = pa.array([], pa.int64())
    starts, ends = slices_in_ranges([pa.array([1, 2])], [none], [none])
    assert (len(starts), len(ends)) == (0, 0)
