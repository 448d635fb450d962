"""A look at all tables of a warehouse, made again where one was dropped, or its snapshots expired, meanwhile: to list
and to look is no transaction. Raises what the last look raises.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from widetable.errors import NotFoundError

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
