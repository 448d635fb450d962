"""Compile kernels with numba, and choose where the compiled code is cached for the next process:

    1. numba's own choice: NUMBA_CACHE_DIR, even where that is read-only (read_only_cache.py), beside the sources,
       in the user's directory for caches
    2. a directory of this user among the system's temporary files, which nobody else can write to: numba executes the
       files in it
    3. nowhere, with one warning; also when the disk is full, or a cached file is damaged (a machine that lost its
       power leaves empty files)

numba is imported with the first kernel that is compiled. Raises numba's errors for a function that it cannot compile.

The choice is made once per process: after a directory was refused, or one kernel in it was
damaged, no other kernel is loaded from there or stored there. A choice per kernel would
compile and warn thirty times.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from widetable.kernels.read_only_cache import is_read_only, read_only_cache
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.forked_child import SharedByThreads

Dispatcher: TypeAlias = Any  # of numba: called like the function; its cache has no public name
# _nrt: without numba's counts of references, which it has no public name for (jit.py says what that asks of kernels).
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_log = logging.getLogger("widetable")


class Compiler(SharedByThreads):
    """All compiled functions of a process.

    _caches: whether kernels are still cached. _has_warned: whether the one warning
    was given. A forked child gets a new lock, and keeps the compiled functions.
    """

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self._dispatchers: WeakSet[Dispatcher] = WeakSet()
        self._caches = True
        self._has_warned = False
        self._directory = ""

    def compile(self, function: Callable[..., Any]) -> Dispatcher:
        """Return a dispatcher to call in the function's place; its first call compiles the function, or loads it."""
        import numba

        with self._lock:
            dispatcher = numba.njit(**_OPTIONS)(function)
            if self._caches:
                self._enable_cache(dispatcher)
            self._dispatchers.add(dispatcher)
        return dispatcher

    @property
    def dispatchers(self) -> list[Dispatcher]:
        """The dispatchers of all kernels that were compiled or loaded."""
        with self._lock:
            return list(self._dispatchers)

    def keep_nothing(self, refused: Dispatcher) -> str:
        """Stop caching, and loading from the cache. Return the directory in which `refused` was, or should be."""
        from numba.core.caching import NullCache

        with self._lock:
            if not isinstance(refused._cache, NullCache):  # another thread was first
                self._directory = str(refused._cache.cache_path)
            self._caches = False
            for dispatcher in self._dispatchers:
                dispatcher._cache = NullCache()
            return self._directory

    def blame_cache(self, directory: str, refusal: Exception) -> None:
        """Warn once that a kernel could not be cached (an OSError), or not be loaded."""
        why = str(refusal)
        if not isinstance(refusal, OSError):
            why = f"delete {directory}, which holds a damaged one ({refusal!r})"
        with self._lock:
            self._warn_once(why)

    def _enable_cache(self, dispatcher: Dispatcher) -> None:
        """Enable the cache. numba's setting is changed for this call only, under the lock: numba reads it
        when caching is enabled.
        """
        import numba

        config: Any = numba.config
        chosen = config.CACHE_DIR
        if is_read_only(chosen):
            dispatcher._cache = read_only_cache(dispatcher.py_func)
            return
        try:
            dispatcher.enable_caching()
        except RuntimeError:  # there is no directory that it could write to
            config.CACHE_DIR = _own_directory()
            try:
                dispatcher.enable_caching()
            except RuntimeError as refusal:
                self._warn_once(str(refusal))
        finally:
            config.CACHE_DIR = chosen

    def _warn_once(self, why: str) -> None:
        if not self._has_warned:
            warn(
                _log,
                WarningCode.KERNELS_RECOMPILED,
                "each process compiles the kernels again, which takes up to half a minute: %s. "
                "Set NUMBA_CACHE_DIR to a directory that it may write to",
                why,
            )
        self._has_warned, self._caches = True, False


def _own_directory() -> str:
    """Return this user's directory for kernels; empty when there is none.

    It is checked after it was created: somebody else may have created it before, or a link in its
    place, and numba executes what it loads. It must be a directory, ours, which no other user can
    read or write.
    """
    try:
        directory = Path(tempfile.gettempdir(), f"widetable-kernels-{os.getuid()}")
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return ""
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return str(directory) if is_ours and not status.st_mode & 0o077 else ""


COMPILER: Final = Compiler()
