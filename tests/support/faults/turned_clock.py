"""A clock that can be turned: what a machine with a wrong time shows."""

from __future__ import annotations

from dataclasses import dataclass

from widetable.commit.notes.clock import SystemClock

MINUTE_MILLIS = 60_000
YEAR_MILLIS = 365 * 86_400_000


@dataclass
class TurnedClock(SystemClock):
    """ahead_millis: of the real time; below 0: behind it."""

    ahead_millis: int = 0

    def now_nanos(self) -> int:
        return super().now_nanos() + self.ahead_millis * 1_000_000

    @property
    def now_millis(self) -> int:
        return self.now_nanos() // 1_000_000
