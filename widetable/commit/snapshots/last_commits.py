"""The last commits of each user, kept when our last snapshot expires while only other clients commit.

A snapshot of ours records the last commit of each user (`committed`); one of another client does not, so a search
continues behind it. If no kept snapshot recorded them, a replayed commit would count twice. So expiry keeps the newest
expired snapshot that does:

    snapshots 3 (ours) 4 5 6 (another client's); expiry of 3 and 4
        keep     3 is linked to widetable-last-commits, then 3 and 4 are removed
        a commit of ours reads 6, 5, then load(4): 4 has expired, 3 is returned for it, and the search
        ends there

On disk (other clients ignore it), a hard link to that snapshot's file, which needs no room on a full disk:

    service/widetable-last-commits

Raises the errors of reading snapshots, StorageError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.committed import remembers
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths


class LastCommits:
    """The last commits of one table. Stateless: every call reads the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._snapshots = SnapshotStore(file_io, paths)

    def load(self, id: int) -> Snapshot:
        """Return the snapshot of that id; if it has expired, the stored one before it. Raises NotFoundError if none."""
        try:
            return self._snapshots.load(id)
        except NotFoundError:
            remembered = self._remembered()
            if remembered is None or remembered.id > id:
                raise
            return remembered

    def keep(self, going: Iterable[int], staying: Iterable[int]) -> None:
        """Keep the newest of the snapshots that will expire (`going`) that records last commits.

        Does nothing if a snapshot that stays (`staying`) records them. Called before the snapshots are removed.
        """
        if any(map(remembers, self._newest_first(staying))):
            return
        for snapshot in self._newest_first(going):
            if not remembers(snapshot):
                continue
            with contextlib.suppress(NotFoundError):  # another expiry was faster
                source = self._paths.snapshot(snapshot.id)
                self._file_io.link(source, self._paths.last_commits, replace=True)
                return

    def forget_from(self, id: int) -> None:
        """Delete the stored snapshot if its id is this one or later: its history was dropped."""
        remembered = self._remembered()
        if remembered is not None and remembered.id >= id:
            self._file_io.delete(self._paths.last_commits)

    def _newest_first(self, ids: Iterable[int]) -> Iterable[Snapshot]:
        snapshots = (or_none(self._snapshots.load, id) for id in sorted(ids, reverse=True))
        return (one for one in snapshots if one is not None)  # None: another expiry was faster

    def _remembered(self) -> Snapshot | None:
        path = self._paths.last_commits
        data = or_none(self._file_io.read, path)
        return None if data is None else snapshot_from_json(data, path)
