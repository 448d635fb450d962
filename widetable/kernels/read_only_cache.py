"""Load compiled kernels from a directory that this process may read but not write, such as that of an image, which
root filled when it was built. numba ignores such a directory, and compiles all kernels again in each process.

    NUMBA_CACHE_DIR     writable: numba's own cache
                        read-only: its kernels are loaded; a missing one is compiled, and not stored

numba executes what it loads: whoever names the directory is responsible for who may write to it. Raises nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any


def is_read_only(directory: str) -> bool:
    """Whether the directory exists and is read-only. An empty name is no directory."""
    return os.path.isdir(directory) and not os.access(directory, os.W_OK)


def read_only_cache(function: Callable[..., Any]) -> Any:
    """Return the cache of one function, in the directory of numba's setting CACHE_DIR. Nothing is written there."""
    return _cache_class()(function)


@cache
def _cache_class() -> Any:
    """Return the class of the cache. It is created at its first use, because numba is not imported before. numba's
    names for these classes differ by version.
    """
    from numba.core.caching import FunctionCache

    own: Any = FunctionCache._impl_class

    class Locator(own._locator_classes[0]):  # type: ignore[misc] # that of CACHE_DIR
        """Locates the directory, and does not try to write there."""

        def ensure_cache_path(self) -> None:
            pass

    class Impl(own):  # type: ignore[misc]
        """Uses that directory only."""

        _locator_classes = (Locator,)

    class ReadOnlyCache(FunctionCache):
        """Loads kernels, and stores none."""

        _impl_class = Impl

        def save_overload(self, sig: Any, data: Any) -> None:
            """Do nothing: this process must not write to the directory."""

    return ReadOnlyCache
