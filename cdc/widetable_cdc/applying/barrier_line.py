"""Which barrier a round belongs to, and which barriers are complete. Pure: the clock is an argument.

    LsnLine      a table of the job alone: the LSN of a round is its barrier, and the round completes it
    ClockLine    a table that other streams fill or are read with: the barrier is that of the clock

    ClockLine, barriers every 10            a round belongs to     then complete
    clock 47, completed 30                  40                     40, at any time behind the round
    clock 48, completed 40                  50                     nothing before the clock is at 50
    the job ends there                      -                      50: nothing follows that could belong to it

A transaction that changed several tables must have one barrier in all of them. A job that was killed may have committed
its last round to some of its tables only. Those that have it say at which LSN it ended, and which barrier it had. A job
that starts again gives both to the others: rounds up to that LSN belong to that barrier, and no barrier is completed
before. Earlier rounds are in all tables, because a round begins when the one before is in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class BarrierLine(Protocol):
    """The numbers that the barriers of a target are."""

    @property
    def open_barrier(self) -> int:
        """A barrier that a writer has surely completed: records for it go to the first one that is open."""

    @property
    def completes_rounds(self) -> bool:
        """Whether the end of a round completes its barrier."""

    def of_round(self, lsn: int) -> int:
        """Return the barrier of the round that ends at an LSN."""


@dataclass(frozen=True)
class LsnLine:
    """Positions of the log, for a table under barriers of 1 ms."""

    open_barrier: int = 1
    completes_rounds: bool = True

    def of_round(self, lsn: int) -> int:
        """Return the LSN."""
        return lsn


@dataclass
class ClockLine:
    """Moments of the clock, for all targets of a job whose barriers are `interval_millis` apart.

    now_millis: reads the clock. completed: the latest barrier that any of the targets has completed. last_lsn,
    last_barrier: the end of the last round that any of them has, and its barrier.
    """

    interval_millis: int
    now_millis: Callable[[], int]
    completed: int = 0
    last_lsn: int = 0
    last_barrier: int = 0

    @property
    def open_barrier(self) -> int:
        """The first barrier of all."""
        return self.interval_millis

    @property
    def completes_rounds(self) -> bool:
        """No: other rounds may belong to the same barrier."""
        return False

    def join(self, lsn: int, completed: int, last_barrier: int) -> None:
        """Take in what a target has: its position, the last complete barrier, and that of its last rows."""
        self.completed = max(self.completed, completed)
        if lsn > self.last_lsn:
            self.last_lsn, self.last_barrier = lsn, last_barrier

    def of_round(self, lsn: int) -> int:
        """Return the barrier of the round that ends at an LSN; for all targets of a round the same."""
        if lsn > self.last_lsn:
            open_barrier = self.completed + self.interval_millis
            self.last_barrier = max(self._tick(), open_barrier, self.last_barrier)
            self.last_lsn = lsn
        return self.last_barrier

    def unfinished(self, lsn: int) -> int | None:
        """Return where the round ended that some targets may lack; None if the log is confirmed up to there."""
        return self.last_lsn if self.last_lsn > lsn else None

    def due(self, lsn: int, *, ends: bool = False) -> int | None:
        """Return the barrier that all targets may complete when the log is confirmed up to an LSN; None if none.

        ends: the job ends, so no later round belongs to the barrier of the last one.
        """
        if self.unfinished(lsn) is not None:
            return None
        barrier = self._tick()
        if ends:
            # Also what is completed: a target whose copy has just ended may lack it.
            return max(barrier, self.last_barrier, self.completed)
        return barrier if barrier > self.completed else None

    def _tick(self) -> int:
        return self.now_millis() // self.interval_millis * self.interval_millis
