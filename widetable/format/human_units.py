"""Format sizes, times and durations for people. Pure.

bytes          0 B, 1023 B, 1.5 KiB, 12.0 MiB      powers of 1024, as options mean kb, mb, ..
milliseconds   250 ms, 1.5 s, 3 min, 2 h 5 min, 4 d 1 h
times          2026-01-31 08:00:00 UTC, without `UTC` where the zone is unknown
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP: Final = 1024


def size_text(size_bytes: int) -> str:
    """Write a number of bytes for people.

    Parameters
    ----------
    size_bytes : int
        The number of bytes.

    Returns
    -------
    str
        The size in the largest unit that is not above it, with one decimal.
    """
    if abs(size_bytes) < _STEP:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in _UNITS:
        size /= _STEP
        if abs(size) < _STEP - 0.05:  # it would be shown as 1024.0
            return f"{size:.1f} {unit}"
    return f"{size:.1f} {_UNITS[-1]}"


def duration_text(millis: int) -> str:
    """Write a duration for people.

    Parameters
    ----------
    millis : int
        Milliseconds.

    Returns
    -------
    str
        The duration in its two largest units.
    """
    if millis < 0:
        return f"-{duration_text(-millis)}"
    if millis < 1000:
        return f"{millis} ms"
    if millis < 60_000:
        return f"{millis / 1000:g} s"
    minutes = millis // 60_000
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = ((days, "d"), (hours, "h"), (minutes, "min"))
    first = next(at for at, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def last_seen_text(silent_millis: int) -> str:
    """Write for people how long a process has been silent.

    Parameters
    ----------
    silent_millis : int
        Milliseconds.

    Returns
    -------
    str
        The text.
    """
    return f"last seen {duration_text(silent_millis)} ago"


def time_text(millis: int, *, is_utc: bool = True) -> str:
    """Write a time for people.

    Parameters
    ----------
    millis : int
        Epoch milliseconds.
    is_utc : bool, default True
        False: the wall clock of an unknown zone.

    Returns
    -------
    str
        The text.
    """
    try:
        moment = datetime.fromtimestamp(millis / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{millis} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (" UTC" if is_utc else "")


def exact_time_text(millis: int) -> str:
    """Format like `time_text`, with the epoch milliseconds, for times that users pass to a call."""
    return f"{time_text(millis)} ({millis} in epoch milliseconds)"
