"""Notes that somebody wants the level-0 files moved up, with their changelog: by whoever compacts next.

On disk (other clients never look there):

    service/widetable-compaction-wanted-<uuid> = JSON object {"process": identity, or null}
    service/widetable-compaction-wanted        = the same without a process (older)

process: who does it by itself, for as long as it lives. Such a note is open to others when that process has ended, or
when nothing is known of it for so long that it must have; one without a process is open at once. Who compacts looks for
open notes first, and removes them afterwards: so whoever is killed in between leaves them to the next. Raises
StorageError.
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
_NOTE: Final = JsonNote("note", {"process": is_anything}, "Nothing: it is taken for one of nobody.")
# What a process of another machine has not done in this time is done again by others, which does no harm.
_UNKNOWN_MILLIS: Final = 600_000


class CompactionWishes:
    """Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths, clock: Clock | None = None) -> None:
        self._file_io = file_io
        self._paths = paths
        self._clock = clock or SystemClock()

    def add(self, *, is_own: bool) -> str:
        """Note a wish; its path. is_own: this process does it itself, for as long as it lives."""
        path = self._paths.compaction_wanted(str(uuid.uuid4()))
        process = this_process() if is_own else None
        # Not forced to the disk: it is for those that outlive this process, not the machine.
        self._file_io.replace(path, _NOTE.to_json(path, {"process": process}), durable=False)
        return path

    def all(self) -> list[str]:
        """The paths of all notes: who compacts all that is due now answers them."""
        return list(self._notes())

    def open(self) -> list[str]:
        """The paths of what anybody should do."""
        return [path for path, entry in self._notes().items() if self._is_open(path, entry)]

    def is_there(self, path: str) -> bool:
        """False when it was answered."""
        return self._file_io.exists(path)

    def forget(self, paths: Iterable[str]) -> None:
        """They are done, or given up."""
        for path in paths:
            self._file_io.delete(path)

    def _notes(self) -> dict[str, FileStatus]:
        """By path."""
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
