"""The commits that the last snapshot of ours remembered, kept when it expires while only other clients commit.

A snapshot of ours remembers who has committed what (`committed`); one of another client does not, and is walked past.
When no snapshot that is kept remembers, a replayed commit would count twice. So expiry keeps the newest of the
expired snapshots that does:

    snapshots 3 (ours) 4 5 6 (another client's); expiry of 3 and 4
        keep     3 is linked to widetable-last-commits, then 3 and 4 are removed
        a commit of ours asks 6, 5, then load(4): 4 has expired, 3 is given for it, and the walk
        ends there

On disk (other clients never look there), another name of that snapshot's file, which takes no
room on a full disk:

    service/widetable-last-commits

Raises what reading snapshots raises, StorageError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from widetable.commit.notes.skipped_files import if_there
from widetable.commit.snapshots.committed import remembers
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths


class LastCommits:
    """Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._snapshots = SnapshotStore(file_io, paths)

    def load(self, id: int) -> Snapshot:
        """The snapshot of that id; if it has expired, the one before it that is remembered. NotFoundError without."""
        try:
            return self._snapshots.load(id)
        except NotFoundError:
            remembered = self._remembered()
            if remembered is None or remembered.id > id:
                raise
            return remembered

    def keep(self, going: Iterable[int], staying: Iterable[int]) -> None:
        """Before snapshots expire: keep the newest one that remembers, unless one that stays does."""
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
        """Forget the expired snapshot that is remembered, if it is this one or later: its history was dropped."""
        remembered = self._remembered()
        if remembered is not None and remembered.id >= id:
            self._file_io.delete(self._paths.last_commits)

    def _newest_first(self, ids: Iterable[int]) -> Iterable[Snapshot]:
        found = (if_there(self._snapshots.load, id) for id in sorted(ids, reverse=True))
        return (one for one in found if one is not None)  # else another expiry was faster

    def _remembered(self) -> Snapshot | None:
        path = self._paths.last_commits
        data = if_there(self._file_io.read, path)
        return None if data is None else snapshot_from_json(data, path)
