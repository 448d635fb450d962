"""A time window of a feature: a column, a function and a length.

In: what a caller writes, such as `window("clicks", "sum", "7 d")`. Out: a `TimeWindow`, which knows no table yet
(`window_plan`). Raises InvalidError for a length that is none and a name that is no function, UnsupportedError for a
function whose value over several tiles is not that over their events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from widetable.arguments import refused, text
from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.aggregate_function import Aggregate
from widetable.merge.aggregate_functions import AGGREGATES
from widetable.merge.choosing_functions import MAX, MIN
from widetable.merge.number_functions import SUM
from widetable.schema.option import Option, parse_value

# A longer window would reach behind the year 1 from every day of the calendar.
_LONGEST_MILLIS: Final = 9999 * 366 * 86_400_000
_FORM: Final = 'a duration in whole milliseconds, such as "1 h", "7 d" or a timedelta, more than 0'


class WindowFunction(NamedTuple):
    """A function of windows. fills: the aggregate function that the column must have, and its name. picks: it gives one
    of the values, not their sum. smallest: it picks the smallest, not the greatest. counts: the values are numbers of
    events, so the answer is 0 without any.
    """

    name: str
    fills: Aggregate
    fills_name: str
    picks: bool = False
    smallest: bool = False
    counts: bool = False


FUNCTIONS: Final = {
    each.name: each
    for each in (
        WindowFunction("sum", SUM, "sum"),
        WindowFunction("count", SUM, "sum", counts=True),
        WindowFunction("min", MIN, "min", picks=True, smallest=True),
        WindowFunction("max", MAX, "max", picks=True),
    )
}


@dataclass(frozen=True)
class TimeWindow:
    """What a feature is computed from: the tiles of a span of time, and one of their columns. `window` makes it.

    Attributes
    ----------
    column : str
        The column of the tile table.
    function : str
        `sum`, `count`, `min` or `max`.
    length_millis : int
        The length in milliseconds.

    Examples
    --------
    >>> import widetable as wt
    >>> wt.window("clicks", "sum", "7 d")
    TimeWindow(column='clicks', function='sum', length_millis=604800000)
    """

    __module__ = "widetable"

    column: str
    function: str
    length_millis: int


def window(column: str, function: str, length: str | timedelta) -> TimeWindow:
    """Describe a feature of `Table.windows`: a function of a column over the tiles of a span of time.

    Parameters
    ----------
    column : str
        The column of the tile table.
    function : str
        `sum`, `min` and `max`: that of the column, which has the aggregate function of the same name. `count`: the sum
        of a column of numbers of events, 0 where there is none.
    length : str or timedelta
        How far the window reaches back, such as "5 min", "1 h" or "30 d": a multiple of the size of a tile.

    Returns
    -------
    TimeWindow
        The description.

    Raises
    ------
    InvalidError
        The length is none, or the function is unknown.
    UnsupportedError
        The function has no exact value over several tiles, such as `last_value`.

    Examples
    --------
    >>> import widetable as wt
    >>> wt.window("clicks", "sum", "7 d").length_millis
    604800000
    """
    return TimeWindow(
        text(column, "column"), _function(function), duration_millis(length, "length of the window")
    )


window.__module__ = "widetable"


def duration_millis(value: Any, name: str) -> int:
    """Return a duration in milliseconds: a text as in options, or a timedelta. Fractions of milliseconds are wrong."""
    if isinstance(value, timedelta):
        millis, rest = divmod(value, timedelta(milliseconds=1))
        if rest or not 0 < millis <= _LONGEST_MILLIS:
            raise refused(value, name, _FORM)
        return millis
    given = text(value, name) if isinstance(value, str) else ""
    # Units below a millisecond are read as options read them, which rounds down.
    unit = given.strip().lower().lstrip("0123456789").strip()
    if not unit or unit.startswith(("n", "µ", "micro")):
        raise refused(value, name, _FORM)
    option = Option[int].duration(name, 0, "", least=1, most=_LONGEST_MILLIS)
    return parse_value(option, given)


def _function(name: Any) -> str:
    if isinstance(name, str) and name in FUNCTIONS:
        return name
    if isinstance(name, str) and name in AGGREGATES:
        raise UnsupportedError(
            f"function {name!r} of a window",
            found="an aggregate function whose value over tiles is not the one over their events",
            expected=f"one of {', '.join(FUNCTIONS)}",
            action="Use one of these functions, or read the tiles with a scan.",
        )
    if not isinstance(name, str):
        raise refused(name, "function of a window", f"one of {', '.join(FUNCTIONS)}")
    raise InvalidError(
        f"function {name!r} of a window",
        found="a name that is no function of windows",
        expected=f"one of {', '.join(FUNCTIONS)}",
        action="Correct the argument.",
    )
