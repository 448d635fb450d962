"""Gathering from two arrays gives what picking Python values one by one gives, for every type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models.plain_rows import python_values
from tests.support.models.strategies import ORDERED, UNORDERED
from widetable.kernels.patched_take import PatchChoice, take_patched

TYPES = {**ORDERED, **UNORDERED, pa.int8(): st.integers(-128, 127), pa.float32(): st.just(0.5)}


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(data=st.data())
def test_take_patched(kind: pa.DataType, data: st.DataObject) -> None:
    values: st.SearchStrategy[Any] = TYPES[kind]
    column = st.lists(data.draw(st.sampled_from([values, st.none() | values])), max_size=20)
    large, rest = data.draw(column), data.draw(column)
    positions = data.draw(
        st.lists(st.integers(-1, len(large) + len(rest) - 1), max_size=30 if large else 0)
    )
    skip = data.draw(st.integers(0, 9))  # arrays that do not start at a byte of their bitmaps
    arrays = [pa.array([None] * skip + side, kind).slice(skip) for side in (large, rest)]
    found = take_patched(
        arrays[0],
        arrays[1] if rest else None,
        PatchChoice(np.array(positions, np.int64), len(large)),
    )
    found.validate(full=True)
    both = python_values(arrays[0]) + python_values(arrays[1])
    assert found.type == kind
    assert repr(python_values(found)) == repr([None if p < 0 else both[p] for p in positions])


def test_consecutive_rows_are_a_slice() -> None:
    large = pa.array(range(100))
    found = take_patched(large, None, PatchChoice(np.arange(10, 60), 100))
    assert found.to_pylist() == list(range(10, 60))
    assert found.buffers()[1].address == large.buffers()[1].address


def test_shared_validity_of_missing_rows() -> None:
    choice = PatchChoice(np.array([0, -1, 2, 3, -1]), 3)
    columns = [take_patched(pa.array([1, 2, 3]), pa.array([4]), choice) for _ in range(2)]
    assert [column.to_pylist() for column in columns] == [[1, None, 3, 4, None]] * 2
    assert columns[0].null_count == 2
    assert columns[0].buffers()[0].address == columns[1].buffers()[0].address


def test_what_lies_behind_a_null_is_zero() -> None:
    found = take_patched(pa.array([7, 8]), None, PatchChoice(np.array([-1, 1]), 2))
    assert np.frombuffer(found.buffers()[1], np.int64).tolist() == [0, 8]
