"""Snapshots that expiry has chosen: notes from which it continues once the files of the snapshots are removed.

On disk (other clients ignore these files), a hard link to the snapshot's file, so that it needs no room on a full disk:

    service/widetable-retired-snapshot-<id>-<random, of one expiry>        (older notes have no -<random>)

A note is made before the snapshot's file is removed. So at every moment a snapshot is complete, or its notes tell which
files are still to be deleted (docs/decisions/0009-expiry.md). Every expiry has its own notes, and withdraws them if it
keeps the snapshot. So an expiry that has seen no reader has a note of the snapshot until it has removed it. The note of
an existing snapshot warns readers that want to take a lease (`read_lease`). Raises StorageError.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from typing import Final

from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError, StorageError
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.messages.warning_code import WarningCode, warn
from widetable.runtime.derived_value import derived_value
from widetable.storage.file_io import FileIO, FileStatus
from widetable.storage.paths import TablePaths, retired_snapshot_id

_log = logging.getLogger("widetable")


class RetiredSnapshots:
    """The notes of a table; the object makes and withdraws those of one expiry."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._by: Final = uuid.uuid4().hex
        self._own: set[int] = set()

    def note(self, id: int) -> bool:
        """Make a note of a snapshot; return False if the snapshot no longer exists.

        Notes of other expiries are listed once for this one, and read if they are of this snapshot.
        """
        path = self._paths.retired_snapshot(id, self._by)
        self._own.add(id)  # a storage that fails may have made the note
        try:
            self._file_io.link(self._paths.snapshot(id), path)
        except NotFoundError:
            return False
        for noted, entry in self._other_notes:
            if noted == id and self._file_io.read(self._path(entry)) != self._file_io.read(path):
                self._remove(
                    entry
                )  # of another snapshot with this id: the table was rolled back since
        return True

    def is_noted(self, id: int) -> bool:
        """Return whether an expiry may be about to remove this snapshot."""
        return id in self.noted()

    def noted(self) -> set[int]:
        """Return the snapshots that an expiry may be about to remove, and those that it has removed."""
        return {id for id, _ in self._notes()}

    def gone(self, earliest_id: int) -> list[Snapshot]:
        """Return the noted snapshots before `earliest_id` whose file is removed, by id.

        Useless notes are removed: those of ids that the table does not have yet (it was rolled back), and unreadable
        ones. The files of a snapshot with an unreadable note are left to the removal of orphans.
        """
        notes = self._notes()
        latest_id = SnapshotStore(self._file_io, self._paths).latest_id() if notes else None
        by_content: dict[bytes, Snapshot] = {}
        for id, entry in notes:
            if self._exists(id):
                continue
            if latest_id is None or id > latest_id:
                self._remove(entry)
                continue
            if id >= earliest_id:
                continue  # another expiry has continued since the earliest id was looked up
            path = self._path(entry)
            try:
                data = self._file_io.read(path)
                by_content[data] = snapshot_from_json(data, path)
            except NotFoundError:
                continue
            except DamagedError as cause:
                warn(
                    _log,
                    WarningCode.FILE_NOT_REMOVED,
                    "files of an expired snapshot are left to remove_orphan_files: %s",
                    cause,
                )
                self._remove(entry)
        return list(by_content.values())

    def withdraw_own(self, removed: Iterable[int] = ()) -> None:
        """Remove the notes of this expiry whose snapshots still exist: it no longer acts on them.

        removed: snapshots that it has removed, which are not checked.
        """
        for id in sorted(self._own.difference(removed)):
            try:
                if self._exists(id):
                    self._file_io.delete(self._paths.retired_snapshot(id, self._by))
            except StorageError as refusal:
                warn(
                    _log,
                    WarningCode.NOTE_NOT_REMOVED,
                    "the note of a snapshot that is kept is left to the next expiry: %s",
                    refusal,
                )
        self._own.clear()

    def withdraw(self, before_millis: int) -> None:
        """Remove the notes of existing snapshots that were made before that time, by an expiry that never ended."""
        for id, entry in self._notes():
            if entry.named_millis < before_millis and self._exists(id):
                self._remove(entry)

    def forget(self, id: int) -> None:
        """Remove all notes of a snapshot whose files are all deleted."""
        for noted, entry in self._notes():
            if noted == id:
                self._remove(entry)

    @derived_value
    def _other_notes(self) -> list[tuple[int, FileStatus]]:
        """Notes of other expiries, as of the first call."""
        return [note for note in self._notes() if not note[1].name.endswith(self._by)]

    def _exists(self, id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(id))

    def _remove(self, entry: FileStatus) -> None:
        self._file_io.delete(self._path(entry))

    def _path(self, entry: FileStatus) -> str:
        return f"{self._paths.service_dir}/{entry.name}"

    def _notes(self) -> list[tuple[int, FileStatus]]:
        """Return (id, file) of all notes, ascending."""
        entries = self._file_io.list(self._paths.service_dir)
        ids = ((retired_snapshot_id(entry.name), entry) for entry in entries)
        notes = [(id, entry) for id, entry in ids if id is not None]
        return sorted(notes, key=lambda note: (note[0], note[1].name))
