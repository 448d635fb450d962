"""What `Table.inspect` gives as Arrow tables, by name. Without imports: the command line shows them before the engine
is there.
"""

from __future__ import annotations

from typing import Final

# Of one snapshot, by default the newest.
OF_A_SNAPSHOT: Final = ("files", "manifests", "partitions", "buckets")
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
