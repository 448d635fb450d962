"""Serializes a snapshot or schema that is about to be published, and checks that it reads back as an equal value.

A snapshot or schema that cannot be read makes the table unusable for all clients. So it is parsed first, as other
clients will parse it: any argument of a wrong type that came this far is refused here. Raises InvalidError; pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from widetable.errors import DamagedError, InvalidError


class Writable(Protocol):
    """A value that is stored as JSON."""

    def to_json(self) -> str: ...


W = TypeVar("W", bound=Writable)


def parsed_back(meant: W, parse: Callable[[bytes, str], W], path: str) -> bytes:
    """Return the bytes of `meant`. parse: parses them, given the path for its messages."""
    try:
        data = meant.to_json().encode()
        if parse(data, path) == meant:
            return data
        fault = "other values when it is read again"
    except (TypeError, ValueError, AttributeError, RecursionError, DamagedError) as cause:
        fault = f"a value that cannot be written or read: {cause}"
    raise InvalidError(
        path,
        found=fault,
        expected="a file that reads back as the same values; nothing was published",
        action="Correct the arguments: one of them has a wrong type.",
    )
