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


# Any, and those where ranges meet.
TASKS = st.integers(0, 1 << 22) | st.sampled_from([0, 1, (1 << 14) - 1, 1 << 14, 1 << 15])
ROWS = st.integers(0, (1 << 32) - 1) | st.sampled_from([0, (1 << 20) - 1, 1 << 20, (1 << 32) - 1])


@given(first=TASKS, second=TASKS, first_row=ROWS, second_row=ROWS)
def test_tasks_of_an_unknown_number_never_share_a_number(
    first: int, second: int, first_row: int, second_row: int
) -> None:
    """Spark's partition ids may be any."""
    numbers = [number_of(first, first_row), number_of(second, second_row)]
    assert (numbers[0] == numbers[1]) == ((first, first_row) == (second, second_row))
    assert min(numbers) >= BASE
    assert max(numbers) < BASE + (1 << 55)


def number_of(task: int, row: int) -> int:
    """Of one row, without those before."""
    allocator = SequenceAllocator(BASE, task, None)
    allocator._next_row = row
    return int(allocator.take(1)[0])


def test_few_tasks_of_an_unknown_number_stay_near_the_clock() -> None:
    assert number_of(0, 0) == BASE
    assert number_of(16_383, (1 << 20) - 1) < BASE + (1 << 34)


def test_a_task_of_an_unknown_number_has_room_for_so_many_rows() -> None:
    allocator = SequenceAllocator(BASE, 70_000, None)
    allocator._next_row = (1 << 32) - 1
    assert len(allocator.take(1)) == 1
    with pytest.raises(InvalidError, match="Repartition"):
        allocator.take(1)


@pytest.mark.parametrize("task", [1 << 30, (1 << 31) - 1, 1 << 31, 1 << 33])
def test_a_task_too_many_gets_no_numbers_and_no_rows_need_none(task: int) -> None:
    allocator = SequenceAllocator(1 << 62, task, None)
    assert allocator.take(0).tolist() == []
    with pytest.raises(InvalidError):
        allocator.take(1)


def test_a_task_outside_of_the_tasks_is_refused() -> None:
    with pytest.raises(InvalidError):
        SequenceAllocator(BASE, 2, 2)


def test_numbers_that_would_overflow_are_refused() -> None:
    allocator = SequenceAllocator((1 << 63) - 3)
    assert list(allocator.take(2)) == [(1 << 63) - 3, (1 << 63) - 2]
    assert list(allocator.take(1)) == [(1 << 63) - 1]
    with pytest.raises(InvalidError):
        allocator.take(1)
