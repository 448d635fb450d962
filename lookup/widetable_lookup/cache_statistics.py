"""The lookup caches of a table, and the space that they take on the disk.

In: a table's path. Out: `CacheStatistics`, `CompleteCache`. Reads the directory of this host's caches, unless others
could have written to it; raises UnsupportedError for a URL that no table can have.
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
    """The number and size of caches. caches: complete ones; disk_bytes: of these and of those that are being built."""

    caches: int
    disk_bytes: int


def cache_statistics(path: str | os.PathLike[str]) -> CacheStatistics:
    """Return the size of the lookup caches of the table at a path or URL, of all processes of this host."""
    folder = _folder(path)
    return CacheStatistics(*((0, 0) if folder is None else count_caches(folder)))


class CompleteCache(NamedTuple):
    """A complete cache. path: its directory; data_file: the file that it copies; disk_bytes: the space that it takes;
    last_used_millis: epoch.
    """

    path: str
    data_file: str
    schema_id: int
    rows: int
    disk_bytes: int
    last_used_millis: int


def complete_caches(path: str | os.PathLike[str]) -> Iterator[CompleteCache]:
    """Yield the usable caches of the table at a path or URL, of all processes of this host, sorted by path.

    There are none if the directory cannot be read.
    """
    folder = _folder(path)
    try:
        names = [] if folder is None else sorted(os.listdir(folder))
    except OSError:  # no directory yet, or none that this process may use
        return
    for name in names:
        place = f"{folder}/{name}"
        # Other processes may remove caches meanwhile; a damaged one does not count.
        with contextlib.suppress(CacheFault, OSError):
            if temporary_state(name) is None:
                manifest, used_ns = read_manifest(place), os.stat(place).st_mtime_ns
                source = manifest.source
                facts = source.data_file, source.schema_id, source.rows, manifest.disk_bytes
                yield CompleteCache(place, *facts, used_ns // 1_000_000)


def _folder(path: str | os.PathLike[str]) -> str | None:
    """Return the folder of the table's caches; None if there can be no trusted ones."""
    folder, space = table_folder(path_at(path)), space_of_host()
    return f"{space.directory}/{folder}" if space.is_safe() else None
