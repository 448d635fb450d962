"""Small files that are passed over because they cannot be read or believed: consumers, tags, hints, leases.

Who does not ask for one by name goes on without it. Each is named in the log, once per process, with what to do about
it. Raises nothing of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from widetable.errors import DamagedError, NotFoundError
from widetable.messages.warning_code import WarningCode, warn

K = TypeVar("K")
T = TypeVar("T")
# Other clients write some of these files in place: one that is torn now may be whole in a moment.
_LOOKS: Final = 5
_PAUSE_SECONDS: Final = 0.05
# So many files are remembered as named; after that all are named again.
_MOST_NAMED: Final = 1000
_named: set[str] = set()
_log = logging.getLogger("widetable")


def pass_over(damage: DamagedError) -> None:
    """Say in the log that its file is passed over."""
    if damage.subject in _named:
        return
    if len(_named) >= _MOST_NAMED:
        _named.clear()
    _named.add(damage.subject)
    warn(_log, WarningCode.PASSED_OVER, "passed over: %s", damage)


def if_there(read: Callable[[K], T], key: K) -> T | None:
    """What is read; None for what is not there."""
    try:
        return read(key)
    except NotFoundError:
        return None


def readable(
    names: Iterable[str], read: Callable[[str], T | None]
) -> tuple[dict[str, T], list[DamagedError]]:
    """What could be read, in the order of the names, and what is damaged. None of `read`, like NotFoundError, is a file
    that went away.
    """
    found: dict[str, T] = {}
    asked = left = list(names)
    damages: dict[str, DamagedError] = {}
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        damages = {}
        for name in left:
            try:
                value = if_there(read, name)
            except DamagedError as damage:
                damages[name] = damage
                continue
            if value is not None:
                found[name] = value
        left = list(damages)
        if not left:
            break
    return {name: found[name] for name in asked if name in found}, list(damages.values())
