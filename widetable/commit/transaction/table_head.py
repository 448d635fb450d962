"""The head of an open table, its newest snapshot and schema: read for operations, and again just before a publish.

    refresh    is there a next snapshot? does the newest one exist? in this table? is there a next schema?
    expected   for a commit: only checks for a next snapshot and schema, as `may_follow` checks the rest
    may_follow does the base snapshot still exist, unchanged?

An unchanged snapshot proves that the table is the one that was opened, without another request: each id is used once in
a life of a table, and no two snapshots are equal.

    this commit                                 others
    knows snapshot 7; 8 does not exist
    writes its lists on top of 7, sleeps        commit 8 and 9; expiry removes 7 and 8
    may_follow(7): 7 is gone ─► retries         (otherwise snapshot-8 could be published, beside 9)

    writes its lists on top of 7, sleeps        another client rolls back to 6 and commits its own 7
    may_follow(7): another 7 ─► retries         (otherwise the files of the old 7 would come back)

Thread-safe: the cached snapshot is only where a search begins. Raises NotFoundError if the table no longer exists,
InvalidError for another table than the one that was opened, and the errors of reading snapshots and schemas.
"""

from __future__ import annotations

from dataclasses import dataclass

from widetable.commit.notes.skipped_files import or_none
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
    """The newest schema and snapshot at one moment. The schema may be newer than that of the snapshot.

    latest: None for a table without snapshots.
    """

    schema: TableSchema
    latest: Snapshot | None


class TableHead:
    """The head of one life of a table. identity: of that life.

    The identity is read once, when the table is opened; later reads compare the table at the path with it.
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
            latest = None  # a table that has lost its snapshots can be opened, to repair it
        self.identity = table_identity(file_io, paths)
        self.remember(latest)
        schemas.latest(latest.schema_id if latest else None)

    def refresh(self) -> HeadState:
        """Read the head. The first schema is read only if the newest snapshot is not the cached one, which proves the
        table by itself.
        """
        latest = self._snapshots.latest()
        if latest is None or latest != self._cached:
            # A dropped table must not come back, and one that was made again has other columns.
            check_identity(self._file_io, self._paths, self.identity)
        self.remember(latest)
        return HeadState(self._schemas.latest(), latest)

    def expected(self) -> HeadState:
        """Return the head on which to build the next snapshot; `may_follow` checks it before the publish."""
        cached = self._cached
        if cached is None or self._snapshots.has_successor(cached.id):
            return self.refresh()
        return HeadState(self._schemas.latest(), cached)

    def may_follow(self, base: Snapshot | None) -> bool:
        """Return whether a snapshot after `base` may be published; if not, the commit must refresh the head.

        False if the id after `base` was used and has expired while the commit slept, if the table went back meanwhile,
        or is another one.
        """
        self.remember(None)  # whatever is raised below, nothing is cached afterwards
        if base is None:
            check_identity(self._file_io, self._paths, self.identity)
            return not self._snapshots.ids()
        is_there = or_none(self._snapshots.load, base.id) == base
        self.remember(base if is_there else None)
        return is_there

    def remember(self, snapshot: Snapshot | None) -> None:
        """Cache the newest snapshot of this table; None: it is not known."""
        if snapshot is not None:
            self._snapshots.look_first_at(snapshot.id)
        # A branch that was dropped and made again from a snapshot has an equal one.
        self._cached = snapshot if self._paths.branch == MAIN_BRANCH else None
