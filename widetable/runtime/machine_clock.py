"""The wall clock of this machine. Python supports no time after the year 2262: `time.time` raises OverflowError there.

Raises InvalidError for such a clock.
"""

from __future__ import annotations

import time

from widetable.errors import InvalidError


def now_nanos() -> int:
    """Return the nanoseconds since the epoch."""
    try:
        return time.time_ns()
    except OverflowError as cause:
        raise InvalidError(
            "clock of this machine",
            found=f"a time that does not fit into 64 bits ({cause})",
            expected="a time before the year 2116",
            action="Set the clock.",
        ) from cause


def now_millis() -> int:
    """Read the clock of the machine.

    Returns
    -------
    int
        Milliseconds since the epoch.
    """
    return now_nanos() // 1_000_000
