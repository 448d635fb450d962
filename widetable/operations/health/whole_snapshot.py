"""The snapshot to which a damaged table can go back without losing anything: one with the same rows in files that are
whole. A compaction whose inputs have not expired leaves one behind.

    1 APPEND a    2 APPEND b    3 COMPACT a b -> c, which is damaged        2: the same rows, in a and b
    1 APPEND a    2 COMPACT a -> c, damaged         3 APPEND b              none: a rollback to 1 would lose b

In: the newest snapshot, and the names of its damaged files. Out: the id, or None. Only listings are looked at, or with
deep the files that the newest one has not. Raises StorageError; metadata that cannot be read ends the search.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from widetable.commit.snapshots.committed import RESCALED
from widetable.commit.transaction.committer import Committer
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.health.file_damage import damaged_files
from widetable.write.table_state import TableState

SAME_ROWS: Final = "it has the same rows in files that are whole, so nothing is lost"
NOT_WHOLE: Final = (
    "Restore it from a copy. Without one, repair keeps what can be read and says what is gone; no snapshot that is "
    "kept has the same rows in other files, so rollback loses the commits after the one to which it goes back."
)


def whole_snapshot(
    table: TableState,
    committer: Committer,
    latest: Snapshot,
    damaged: Collection[str],
    *,
    deep: bool,
) -> int | None:
    """The newest one with the rows of `latest` and none of these files."""
    live_files = committer.live_files.uncached()
    try:
        now = {entry.file.file_name for entry in live_files.live_entries(latest)}
        snapshot = latest
        while not touches_rows(snapshot, table) and RESCALED not in snapshot.properties:
            snapshot = committer.snapshots.load(snapshot.id - 1)
            entries = live_files.live_entries(snapshot)
            if any(entry.file.file_name in damaged for entry in entries):
                continue
            others = [entry for entry in entries if entry.file.file_name not in now]
            if next(damaged_files(table, others, snapshot.id, deep=deep), None) is None:
                return snapshot.id
    except (NotFoundError, DamagedError):  # expired, or not to be read either
        pass
    return None
