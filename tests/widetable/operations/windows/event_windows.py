"""A plain loop over all events of tile tables: it knows nothing of tiles, files or the engine.

`Event` is what a stream would write. `expected` is what a window at a time holds: the events from s - w up to s, where
s is the last multiple of the tile size that is not after the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

EPOCH = datetime(1970, 1, 1)
MICROS = timedelta(microseconds=1)


class Event(NamedTuple):
    """An event of an entity. micros: its time since 1970."""

    user: int
    shop: str
    micros: int
    values: dict[str, Any]

    def record(self, size: int) -> dict[str, Any]:
        """What a stream writes: the start of the tile, and the values."""
        start = self.micros - self.micros % size
        return {"user": self.user, "shop": self.shop, "tile": at(start), **self.values}


def at(micros: int) -> datetime:
    return EPOCH + micros * MICROS


def total(values: Sequence[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def _rank(value: Any) -> tuple[bool, Any]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


FUNCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "sum": total,
    "count": total,
    "min": lambda values: min(values, key=_rank),
    "max": lambda values: max(values, key=_rank),
}


def expected(
    events: Sequence[Event],
    key: tuple[int, str],
    micros: int,
    size: int,
    window: tuple[str, str, int],
) -> Any:
    """The value of a window (column, function, length in microseconds) of a key at a time."""
    column, function, length = window
    end = micros - micros % size
    values = [
        event.values[column]
        for event in events
        if (event.user, event.shop) == key and end - length <= event.micros < end
    ]
    values = [value for value in values if value is not None]
    if not values:
        return 0 if function == "count" else None
    return FUNCTIONS[function](values)


def money(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)
