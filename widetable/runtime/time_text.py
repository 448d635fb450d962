"""The grammar of dates, times and time zones in texts: in filters, on the command line, in CSV and JSON, as moments.

    DAY        2024-02-29, 2024-2-9, +12024-02-29: months and days may have one digit, years up to nine and a sign
    CLOCK      10:30, 9:5:01, 10:30:00.123456789: at most nine digits of the second
    ZONE       Z, UTC, +01:00, -0530

    DATE       DAY, or eight digits: 20240229
    TIME       CLOCK
    MOMENT     DAY, then perhaps a blank or T and CLOCK, then perhaps ZONE, with or without blanks before it

The patterns are valid in Python and in Arrow. A text that matches has only parts within their ranges, except for a day
that the calendar lacks. Blanks around a text are ignored; digits are those of ASCII. The caller decides what a text
without a zone means, and how many digits of the second a type holds. No I/O.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_DAY: Final = r"(?P<year>[+-]?[0-9]{4,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_SIXTY: Final = "[0-5]?[0-9]"
_CLOCK: Final = (
    rf"(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>{_SIXTY})"
    rf"(?::(?P<second>{_SIXTY})(?:\.(?P<fraction>[0-9]{{1,9}}))?)?"
)
_ZONE: Final = (
    r"(?P<zone>Z|UTC|(?P<sign>[+-])(?P<zone_hour>[01][0-9]|2[0-3]):?(?P<zone_minute>[0-5][0-9]))"
)
DATE: Final = _DAY
TIME: Final = _CLOCK
MOMENT: Final = rf"{_DAY}(?:[ T]{_CLOCK})?(?: *{_ZONE})?"
# A date of eight digits is written as DAY before it is matched.
EIGHT_DIGITS: Final = "([0-9]{4})([0-9]{2})([0-9]{2})"
AS_DAY: Final = r"\1-\2-\3"
# Type -> the form of its texts, in words.
FORMS: Final = {
    "DATE": "a date such as 2024-02-29",
    "TIME": "a time such as 10:30:00.123",
    "TIMESTAMP": "a timestamp such as 2024-02-29 10:30:00.123, without a time zone",
    "TIMESTAMP_LTZ": "a timestamp such as 2024-02-29 10:30:00.123+00:00, in UTC without a time zone",
}
_BLANKS: Final = " \t\n\v\f\r"


class TimeParts(NamedTuple):
    """The numbers of a text. second: of the day. zone_seconds: how far the zone is ahead of UTC; None without one."""

    year: int
    month: int
    day: int
    second: int
    nanos: int
    zone_seconds: int | None


def parts_of(text: str, pattern: str) -> TimeParts:
    """Return the numbers of one text. pattern: DATE, TIME or MOMENT. Raises ValueError for a text of another form; the
    calendar may lack the day.
    """
    plain = text.strip(_BLANKS)
    if pattern is DATE:
        plain = re.sub(rf"\A{EIGHT_DIGITS}\Z", AS_DAY, plain)
    match = re.fullmatch(pattern, plain)
    if match is None:
        raise ValueError(text)
    parts = {name: part or "0" for name, part in match.groupdict().items()}
    numbers = {name: int(part) for name, part in parts.items() if name not in ("zone", "sign")}

    def seconds(hour: str, minute: str) -> int:
        return (numbers.get(hour, 0) * 60 + numbers.get(minute, 0)) * 60

    zone_seconds = None
    if parts.get("zone", "0") != "0":
        zone_seconds = seconds("zone_hour", "zone_minute") * (-1 if parts["sign"] == "-" else 1)
    return TimeParts(
        numbers.get("year", 1970),
        numbers.get("month", 1),
        numbers.get("day", 1),
        seconds("hour", "minute") + numbers.get("second", 0),
        int(parts.get("fraction", "0").ljust(9, "0")),
        zone_seconds,
    )
