"""Winners of groups against a loop in Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.last_valid import last_valid_index


@st.composite
def grouped(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 5), max_size=8))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(starts[-1])
    order = np.array(draw(st.permutations(range(rows))), np.int64)
    valid = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
    return order, starts, valid


def slow(order: np.ndarray, starts: np.ndarray, valid: np.ndarray) -> list[int]:
    found = []
    for group in range(len(starts) - 1):
        rows = [int(row) for row in order[starts[group] : starts[group + 1]] if valid[row]]
        found.append(rows[-1] if rows else -1)
    return found


@given(grouped())
def test_last_valid_index(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    assert last_valid_index(*case).tolist() == slow(*case)
