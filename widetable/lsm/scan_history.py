"""What scans of data files for keys have cost this process: `lookup_cost` builds a cache when it has been enough.

Costs are estimates of `lookup_cost.scan_micros`, by path. Bounded: the files that were scanned longest ago are
forgotten. Thread-safe. A forked child begins without any.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from widetable.runtime.forked_child import SharedByThreads

_MAX_FILES: Final = 4096


class ScanHistory(SharedByThreads):
    """max_files: how many files are remembered."""

    def __init__(self, max_files: int = _MAX_FILES) -> None:
        self._max_files = max_files
        super().__init__()

    def _start_anew(self) -> None:
        self._micros: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def micros(self, path: str) -> float:
        """What scans of this file have cost so far."""
        with self._lock:
            return self._micros.get(path, 0.0)

    def add(self, path: str, micros: float) -> None:
        """One more scan."""
        with self._lock:
            self._micros[path] = self._micros.pop(path, 0.0) + micros
            if len(self._micros) > self._max_files:
                self._micros.popitem(last=False)

    def forget(self, path: str) -> None:
        """The file has a cache now."""
        with self._lock:
            self._micros.pop(path, None)


SCAN_HISTORY: Final = ScanHistory()
