"""The cost of this process's scans of data files for keys: `lookup_cost` builds a cache when it has become high enough.

Costs are estimates of `lookup_cost.scan_micros`, by path. Bounded: the files that were scanned longest ago are dropped.
Thread-safe. A forked child begins with an empty history.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from widetable.runtime.forked_child import SharedByThreads

_MAX_FILES: Final = 4096


class ScanHistory(SharedByThreads):
    """The history of scans. max_files: the largest number of files in it."""

    def __init__(self, max_files: int = _MAX_FILES) -> None:
        self._max_files = max_files
        super().__init__()

    def _reset(self) -> None:
        self._micros: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def micros(self, path: str) -> float:
        """Return the cost of the scans of this file so far."""
        with self._lock:
            return self._micros.get(path, 0.0)

    def add(self, path: str, micros: float) -> None:
        """Add the cost of a scan."""
        with self._lock:
            self._micros[path] = self._micros.pop(path, 0.0) + micros
            if len(self._micros) > self._max_files:
                self._micros.popitem(last=False)

    def forget(self, path: str) -> None:
        """Remove a file, which has a cache now."""
        with self._lock:
            self._micros.pop(path, None)


SCAN_HISTORY: Final = ScanHistory()
