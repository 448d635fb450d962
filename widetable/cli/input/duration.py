"""Durations on the command line: `500 ms`, `30 s`, `10 min`, `1 h`, `1 d`, as in table options.

The parser is that of table options (`option.parse_value`), so `5` is 5 ms here as well. Values fit Java's long; a
command that waits checks how long it can wait.
"""

from __future__ import annotations

from typing import overload

from widetable.schema.option import Option, parse_value


@overload
def millis_of(text: str, name: str) -> int: ...
@overload
def millis_of(text: str | None, name: str) -> int | None: ...
def millis_of(text: str | None, name: str) -> int | None:
    """Return milliseconds; None for None. name: the option, for the InvalidError of a text that is no duration."""
    if text is None:
        return None
    return parse_value(Option[int](name, "duration", 0, "milliseconds", ""), text)
