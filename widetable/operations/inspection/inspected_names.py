"""The names of the Arrow tables of `Table.inspect`. This module imports nothing, so that the command line can show the
names before the engine is loaded.
"""

from __future__ import annotations

from typing import Final

# These show one snapshot, by default the newest.
OF_A_SNAPSHOT: Final = ("files", "manifests", "partitions", "buckets", "overlap")
NAMES: Final = (
    "snapshots",
    "schemas",
    "options",
    *OF_A_SNAPSHOT,
    "tags",
    "branches",
    "consumers",
    "barriers",
    "leases",
    "caches",
    "space",
)
