"""What is newest in a table that was opened: looked at for operations, and once more right before a snapshot follows.

    look       next snapshot id missing? newest snapshot there? of this table? next schema id missing?
    expected   the same for commits that nobody was faster than: only what has come, as `may_follow` looks at the rest
    may_follow the snapshot that was built on is there, as it was

A snapshot that is there as it was known proves that the table is the one that was opened, without another look: ids are
given once in a life of a table, and no two snapshots are equal.

    this commit                                 others
    knows snapshot 7; 8 is not there
    writes its lists on top of 7, sleeps        commit 8 and 9; expiry removes 7 and 8
    may_follow(7): 7 is gone ─► looks anew      (without it snapshot-8 could be published, beside 9)

    writes its lists on top of 7, sleeps        another client rolls back to 6 and commits its own 7
    may_follow(7): another 7 ─► looks anew      (without it the files of the old 7 would come back)

Thread-safe: what is remembered is a place to look first. Raises NotFoundError when the table is
not there any more, InvalidError for another one than was opened, and what reading snapshots and
schemas raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from widetable.commit.notes.skipped_files import if_there
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.table_identity import check_identity, table_identity
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import MAIN_BRANCH, TablePaths


@dataclass(frozen=True)
class HeadState:
    """latest: None for a table without snapshots.

    Of one moment. The schema is the newest one, which may be newer than that of the snapshot.
    """

    schema: TableSchema
    latest: Snapshot | None


class TableHead:
    """Of one life of a table. identity: which one.

    It is read once, when the table is opened; later looks hold what is there against it.
    """

    def __init__(
        self, file_io: FileIO, paths: TablePaths, snapshots: SnapshotStore, schemas: SchemaStore
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._snapshots = snapshots
        self._schemas = schemas
        try:
            latest = snapshots.latest()
        except (DamagedError, NotFoundError):
            latest = None  # a table that has lost its snapshots can be opened, to mend it
        self.identity = table_identity(file_io, paths)
        self.remember(latest)
        schemas.latest(latest.schema_id if latest else None)

    def refresh(self) -> HeadState:
        """The newest of now. The first schema is read only where the newest snapshot is not the
        one that was known, which would prove the table by itself.
        """
        latest = self._snapshots.latest()
        if latest is None or latest != self._known:
            # What was dropped must not come back, and what was made again has columns of its own.
            check_identity(self._file_io, self._paths, self.identity)
        self.remember(latest)
        return HeadState(self._schemas.latest(), latest)

    def expected(self) -> HeadState:
        """To build the next snapshot on, which `may_follow` it."""
        known = self._known
        if known is None or self._snapshots.has_successor(known.id):
            return self.refresh()
        return HeadState(self._schemas.latest(), known)

    def may_follow(self, base: Snapshot | None) -> bool:
        """False when the commit slept until the id after `base` had been used and had expired again, when the table
        went back meanwhile, or is another one: look anew.
        """
        self.remember(None)  # whatever is raised below, nothing is believed afterwards
        if base is None:
            check_identity(self._file_io, self._paths, self.identity)
            return not self._snapshots.ids()
        is_there = if_there(self._snapshots.load, base.id) == base
        self.remember(base if is_there else None)
        return is_there

    def remember(self, snapshot: Snapshot | None) -> None:
        """What is the newest snapshot of this table; None: nobody knows."""
        if snapshot is not None:
            self._snapshots.look_first_at(snapshot.id)
        # A branch that was dropped and made again of a snapshot has the very same one.
        self._known = snapshot if self._paths.branch == MAIN_BRANCH else None
