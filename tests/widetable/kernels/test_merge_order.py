"""Sort and merge orders against Python's sort of (lanes, sequence, row)."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.merge_order import merge_order
from widetable.kernels.sort_order import group_starts, sort_order


def slow_order(lanes: np.ndarray, sequence: np.ndarray) -> list[int]:
    keys = [(*lane, seq) for lane, seq in zip(lanes.tolist(), sequence.tolist(), strict=True)]
    return sorted(range(len(keys)), key=lambda row: (keys[row], row))


def slow_starts(lanes: np.ndarray, order: list[int]) -> list[int]:
    rows = [lanes[row].tolist() for row in order]
    return [i for i in range(len(rows)) if i == 0 or rows[i] != rows[i - 1]] + [len(rows)]


def random_rows(
    rng: np.random.Generator, rows: int, width: int, distinct: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lanes of few distinct values over the whole range of uint64, sequences in any order."""
    values = rng.integers(0, 2**64 - 1, (width, distinct), dtype=np.uint64, endpoint=True)
    picks = rng.integers(0, distinct, (rows, width))
    lanes = np.stack([values[i][picks[:, i]] for i in range(width)], axis=1)
    return np.ascontiguousarray(lanes), rng.integers(-5, 5, rows)


def sorted_runs(
    rng: np.random.Generator, sizes: list[int], width: int, distinct: int, rising: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs in order; `rising`: no run has a lower sequence than one before it."""
    lanes, sequence = random_rows(rng, sum(sizes), width, distinct)
    sequence = np.sort(sequence) if rising else sequence
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    for start, end in itertools.pairwise(offsets):
        order = slow_order(lanes[start:end], sequence[start:end])
        lanes[start:end] = lanes[start:end][order]
        sequence[start:end] = sequence[start:end][order]
    return lanes, sequence, offsets


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(0, 300), st.integers(1, 4), st.sampled_from([1, 2, 5, 1000]))
def test_sort_order(seed: int, rows: int, width: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    lanes, sequence = random_rows(rng, rows, width, distinct)
    order = sort_order(lanes, sequence)
    assert order.dtype == np.int64
    assert order.tolist() == slow_order(lanes, sequence)


@given(
    SEEDS,
    st.lists(st.integers(0, 120), min_size=1, max_size=9),
    st.integers(1, 3),
    st.sampled_from([1, 2, 5, 1000]),
    st.booleans(),
)
def test_merge_order(seed: int, sizes: list[int], width: int, distinct: int, rising: bool) -> None:
    rng = np.random.default_rng(seed)
    lanes, sequence, offsets = sorted_runs(rng, sizes, width, distinct, rising)
    order = merge_order(lanes, sequence, offsets)
    assert order.dtype == np.int64
    assert order.tolist() == slow_order(lanes, sequence)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("sizes", [[3000, 5, 2000], [1] * 64, [100] * 64, [0, 0], [4000, 4000]])
def test_merge_order_of_long_and_many_runs(sizes: list[int], width: int) -> None:
    for distinct, rising in itertools.product((3, 10_000), (False, True)):
        rng = np.random.default_rng(7)
        lanes, sequence, offsets = sorted_runs(rng, sizes, width, distinct, rising)
        assert merge_order(lanes, sequence, offsets).tolist() == slow_order(lanes, sequence)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("left_first", [True, False])
def test_runs_that_do_not_overlap(left_first: bool, width: int) -> None:
    rising = np.arange(500, dtype=np.uint64)
    parts = [rising, rising + np.uint64(500)]
    keys = np.concatenate(parts if left_first else parts[::-1])
    lanes = np.repeat(keys, width).reshape(-1, width)
    order = merge_order(lanes, np.zeros(1000, np.int64), np.array([0, 500, 1000]))
    assert lanes[order, 0].tolist() == list(range(1000))


def test_equal_rows_keep_the_order_of_their_runs() -> None:
    lanes = np.zeros((6, 1), np.uint64)
    order = merge_order(lanes, np.zeros(6, np.int64), np.array([0, 2, 2, 5, 6]))
    assert order.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_lower_sequence_in_a_later_run_comes_first() -> None:
    lanes = np.zeros((3, 2), np.uint64)
    order = merge_order(lanes, np.array([5, 6, 4]), np.array([0, 2, 3]))
    assert order.tolist() == [2, 0, 1]


@pytest.mark.parametrize("width", [1, 2])
def test_a_run_that_is_not_in_order_is_refused(width: int) -> None:
    lanes = np.repeat(np.arange(100, dtype=np.uint64), width).reshape(-1, width)
    offsets, sequence = np.array([0, 50, 100]), np.zeros(100, np.int64)
    merge_order(lanes, sequence, offsets)
    lanes[70, 0] = 68
    with pytest.raises(ValueError, match="row 20 of run 1"):
        merge_order(lanes, sequence, offsets)
    with pytest.raises(ValueError, match="row 1 of run 0"):
        merge_order(lanes * np.uint64(0), -np.arange(100), offsets)


def test_large_ties_on_the_first_lane() -> None:
    rng = np.random.default_rng(3)
    lanes, sequence = random_rows(rng, 20_000, 3, 2)
    assert sort_order(lanes, sequence).tolist() == slow_order(lanes, sequence)


def test_nothing_to_order() -> None:
    lanes, sequence = np.zeros((0, 1), np.uint64), np.zeros(0, np.int64)
    assert sort_order(lanes, sequence).tolist() == []
    assert merge_order(lanes, sequence, np.zeros(1, np.int64)).tolist() == []
    assert merge_order(lanes, sequence, np.zeros(3, np.int64)).tolist() == []
    assert group_starts(lanes, np.zeros(0, np.int64)).tolist() == [0]


@given(SEEDS, st.integers(1, 60), st.integers(1, 3), st.sampled_from([1, 3, 50]))
def test_group_starts(seed: int, rows: int, width: int, distinct: int) -> None:
    lanes, sequence = random_rows(np.random.default_rng(seed), rows, width, distinct)
    order = sort_order(lanes, sequence)
    starts = group_starts(lanes, order)
    assert starts.dtype == np.int64
    assert starts.tolist() == slow_starts(lanes, order.tolist())
