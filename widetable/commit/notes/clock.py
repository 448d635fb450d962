"""The clock of commits and leases: a component that tests can replace."""

from __future__ import annotations

import time
from typing import Protocol

from widetable.runtime.machine_clock import now_nanos


class Clock(Protocol):
    """The interface of `SystemClock`; tests pass their own."""

    def now_nanos(self) -> int:
        """Return the wall clock time since the epoch."""
        ...

    def monotonic_millis(self) -> float:
        """Return a monotonic time, for durations only."""
        ...

    def sleep_millis(self, millis: float) -> None:
        """Wait between two attempts; a test's clock advances and returns at once."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_nanos(self) -> int:
        return now_nanos()

    def monotonic_millis(self) -> float:
        return time.monotonic() * 1000

    def sleep_millis(self, millis: float) -> None:
        time.sleep(millis / 1000)
