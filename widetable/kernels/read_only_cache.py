"""Compiled kernels that this process may read, in a directory that it may not write to: those of an image, which root
compiled when it was built. numba passes over such a directory, and compiles all of them again in each process.

    NUMBA_CACHE_DIR     may be written to: numba's own cache
                        may be read only: its kernels are loaded; one that is missing is compiled, and not kept

numba executes what it loads: who may write to the directory is up to whoever named it. Raises nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any


def is_read_only(directory: str) -> bool:
    """Whether it is a directory whose files may be read, and none made there. Empty: there is none."""
    return os.path.isdir(directory) and not os.access(directory, os.W_OK)


def read_only_cache(function: Callable[..., Any]) -> Any:
    """The cache of one function, in the directory that the setting CACHE_DIR of numba names. Nothing is put there."""
    return _cache_class()(function)


@cache
def _cache_class() -> Any:
    """Made when it is asked for: numba is not imported before. Its names for these classes differ by version."""
    from numba.core.caching import FunctionCache

    own: Any = FunctionCache._impl_class

    class Locator(own._locator_classes[0]):  # type: ignore[misc] # that of CACHE_DIR
        """Says where the directory is, and does not try to write there."""

        def ensure_cache_path(self) -> None:
            pass

    class Impl(own):  # type: ignore[misc]
        """Looks in that directory alone."""

        _locator_classes = (Locator,)

    class ReadOnlyCache(FunctionCache):
        """Loads, and keeps nothing."""

        _impl_class = Impl

        def save_overload(self, sig: Any, data: Any) -> None:
            """Others may have kept it; this process may not."""

    return ReadOnlyCache
