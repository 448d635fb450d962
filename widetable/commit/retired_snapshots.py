"""Snapshots that expiry has chosen: copies from which it works once their files are gone.

On disk (other clients never look there), the bytes of the snapshot file:

    service/widetable-retired-snapshot-<id>

A copy is made before the snapshot's file is removed, so at every moment a snapshot is whole, or its copy says which
files are still to be deleted (docs/decisions/0009-expiry.md). The copy of a snapshot that is there is a note for
readers who want to hold it (read_lease). Raises StorageError, DamagedError for a snapshot file that is none.
"""

from __future__ import annotations

import logging

from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.paths import TablePaths, retired_snapshot_id
from widetable.storage.file_io import FileIO, FileStatus

_log = logging.getLogger("widetable")


class RetiredSnapshots:
    """Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def note(self, id: int) -> bool:
        """Copy a snapshot; False when it is not there any more."""
        path = self._paths.retired_snapshot(id)
        try:
            data = self._file_io.read(self._paths.snapshot(id))
        except NotFoundError:
            return False
        while not self._file_io.publish(path, data):
            try:
                if self._file_io.read(path) == data:
                    break
                # Left from another life of this id: the table was rolled back since.
                self._file_io.delete(path)
            except NotFoundError:
                continue
        return True

    def gone(self, earliest_id: int) -> list[Snapshot]:
        """The copies of snapshots before `earliest_id` whose file is removed, ascending.

        Copies that can be of no use are removed: of ids that the table does not have yet (it was rolled back), and
        unreadable ones; the files that these name are left to the cleaning of orphans.
        """
        ids = sorted(self._ids())
        latest_id = SnapshotStore(self._file_io, self._paths).latest_id() if ids else None
        found = []
        for id in ids:
            if self._exists(id):
                continue
            if latest_id is None or id > latest_id:
                self.forget(id)
                continue
            if id >= earliest_id:
                continue  # another expiry has gone on since the earliest one was looked up
            path = self._paths.retired_snapshot(id)
            try:
                snapshot = snapshot_from_json(self._file_io.read(path), path)
            except NotFoundError:
                continue
            except DamagedError as cause:
                _log.warning(
                    "files of an expired snapshot are left to remove_orphan_files: %s", cause
                )
                self.forget(id)
                continue
            found.append(snapshot)
        return found

    def withdraw(self, end: int, before_millis: int) -> None:
        """Remove copies of snapshots that stay: from `end` on, made before that time by an expiry that never ended."""
        for id, entry in self._ids().items():
            if id >= end and entry.modified_millis < before_millis and self._exists(id):
                self.forget(id)

    def forget(self, id: int) -> None:
        """Remove the copy: all files of the snapshot are deleted."""
        self._file_io.delete(self._paths.retired_snapshot(id))

    def _exists(self, id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(id))

    def _ids(self) -> dict[int, FileStatus]:
        entries = self._file_io.list(self._paths.service_dir)
        found = ((retired_snapshot_id(entry.name), entry) for entry in entries)
        return {id: entry for id, entry in found if id is not None}
