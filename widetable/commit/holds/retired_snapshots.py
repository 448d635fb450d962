"""Snapshots that expiry has chosen: notes of them from which it works once their files are gone.

On disk (other clients never look there), another name of the snapshot's file, so that it takes no room on a full disk:

    service/widetable-retired-snapshot-<id>-<random, of one expiry>        (-<random> is not there in older notes)

A note is made before the snapshot's file is removed, so at every moment a snapshot is whole, or its notes say which
files are still to be deleted (docs/decisions/0009-expiry.md). Every expiry has notes of its own, and takes them back
when it leaves the snapshot; so who has seen no reader and is about to remove a snapshot has a note of it all the time.
The note of a snapshot that is there warns readers who want to hold it (read_lease). Raises StorageError.
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
    """The notes of a table, those of one expiry among them."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._by: Final = uuid.uuid4().hex
        self._own: set[int] = set()

    def note(self, id: int) -> bool:
        """Make a note of a snapshot; False when it is not there any more.

        Notes of others are listed once for this expiry, and read where they are of this snapshot.
        """
        path = self._paths.retired_snapshot(id, self._by)
        self._own.add(id)  # a storage that fails may have made it
        try:
            self._file_io.link(self._paths.snapshot(id), path)
        except NotFoundError:
            return False
        for noted, entry in self._of_others:
            if noted == id and self._file_io.read(self._path(entry)) != self._file_io.read(path):
                self._remove(entry)  # of another life of this id: the table was rolled back since
        return True

    def is_noted(self, id: int) -> bool:
        """Whether some expiry may be about to remove this snapshot."""
        return id in self.noted()

    def noted(self) -> set[int]:
        """The snapshots that some expiry may be about to remove, and those that it has removed."""
        return {id for id, _ in self._notes()}

    def gone(self, earliest_id: int) -> list[Snapshot]:
        """What the notes of snapshots before `earliest_id` say whose file is removed, by id.

        Notes that can be of no use are removed: of ids that the table does not have yet (it was rolled back), and
        unreadable ones; the files that these name are left to the cleaning of orphans.
        """
        notes = self._notes()
        latest_id = SnapshotStore(self._file_io, self._paths).latest_id() if notes else None
        found: dict[bytes, Snapshot] = {}
        for id, entry in notes:
            if self._is_there(id):
                continue
            if latest_id is None or id > latest_id:
                self._remove(entry)
                continue
            if id >= earliest_id:
                continue  # another expiry has gone on since the earliest one was looked up
            path = self._path(entry)
            try:
                data = self._file_io.read(path)
                found[data] = snapshot_from_json(data, path)
            except NotFoundError:
                continue
            except DamagedError as cause:
                warn(
                    _log,
                    WarningCode.FILE_LEFT,
                    "files of an expired snapshot are left to remove_orphan_files: %s",
                    cause,
                )
                self._remove(entry)
        return list(found.values())

    def withdraw_own(self, removed: Iterable[int] = ()) -> None:
        """Take the notes of this expiry back whose snapshots are there: it does not act on them any more.

        removed: snapshots that it has removed, which need no look.
        """
        for id in sorted(self._own.difference(removed)):
            try:
                if self._is_there(id):
                    self._file_io.delete(self._paths.retired_snapshot(id, self._by))
            except StorageError as refusal:
                warn(
                    _log,
                    WarningCode.NOTE_STAYS,
                    "the note of a snapshot that stays is left to the next: %s",
                    refusal,
                )
        self._own.clear()

    def withdraw(self, before_millis: int) -> None:
        """Remove notes of snapshots that are there, made before that time by an expiry that never ended."""
        for id, entry in self._notes():
            if entry.named_millis < before_millis and self._is_there(id):
                self._remove(entry)

    def forget(self, id: int) -> None:
        """Remove all notes of a snapshot: all of its files are deleted."""
        for noted, entry in self._notes():
            if noted == id:
                self._remove(entry)

    @derived_value
    def _of_others(self) -> list[tuple[int, FileStatus]]:
        """Notes that others left, when this expiry began."""
        return [note for note in self._notes() if not note[1].name.endswith(self._by)]

    def _is_there(self, id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(id))

    def _remove(self, entry: FileStatus) -> None:
        self._file_io.delete(self._path(entry))

    def _path(self, entry: FileStatus) -> str:
        return f"{self._paths.service_dir}/{entry.name}"

    def _notes(self) -> list[tuple[int, FileStatus]]:
        """(id, file), ascending."""
        entries = self._file_io.list(self._paths.service_dir)
        ids = ((retired_snapshot_id(entry.name), entry) for entry in entries)
        notes = [(id, entry) for id, entry in ids if id is not None]
        return sorted(notes, key=lambda note: (note[0], note[1].name))
