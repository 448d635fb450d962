"""Finds time zones by name, as Java's `ZoneId` does.

UTC and offsets (`GMT-08:00`, `+09:00`) are always available; other zones need a zone database (the system's, or the
package tzdata).

A slim image has no database. There `zone_of` finds UTC and offsets only, and `is_refuted` refuses no name,
because wrong names cannot be detected. Raises nothing.
"""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

# Names of UTC in Java's ZoneId and in the database.
_UTC: Final = frozenset(("UTC", "Etc/UTC", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT", "UT"))
# `ZoneId.of`: hours alone may have one digit; minutes and seconds have two, with colons throughout or without any.
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})|(\d\d)(\d\d)(\d\d)?|(\d\d):(\d\d)(?::(\d\d))?)", re.ASCII
)
_FURTHEST: Final = timedelta(hours=18)


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone; None if this machine does not know it."""
    if name in _UTC:
        return timezone.utc
    offset = _offset(name)
    if offset is not None:
        return timezone(offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(name: str) -> timedelta | None:
    """Return the fixed offset from UTC in a name; None for other names, and for offsets that Java refuses."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    hours, minutes, seconds = (
        next((int(part) for part in parts if part is not None), 0)
        for parts in (match.group(2, 3, 6), match.group(4, 7), match.group(5, 8))
    )
    distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or distance > _FURTHEST:
        return None
    return distance if match[1] == "+" else -distance


def is_refuted(name: str) -> bool:
    """Return whether this machine has a zone database, and the database has no such zone."""
    return zone_of(name) is None and bool(available_timezones())
