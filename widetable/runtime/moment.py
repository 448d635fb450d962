"""A moment that a caller gives: epoch milliseconds, a datetime, or an ISO text.

    1764237600000                    epoch milliseconds; a text of digits has the same meaning
    "2026-11-27"                     midnight at the start of the day
    "2026-11-27T10:00"               with T or a blank; seconds and their fractions are optional (`time_text`)
    "2026-11-27 10:00:00 UTC"        the form in which this project shows times; also Z, +01:00, +0100

A text or a datetime without a zone is local time. Times are rounded down to the millisecond, before 1970 too. A number
means milliseconds whatever its size: seconds would give a moment in January 1970. Raises InvalidError.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from widetable.arguments import refused, text, whole_number
from widetable.runtime.time_text import MOMENT, parts_of

Moment = int | str | datetime
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EXPECTED: Final = "epoch milliseconds, a datetime, or an ISO time such as 2026-11-27T10:00, of the years 1 to 9999"
_NUMBER: Final = re.compile(r"-?\d+", re.ASCII)


def epoch_millis(value: Any, name: str) -> int:
    """Check a moment.

    Parameters
    ----------
    value : any
        Epoch milliseconds, a datetime or an ISO text.
    name
        As in `text`.

    Returns
    -------
    int
        Epoch milliseconds.

    Raises
    ------
    InvalidError
        The value is no moment.
    """
    try:
        if isinstance(value, str):
            plain = text(value, name).strip()
            if _NUMBER.fullmatch(plain):
                return whole_number(int(plain), name)
            return _millis(_parsed(plain))
        if isinstance(value, datetime):
            # A pandas.Timestamp is a datetime with arithmetic of its own, and pandas.NaT is an instance of datetime.
            return _millis(datetime.combine(value.date(), value.time(), value.tzinfo))
    except (ValueError, OverflowError, OSError):  # outside of the calendar, or not a time
        raise refused(value, name, _EXPECTED) from None
    return whole_number(value, name)


def _millis(moment: datetime) -> int:
    return (moment.astimezone(timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def _parsed(iso: str) -> datetime:
    """Parse an ISO text. Raises ValueError for another form, and for a day or an hour that does not exist."""
    parts = parts_of(iso, MOMENT)
    ahead = parts.zone_seconds
    zone = None if ahead is None else timezone(timedelta(seconds=ahead))
    of_day = timedelta(seconds=parts.second, microseconds=parts.nanos // 1000)
    return datetime(parts.year, parts.month, parts.day, tzinfo=zone) + of_day
