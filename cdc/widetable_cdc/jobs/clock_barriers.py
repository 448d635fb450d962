"""The barriers of a job's targets that are moments of the clock: one line for all targets of one interval.

    opened     a target takes the line of its interval, and `join` brings what it has
    round      its targets ask the line for the barrier: the first one decides, the others get the same
    behind it  every target of the line completes the clock's barrier, those that the round did not touch as well

A target that is still copied completes nothing. It takes the line's barrier with the next one, or when the job ends.
Raises what commits raise, ConflictError for another process of the job among them.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable import Table
from widetable.connector import now_millis
from widetable_cdc.applying.barrier_line import ClockLine
from widetable_cdc.jobs.captured_table import CapturedTable


class ClockBarriers:
    """The lines of a job. user: its name as a writer."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._lines: dict[int, ClockLine] = {}

    def line(self, interval_millis: int) -> ClockLine:
        """Return the line of all targets with that interval."""
        return self._lines.setdefault(interval_millis, ClockLine(interval_millis, now_millis))

    def join(self, table: CapturedTable) -> None:
        """Take in what a table that was opened has, if its barriers are those of the clock."""
        if table.clock is not None:
            completed, last = _standing(table.target.table, self._user)
            table.clock.join(table.position, completed, last)

    def unfinished(self, position: int) -> int | None:
        """Return the LSN at which the next round must end; None if any will do. position: confirmed up to there."""
        ends = [line.unfinished(position) for line in self._lines.values()]
        return min((end for end in ends if end is not None), default=None)

    def complete(
        self, tables: Iterable[CapturedTable], position: int, *, ends: bool = False
    ) -> None:
        """Complete the clock's barrier in all tables, if the log is confirmed up to a position."""
        followed = [table for table in tables if table.plan is None]
        for line in self._lines.values():
            barrier = line.due(position, ends=ends)
            if barrier is None:
                continue
            for table in followed:
                if table.clock is line:
                    table.target.complete(barrier)
            line.completed = barrier


def _standing(target: Table, user: str) -> tuple[int, int]:
    """Return the barrier up to which a target is complete, and that of the last rows of the job."""
    for writer in target.inspect.barriers().to_pylist():
        if writer["writer"] == user:
            return int(writer["complete_barrier"]), int(writer["last_barrier"])
    return 0, 0
