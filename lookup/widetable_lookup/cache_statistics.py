"""How much of the disk the lookup caches of a table take.

In: a table's path. Out: `CacheStatistics`. Reads the directory of this host's caches; raises UnsupportedError for a URL
that no table can have.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from widetable.storage.locate import locate
from widetable_lookup.cache_paths import directory_of_host, table_folder
from widetable_lookup.cache_space import count_caches


class CacheStatistics(NamedTuple):
    """caches: complete ones; disk_bytes: of these and of those that are being built."""

    caches: int
    disk_bytes: int


def cache_statistics(path: str | os.PathLike[str]) -> CacheStatistics:
    """The lookup caches of the table at a path or URL, of all processes of this host."""
    _, root = locate(path)
    return CacheStatistics(*count_caches(f"{directory_of_host()}/{table_folder(root)}"))
