"""Compaction requests: notes that ask the next compaction to move the level-0 files up, with their changelog.

On disk (other clients ignore these files):

    service/widetable-compaction-wanted-<uuid> = JSON object {"process": identity, or null}
    service/widetable-compaction-wanted        = the same without a process (older)

process: the process that serves the request itself for as long as it lives. Such a request is open to other processes
when that process has ended, or cannot be observed from here and the note is so old that it must have. A request without
a process is open at once. A compactor reads the open requests first and removes them afterwards, so a compactor that is
killed in between leaves them to the next one. Raises StorageError.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_anything
from widetable.commit.notes.process_identity import has_ended, this_process, would_be_seen
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO, FileStatus
from widetable.storage.paths import TablePaths

_NAME: Final = "widetable-compaction-wanted"
_NOTE: Final = JsonNote(
    "note", {"process": is_anything}, "Nothing: it counts as a request without a process."
)
# After this time other processes repeat the work of a process of another machine, which does no harm.
_UNKNOWN_MILLIS: Final = 600_000


class CompactionRequests:
    """The requests of one table. Stateless: every call reads the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths, clock: Clock | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._clock = clock or SystemClock()

    def add(self, *, is_own: bool) -> str:
        """Write a request and return its path. is_own: this process serves it itself, for as long as it lives."""
        path = self._paths.compaction_request(str(uuid.uuid4()))
        process = this_process() if is_own else None
        # Not synced to the disk: it is for processes that outlive this one, not for the time after a power loss.
        self._file_io.replace(path, _NOTE.to_json(path, {"process": process}), durable=False)
        return path

    def all(self) -> list[str]:
        """Return the paths of all requests; a compaction of everything that is due serves them."""
        return list(self._notes())

    def open(self) -> list[str]:
        """Return the paths of the requests that any process should serve."""
        return [path for path, entry in self._notes().items() if self._is_open(path, entry)]

    def is_there(self, path: str) -> bool:
        """Return whether the request is still there; False when it was served."""
        return self._file_io.exists(path)

    def forget(self, paths: Iterable[str]) -> None:
        """Remove requests that are served or given up."""
        for path in paths:
            self._file_io.delete(path)

    def _notes(self) -> dict[str, FileStatus]:
        """Return the files of all requests by path."""
        folder = self._paths.service_dir
        entries = (each for each in self._file_io.list(folder) if each.name.startswith(_NAME))
        return {f"{folder}/{entry.name}": entry for entry in entries}

    def _is_open(self, path: str, entry: FileStatus) -> bool:
        try:
            note = _NOTE.read(self._file_io, path)
        except DamagedError:
            return True
        if note is None:
            return False
        process = note["process"]
        if not isinstance(process, str) or has_ended(process):
            return True
        age_millis = self._clock.now_nanos() // 1_000_000 - entry.modified_millis
        return age_millis > _UNKNOWN_MILLIS and not would_be_seen(process)
