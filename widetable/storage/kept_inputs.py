"""A cache in memory of files that lookups read repeatedly, for files of which each read is a request to a remote store.

Files of a table have random names that are never reused, so a cached file cannot be stale. If one URL names two stores,
by two endpoints, a file that both have is a copy. The store may have deleted a cached file. The cache is for lookups
only: code that checks whether a file exists, or is complete, must ask the store. Large files are read in ranges each
time: a lookup cache soon contains them (lsm/lookup_cost.py). The least recently read files are dropped first.
Thread-safe. Raises what opening the file raises.

Bounds: files up to 8 MiB, 64 MiB of them in a process. Two threads that miss the same file may
both fetch it; one copy is cached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

import pyarrow as pa

from widetable.runtime.forked_child import SharedByThreads

_MAX_BYTES: Final = 64 << 20
_LARGE_BYTES: Final = 8 << 20


class Inputs(Protocol):
    """The part of a FileIO that readers of data files need."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a seekable file."""
        ...


def is_remote(path: str) -> bool:
    """Return whether each read of the file is a request to a remote store: the path is a URL."""
    return "://" in path


class KeptFiles(SharedByThreads):
    """The cached files of this process, by URL."""

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._bytes = 0

    def get(self, path: str) -> pa.Buffer | None:
        with self._lock:
            data = self._files.get(path)
            if data is not None:
                self._files.move_to_end(path)
            return data

    def keep(self, path: str, data: pa.Buffer) -> None:
        with self._lock:
            if path not in self._files:
                self._files[path] = data
                self._bytes += data.size
            while self._bytes > _MAX_BYTES:
                self._bytes -= self._files.popitem(last=False)[1].size


KEPT_FILES: Final = KeptFiles()


class KeptInputs:
    """Opens small remote files through the cache, and all other files directly.

    A cached file is read from memory, and is seekable.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def open_input(self, path: str) -> pa.NativeFile:
        if not is_remote(path):
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
