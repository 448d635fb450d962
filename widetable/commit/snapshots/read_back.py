"""The bytes of what is about to be published, once they are known to say what was meant.

A snapshot or schema that nobody can read ends a table for everybody. So it is read first, as others will read it: an
argument of a wrong type that came so far ends here, whatever it is. Raises InvalidError; pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from widetable.errors import DamagedError, InvalidError


class Writable(Protocol):
    """What has a text on the disk."""

    def to_json(self) -> str: ...


W = TypeVar("W", bound=Writable)


def parsed_back(meant: W, parse: Callable[[bytes, str], W], path: str) -> bytes:
    """The bytes of `meant`. parse: reads them, given the path for its messages."""
    try:
        data = meant.to_json().encode()
        if parse(data, path) == meant:
            return data
        found = "other values when it is read again"
    except (TypeError, ValueError, AttributeError, RecursionError, DamagedError) as cause:
        found = f"a value that cannot be written or read: {cause}"
    raise InvalidError(
        path,
        found=found,
        expected="a file that says what was meant; nothing was published",
        action="Correct the arguments: one of them is of a wrong type.",
    )
