"""Compute the offsets of a time zone from UTC, for many times at once.

In: seconds since 1970 and the name of a zone of the tz database, "" for that of the process. Out: seconds. Offsets are
those of Python's zoneinfo, not of Arrow, which has no summer time after 2037. The offset is looked up for each day that
occurs, and where it changes within a day, the second is searched: no zone has two changes within a day. Beyond
Python's years, the rules of 400 years earlier apply, because the calendar repeats after them.
Raises UnsupportedError for a zone that this machine does not have.

Berlin, when summer time begins: 2024-03-31 00:59:59 UTC is 3,600 seconds ahead, 01:00:00 is
7,200; and so is the 1st of July 2424. The cost is two lookups per day that occurs, some 17 more on
a day of change, none per value.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.errors import UnsupportedError
from widetable.schema.time_zone import zone_of

Seconds: TypeAlias = npt.NDArray[np.int64]

_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
# A day within both ends of Python's years, because a clock may be a day ahead or behind.
_FIRST: Final = (datetime(1, 1, 3, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
_LAST: Final = (datetime(9999, 12, 29, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)
_CYCLE: Final = 146_097 * _DAY


def zone_offsets(seconds: Seconds, zone: str, subject: str) -> Seconds:
    """Return the offset of each time. subject: the column of the times, for messages."""
    if zone == "UTC" or not len(seconds):
        return np.zeros(len(seconds), np.int64)
    offset = _offset_of(zone, subject)
    excess = np.maximum(seconds - _LAST, 0)
    seconds = np.maximum(seconds - (excess + _CYCLE - 1) // _CYCLE * _CYCLE, _FIRST)
    starts, offsets = list[int](), list[int]()
    for day in np.unique(seconds // _DAY).tolist():
        for start, value in _within(day * _DAY, offset):
            if not offsets or value != offsets[-1]:
                starts.append(start)
                offsets.append(value)
    which = np.searchsorted(np.array(starts, np.int64), seconds, "right") - 1
    return np.array(offsets, np.int64)[which]


def unknown_zone(zone: str, subject: str) -> UnsupportedError:
    """Return the error for times of an unknown zone. zone: its name."""
    return UnsupportedError(
        subject,
        found=f"times of the zone {zone!r}, which this machine does not know",
        expected="a zone of the tz database",
        action="Install the tz database (the package tzdata), or read the table with another client.",
    )


def _within(start: int, offset: Callable[[int], int]) -> list[tuple[int, int]]:
    """Return (second, the offset from there on) for the day that begins at `start`."""
    low, high = start, start + _DAY
    before, after = offset(low), offset(high)
    if before == after:
        return [(start, before)]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == before else (low, middle)
    return [(start, before), (high, after)]


def _offset_of(name: str, subject: str) -> Callable[[int], int]:
    if not name:
        return lambda second: time.localtime(second).tm_gmtoff
    zone = zone_of(name)
    if zone is None:
        raise unknown_zone(name, subject)

    def offset(second: int) -> int:
        ahead = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
        assert ahead is not None
        return round(ahead.total_seconds())

    return offset
