"""Retry reads of all tables of a warehouse if one was dropped, or its snapshots expired, meanwhile: listing and reading
tables is no transaction. Raises what the last try raises.

    lists a, b      somebody drops b      reads a, b: NotFoundError      the next try lists a alone

A NotFoundError that is the right answer, such as for an unknown name, is raised after five tries. This is only for
reads, because a change must not be made twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from widetable.errors import NotFoundError

# How many tries there are; to fail all, a table would have to be dropped, or to expire, during each.
_TRIES: Final = 5
P = ParamSpec("P")
T = TypeVar("T")


def retrying_reads(read: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that only reads, so that it is retried after a NotFoundError."""

    @functools.wraps(read)
    def retried(*arguments: P.args, **named: P.kwargs) -> T:
        for _ in range(_TRIES - 1):
            with contextlib.suppress(NotFoundError):
                return read(*arguments, **named)
        return read(*arguments, **named)

    return retried
