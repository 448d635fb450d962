"""Sequence numbers: one per row, growing, never shared between tasks, and exactly those of the decision's formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.errors import InvalidError
from widetable.write.sequence import SequenceAllocator

BASE = 1_795_000_000_000_000_000


def formula(base: int, task: int, tasks: int, row: int) -> int:
    return base + (((row >> 20) * tasks + task) << 20) + (row & 0xFFFFF)


@given(
    base=st.integers(0, 1 << 62),
    tasks=st.integers(1, 50),
    task=st.integers(0, 49),
    takes=st.lists(st.sampled_from([0, 1, 7, 1000, (1 << 20) - 1, 1 << 20]), max_size=5),
)
def test_numbers_follow_the_formula(base: int, tasks: int, task: int, takes: list[int]) -> None:
    task %= tasks
    allocator = SequenceAllocator(base, task, tasks)
    row = 0
    for rows in takes:
        numbers = allocator.take(rows)
        assert numbers.dtype == np.int64
        assert len(numbers) == rows
        for at in {0, rows // 2, rows - 1} if rows else ():
            assert numbers[at] == formula(base, task, tasks, row + at)
        row += rows


@given(st.integers(1, 6), st.lists(st.integers(0, 3_000_000), min_size=1, max_size=6))
def test_tasks_never_share_a_number(tasks: int, rows_of_tasks: list[int]) -> None:
    taken = [
        SequenceAllocator(BASE, task, tasks).take(rows)
        for task, rows in zip(range(tasks), rows_of_tasks, strict=False)
    ]
    numbers = np.concatenate(taken)
    numbers.sort()
    assert (np.diff(numbers) > 0).all()
    for own in taken:
        assert (np.diff(own) > 0).all()


def test_a_task_outside_of_the_tasks_is_refused() -> None:
    with pytest.raises(InvalidError):
        SequenceAllocator(BASE, 2, 2)


def test_numbers_that_would_overflow_are_refused() -> None:
    allocator = SequenceAllocator((1 << 63) - 3)
    assert list(allocator.take(2)) == [(1 << 63) - 3, (1 << 63) - 2]
    assert list(allocator.take(1)) == [(1 << 63) - 1]
    with pytest.raises(InvalidError):
        allocator.take(1)
