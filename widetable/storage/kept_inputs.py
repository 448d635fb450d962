"""Files that lookups read again and again, kept in memory where reading one is a request to an object store.

Files of a table have random names that are never used again, so what is kept cannot be stale; and where one URL is of
two stores, by two endpoints, a file that both have is a copy. It may be gone in the store by now. For lookups only:
what asks whether a file is there, or whole, must ask the store. Large files are read in ranges each time: a lookup
cache soon has them (lsm/lookup_cost.py). The files read longest ago leave first. Thread-safe.
Raises what opening the file raises.

Bounds: files up to 8 MiB, 64 MiB of them in a process. Two threads that miss the same file may
both fetch it; one is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

import pyarrow as pa

from widetable.runtime.forked_child import SharedByThreads

_MOST_BYTES: Final = 64 << 20
_LARGE_BYTES: Final = 8 << 20


class Inputs(Protocol):
    """Of a FileIO: what readers of data files need."""

    def open_input(self, path: str) -> pa.NativeFile:
        """A seekable file."""
        ...


def is_far(path: str) -> bool:
    """Whether reading is a request to a store: a URL."""
    return "://" in path


class KeptFiles(SharedByThreads):
    """Of this process, by URL."""

    def _start_anew(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._bytes = 0

    def get(self, path: str) -> pa.Buffer | None:
        with self._lock:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
            return found

    def keep(self, path: str, data: pa.Buffer) -> None:
        with self._lock:
            if path not in self._files:
                self._files[path] = data
                self._bytes += data.size
            while self._bytes > _MOST_BYTES:
                self._bytes -= self._files.popitem(last=False)[1].size


KEPT_FILES: Final = KeptFiles()


class KeptInputs:
    """An Inputs of another one.

    For far files that are small; all others are opened as ever. What it opens is read from
    memory, and seekable.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def open_input(self, path: str) -> pa.NativeFile:
        if not is_far(path):
            return self._inputs.open_input(path)
        data = KEPT_FILES.get(path)
        if data is None:
            source = self._inputs.open_input(path)
            if source.size() > _LARGE_BYTES:
                return source
            with source:
                data = pa.py_buffer(source.read())
            KEPT_FILES.keep(path, data)
        return pa.BufferReader(data)
