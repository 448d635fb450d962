"""The time that commits and leases go by: a component, so that tests can turn it."""

from __future__ import annotations

import time
from typing import Protocol

from widetable.runtime.machine_clock import now_nanos


class Clock(Protocol):
    """What `SystemClock` does; tests give another one."""

    def now_nanos(self) -> int:
        """Wall clock, since the epoch."""
        ...

    def monotonic_millis(self) -> float:
        """For durations only."""
        ...

    def sleep_millis(self, millis: float) -> None:
        """Wait between two attempts; a test's clock returns at once and moves on."""
        ...


class SystemClock:
    """The machine's."""

    def now_nanos(self) -> int:
        return now_nanos()

    def monotonic_millis(self) -> float:
        return time.monotonic() * 1000

    def sleep_millis(self, millis: float) -> None:
        time.sleep(millis / 1000)
