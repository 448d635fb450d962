"""Arrow tables of the holders of a table: leases, the lookup caches of this host, and the table's bytes by holder.

Raises StorageError; leases that cannot be read are left out, with a warning in the log. `space` raises what
`table_space` does.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from widetable.commit.holds.snapshot_holds import noted_holds
from widetable.commit.notes.lease import noted_leases
from widetable.operations.handle.lookup_caches import complete_caches
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.expiry import table_space
from widetable.operations.inspection.inspected_frame import frame_of_rows, frame_schema

LEASES: Final = frame_schema(
    "kind string, owner string?, snapshot_id int64?, expire_time time, state string, path string"
)
CACHES: Final = frame_schema(
    "data_file string, schema_id int64, rows int64, size_bytes int64, last_used_time time, path string"
)
SPACE: Final = frame_schema(
    "holder string, name string?, snapshot_id int64?, files int64, size_bytes int64"
)


def leases(table: OpenTable) -> pa.Table:
    """List leases on work (`compaction`, `old-levels`, `join`), of readers (`read`) and pins of lookup joins (`pin`).

    state: `in force`; `over` if their time is up; `void` if their process has ended or their time is not credible.
    owner: the holder, for a reader its process, null if unknown. snapshot_id: for readers and pins, the first snapshot
    that they keep; null for leases on work.
    """
    state = table._state()
    noted = [*noted_leases(state.file_io, state.paths), *noted_holds(state)]
    rows = (
        (one.kind, one.owner, one.snapshot_id, one.expires_millis, one.lease_state.value, one.path)
        for one in noted
    )
    return frame_of_rows(LEASES, rows, table.path)


def caches(table: OpenTable) -> pa.Table:
    """List complete lookup caches on this host, whoever made them; none if the package of caches is not installed.

    size_bytes: on the disk. rows: of the data file. path: of the cache's directory.
    """
    rows = ((file, *facts, path) for path, file, *facts in complete_caches(table.path))
    return frame_of_rows(CACHES, rows, table.path)


def space(table: OpenTable) -> pa.Table:
    """List the bytes of the table by holder; each line counts files that no line above it needs.

    Reads the metadata of all snapshots, tags and branches, and lists the directories of data.
    """
    rows = (
        (line.holder, line.name, line.snapshot_id, line.files, line.bytes)
        for line in table_space(table)
    )
    return frame_of_rows(SPACE, rows, table.path)
