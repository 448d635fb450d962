"""Sequence numbers of the rows that one writer task writes (docs/decisions/0004-sequence-numbers.md).

In: a base that all tasks of a commit share, the task's number and the number of tasks. Out: one int64 per row,
ascending within a task, and distinct between tasks. Row i of task t gets

    base + (((i >> 20) * tasks + t) << 20) + (i & 0xFFFFF)

so tasks alternate in blocks of 2^20 numbers. If the number of tasks is unknown (Spark), groups of 2^14 tasks
alternate, each group from its own base, which is (t >> 14) << 46 higher; this leaves 2^32 rows for each task.
Raises InvalidError for a task that is not below the number of tasks, when the numbers would exceed 2^63 - 1 or the
range of the task, and for a clock so far ahead that no numbers would be left for other writers.

Three tasks of one commit, base 1000, B = 2^20:

    task 0     1000 + 0 * B ..    after B rows     1000 + 3 * B ..
    task 1     1000 + 1 * B ..                     1000 + 4 * B ..
    task 2     1000 + 2 * B ..                     1000 + 5 * B ..

The numbers order records of equal keys, so a commit that starts after another was published must
begin above it: hence the noted number. Of two concurrent commits either may be the newer one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from widetable.errors import InvalidError

BLOCK_BITS: Final = 20
_BLOCK_MASK: Final = (1 << BLOCK_BITS) - 1
# For an unknown number of tasks: those of a group, and the rows of a task.
_TASKS_IN_TURN_BITS: Final = 14
_MAX_ROWS_BITS: Final = 32
LARGEST: Final = (1 << 63) - 1
# The range over which concurrent writers spread their bases while the noted number is ahead of the clock.
START_SPREAD: Final = 1 << 20
# In the year 2116: half of all numbers are larger.
_LAST_CLOCK: Final = 1 << 62


def first_number(clock_nanos: int, noted: int, spread: int) -> int:
    """Return the base of a commit that starts now. noted: the highest number of the table; spread: below START_SPREAD.

        clock 100, noted 50    100                   usual: the clock is ahead
        clock 100, noted 300   301 + spread          a writer's clock was ahead, or it wrote very many rows

    Without the spread all writers that start with the same noted number would have the same base.
    """
    if clock_nanos > _LAST_CLOCK:
        raise InvalidError(
            "clock of this machine",
            found=f"{clock_nanos} nanoseconds since 1970",
            expected="a time before the year 2116: sequence numbers start from it, and never decrease",
            action="Set the clock, then write again.",
        )
    return clock_nanos if clock_nanos > noted else noted + 1 + spread


class SequenceAllocator:
    """Assigns the numbers of a task's rows, in the order of the calls. Not thread-safe: one writer owns it.

    tasks: None if their number is unknown.
    """

    def __init__(self, base: int, task: int = 0, tasks: int | None = 1) -> None:
        if task < 0 or (tasks is not None and task >= tasks):
            raise InvalidError(
                "sequence numbers",
                found=f"task {task} of {tasks}",
                expected="a task from 0 to tasks - 1",
                action="Assign each writer of a commit its own number below the number of writers.",
            )
        self._next_row = 0
        self._most_rows: int | None = None
        if tasks is None:
            apart_bits = _MAX_ROWS_BITS + _TASKS_IN_TURN_BITS
            base += (task >> _TASKS_IN_TURN_BITS) << apart_bits
            tasks = 1 << _TASKS_IN_TURN_BITS
            task %= tasks
            self._most_rows = 1 << _MAX_ROWS_BITS
        self._base, self._task, self._tasks = base, task, tasks

    def take(self, rows: int) -> npt.NDArray[np.int64]:
        """Return the numbers of the next `rows` rows, int64[rows], ascending.

        The range is checked first, so an error uses up no number. Raises InvalidError if the numbers
        are exhausted.
        """
        if not rows:
            return np.empty(0, np.int64)
        if self._most_rows is not None and self._next_row + rows > self._most_rows:
            raise InvalidError(
                "sequence numbers",
                found=f"{rows} more rows after {self._next_row} of one task",
                expected=f"at most {self._most_rows} rows in a task",
                action="Repartition the data, so that a task has fewer rows.",
            )
        if self._number(self._next_row + rows - 1) > LARGEST:
            raise InvalidError(
                "sequence numbers",
                found=f"{rows} more rows after {self._number(self._next_row)}",
                expected="numbers up to 2^63 - 1",
                action="Check the clock and the sequence numbers that other clients wrote to this table.",
            )
        index = np.arange(self._next_row, self._next_row + rows, dtype=np.int64)
        self._next_row += rows
        blocks = (index >> BLOCK_BITS) * self._tasks + self._task
        return self._base + (blocks << BLOCK_BITS) + (index & _BLOCK_MASK)

    def _number(self, row: int) -> int:
        block = (row >> BLOCK_BITS) * self._tasks + self._task
        return self._base + (block << BLOCK_BITS) + (row & _BLOCK_MASK)
