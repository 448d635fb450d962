"""The wall clock of this machine. Python has none past the year 2262: `time.time` raises OverflowError there.

Raises InvalidError for such a clock, whatever asks for the time.
"""

from __future__ import annotations

import time

from widetable.errors import InvalidError


def now_nanos() -> int:
    """Since the epoch."""
    try:
        return time.time_ns()
    except OverflowError as cause:
        raise InvalidError(
            "clock of this machine",
            found=f"a time that no number of 64 bits holds ({cause})",
            expected="a time before the year 2116",
            action="Set the clock.",
        ) from cause


def now_millis() -> int:
    """Since the epoch."""
    return now_nanos() // 1_000_000
