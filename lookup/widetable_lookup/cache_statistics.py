"""How much of the disk the lookup caches of a table take, and which there are.

In: a table's path. Out: `CacheStatistics`, `CompleteCache`. Reads the directory of this host's caches, unless others
could have filled it; raises UnsupportedError for a URL that no table can have.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from widetable.storage.locate import path_at
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.cache_manifest import read_manifest
from widetable_lookup.cache_paths import table_folder, temporary_state
from widetable_lookup.cache_space import count_caches, space_of_host


class CacheStatistics(NamedTuple):
    """caches: complete ones; disk_bytes: of these and of those that are being built."""

    caches: int
    disk_bytes: int


def cache_statistics(path: str | os.PathLike[str]) -> CacheStatistics:
    """The lookup caches of the table at a path or URL, of all processes of this host."""
    folder = _folder(path)
    return CacheStatistics(*((0, 0) if folder is None else count_caches(folder)))


class CompleteCache(NamedTuple):
    """path: its directory. data_file: of which it is a copy. disk_bytes: that it takes. last_used_millis: epoch."""

    path: str
    data_file: str
    schema_id: int
    rows: int
    disk_bytes: int
    last_used_millis: int


def complete_caches(path: str | os.PathLike[str]) -> Iterator[CompleteCache]:
    """The caches of the table at a path or URL that can be used, of all processes of this host, by their paths; none
    where the directory cannot be read.
    """
    folder = _folder(path)
    try:
        names = [] if folder is None else sorted(os.listdir(folder))
    except OSError:  # none yet, or none that this process may use
        return
    for name in names:
        place = f"{folder}/{name}"
        # Others remove caches meanwhile; what is damaged is no cache.
        with contextlib.suppress(CacheFault, OSError):
            if temporary_state(name) is None:
                manifest, used_ns = read_manifest(place), os.stat(place).st_mtime_ns
                source = manifest.source
                held = source.data_file, source.schema_id, source.rows, manifest.disk_bytes
                yield CompleteCache(place, *held, used_ns // 1_000_000)


def _folder(path: str | os.PathLike[str]) -> str | None:
    """Of the table's caches; None where there can be none that are believed."""
    folder, space = table_folder(path_at(path)), space_of_host()
    return f"{space.directory}/{folder}" if space.is_safe() else None
