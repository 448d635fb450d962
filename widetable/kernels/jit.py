"""The one decorator of every compiled loop.

A kernel takes scalars and contiguous arrays, holds no GIL, is compiled on first use and cached on
disk. It never gets a tuple of arrays (an index into a tuple costs reference counts: 4 to 40 times
slower), and never `parallel=True`: callers use threads over columns or key ranges. It copies arrays by loops: an
assignment of one slice to another takes a second to compile. Arrays that are read-only in one call and not in another
would compile it twice; those of Arrow always are (arrow_buffers.py).

A kernel calls kernels of its own file only: the cache notices changes of that file and of no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])


def kernel(function: _Function) -> _Function:
    """Compile `function` with numba on its first call; the signature that callers see stays the
    Python one.
    """
    return cast("_Function", numba.njit(cache=True, nogil=True, error_model="numpy")(function))
