"""Cuts of sorted runs against comparisons of tuples in Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from widetable.kernels.run_cut import first_disorder, rows_before_cut

KEYS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2**64 - 1]))


def laid_out(
    runs: list[list[tuple[int, int]]],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    keys = [key for run in runs for key in run]
    return np.array(keys, np.uint64).reshape(-1, 2), np.cumsum([0, *map(len, runs)])


@given(st.lists(st.lists(KEYS, max_size=6).map(sorted), min_size=1, max_size=4), st.data())
def test_rows_before_cut(runs: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    more = [bool(run) and data.draw(st.booleans()) for run in runs]
    lanes, offsets = laid_out(runs)
    last_keys = [run[-1] for run, goes_on in zip(runs, more, strict=True) if goes_on]
    cut = min(last_keys, default=(2**64, 0))
    found = rows_before_cut(lanes, offsets, np.array(more))
    assert found.tolist() == [sum(key < cut for key in run) for run in runs]


@given(st.lists(st.lists(KEYS, max_size=6), min_size=1, max_size=4))
def test_first_disorder(runs: list[list[tuple[int, int]]]) -> None:
    lanes, offsets = laid_out(runs)
    wrong = [
        offsets[i] + row
        for i, run in enumerate(runs)
        for row in range(1, len(run))
        if run[row] < run[row - 1]
    ]
    assert first_disorder(lanes, offsets) == (wrong[0] if wrong else -1)
