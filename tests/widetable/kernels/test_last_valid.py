"""Winners of groups against a loop in Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.last_valid import last_index, last_valid_index


@st.composite
def grouped(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 5), max_size=8))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(starts[-1])
    order = np.array(draw(st.permutations(range(rows))), np.int64)
    valid = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
    floors = [
        draw(st.integers(max(0, start - 2), end))
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    return order, starts, valid, np.array(floors, np.int64)


def slow(
    order: np.ndarray, starts: np.ndarray, valid: np.ndarray, floor: np.ndarray | None
) -> list[int]:
    found = []
    for group in range(len(starts) - 1):
        lowest = starts[group] if floor is None else max(starts[group], floor[group])
        rows = [int(row) for row in order[lowest : starts[group + 1]] if valid[row]]
        found.append(rows[-1] if rows else -1)
    return found


@given(grouped())
def test_last_valid_index(case: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> None:
    order, starts, valid, floor = case
    assert last_valid_index(order, starts, valid).tolist() == slow(order, starts, valid, None)
    assert last_valid_index(order, starts, valid, floor).tolist() == slow(
        order, starts, valid, floor
    )


@given(grouped())
def test_last_index_is_that_of_all_rows(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    order, starts, valid, _ = case
    everything = np.ones_like(valid)
    assert last_index(order, starts).tolist() == slow(order, starts, everything, None)
