"""How old a feature may be: the argument `ttl` of point-in-time reads.

    timedelta(minutes=60), "60 min", 3600000     60 minutes: a feature of exactly that age counts
    0                                            only a feature of the moment itself
    None                                         no limit

In: what a caller gives; a number is in milliseconds, as durations are in options. Out: microseconds. Raises
InvalidError for anything else, and for a negative duration.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from widetable.arguments import refused, whole_number
from widetable.errors import InvalidError
from widetable.schema.option import Option, parse_value

_TTL: Final = Option[int].duration("ttl", 0, "")
_EXPECTED: Final = "a timedelta, a text such as '60 min', or milliseconds; 0 or more"


def age_limit_micros(ttl: Any) -> int | None:
    """Return the limit, None for no limit."""
    if ttl is None:
        return None
    if isinstance(ttl, timedelta):
        micros = ttl // timedelta(microseconds=1)
    elif isinstance(ttl, str):
        try:
            micros = parse_value(_TTL, ttl) * 1000
        except InvalidError:
            raise refused(ttl, "ttl", _EXPECTED) from None
    else:
        micros = whole_number(ttl, "ttl") * 1000
    if not 0 <= micros < 2**62:
        raise refused(ttl, "ttl", _EXPECTED)
    return micros
