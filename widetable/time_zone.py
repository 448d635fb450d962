"""Time zones by name. UTC is known everywhere; other zones need a zone database (the system's, or the package tzdata).

A slim image has none. There `zone_of` knows UTC only, and `is_refuted` refuses no name: nobody can
tell a wrong one. Raises nothing.
"""

from __future__ import annotations

from datetime import timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

# Names of UTC that Java's ZoneId and the database know.
_UTC: Final = frozenset(("UTC", "Etc/UTC", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT"))


def zone_of(name: str) -> tzinfo | None:
    """None for a zone that this machine does not know."""
    if name in _UTC:
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def is_refuted(name: str) -> bool:
    """Whether there is a zone database here, and it has no such zone."""
    return zone_of(name) is None and bool(available_timezones())
