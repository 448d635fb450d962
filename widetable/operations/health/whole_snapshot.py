"""The snapshot to which a damaged table can be rolled back without losing rows: one with the same rows in undamaged
files. A compaction leaves such a snapshot while its inputs have not expired.

    1 APPEND a    2 APPEND b    3 COMPACT a b -> c, which is damaged        2: the same rows, in a and b
    1 APPEND a    2 COMPACT a -> c, damaged         3 APPEND b              none: a rollback to 1 would lose b

In: the newest snapshot, and the names of its damaged files. Out: the id, or None. The search lists directories; deep,
it also reads the files that the newest snapshot lacks. Raises StorageError; unreadable metadata ends the search.
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

SAME_ROWS: Final = "it has the same rows in undamaged files, so nothing is lost"
NOT_WHOLE: Final = (
    "Restore it from a copy. Without one, repair keeps the readable rows and lists the lost ones; no kept snapshot "
    "has the same rows in other files, so rollback loses the commits after the one to which it goes back."
)


def whole_snapshot(
    table: TableState,
    committer: Committer,
    latest: Snapshot,
    damaged: Collection[str],
    *,
    deep: bool,
) -> int | None:
    """Return the id of the newest snapshot with the rows of `latest` and without the damaged files, or None."""
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
    except (NotFoundError, DamagedError):  # the snapshot expired, or cannot be read either
        pass
    return None
