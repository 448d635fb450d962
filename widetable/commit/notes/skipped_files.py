"""Small files that are skipped because they cannot be read or are wrong: consumers, tags, hints, leases.

A caller that does not request such a file by name continues without it. Each skipped file is logged, once per process,
with what to do about it. Raises no errors of its own.
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
# Other clients write some of these files in place: one that is incomplete now may be complete in a moment.
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.05
# The most files that are remembered as logged; after that all are logged again.
_MAX_NAMED: Final = 1000
_named: set[str] = set()
_log = logging.getLogger("widetable")


def log_skipped(damage: DamagedError) -> None:
    """Log that the file is skipped, once per process."""
    if damage.subject in _named:
        return
    if len(_named) >= _MAX_NAMED:
        _named.clear()
    _named.add(damage.subject)
    warn(_log, WarningCode.FILE_SKIPPED, "skipped: %s", damage)


def or_none(read: Callable[[K], T], key: K) -> T | None:
    """Return `read(key)`; None if it raises NotFoundError."""
    try:
        return read(key)
    except NotFoundError:
        return None


def readable(
    names: Iterable[str], read: Callable[[str], T | None]
) -> tuple[dict[str, T], list[DamagedError]]:
    """Return the values that could be read, in the order of the names, and an error for each damaged file.

    A file for which `read` returns None or raises NotFoundError was removed meanwhile and is left out.
    """
    values: dict[str, T] = {}
    all_names = left = list(names)
    damages: dict[str, DamagedError] = {}
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        damages = {}
        for name in left:
            try:
                value = or_none(read, name)
            except DamagedError as damage:
                damages[name] = damage
                continue
            if value is not None:
                values[name] = value
        left = list(damages)
        if not left:
            break
    return {name: values[name] for name in all_names if name in values}, list(damages.values())
