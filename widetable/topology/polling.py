"""A look at all tables of a warehouse, made again where one was dropped, or its snapshots expired, meanwhile: to list
and to look is no transaction. Raises what the last look raises.

    look: lists a, b      somebody drops b      look: reads a, b: NotFoundError      the next look lists a alone

A NotFoundError that is the answer, of a name that is nobody's say, is asked for five times, and
raised all the same. So it is only for looks: what changes something is not done twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from widetable.errors import NotFoundError

# In each some table would have to be dropped, or to expire, in the short time of a look.
_LOOKS: Final = 5
P = ParamSpec("P")
T = TypeVar("T")


def looked_again(look: Callable[P, T]) -> Callable[P, T]:
    """The same for who asks once."""

    @functools.wraps(look)
    def again(*arguments: P.args, **named: P.kwargs) -> T:
        for _ in range(_LOOKS - 1):
            with contextlib.suppress(NotFoundError):
                return look(*arguments, **named)
        return look(*arguments, **named)

    return again
