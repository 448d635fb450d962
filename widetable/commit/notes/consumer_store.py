"""Consumers: readers whose progress is stored in the table, so that expiry keeps the snapshots that they have not read.

On disk: never change (Paimon `ConsumerManager`; format.md sections 3 and 12):

    consumer/consumer-<id> = JSON object {"nextSnapshot": id of the first snapshot that is not read yet,
                                          "widetable.last-read": mark of the one before (snapshot_mark), where known}

Other clients ignore the second key, and do not write it.

Raises InvalidError for a name that is a path and for progress that is no snapshot id, DamagedError for a file with
other content when it is requested by name, StorageError.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.commit.notes.json_note import JsonNote, is_id, is_text
from widetable.commit.notes.skipped_files import log_skipped, readable
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import (
    CONSUMER_PREFIX,
    TEMPORARY_BYTES,
    TablePaths,
    check_name,
    consumer_name,
)
from widetable.storage.write_access import needs_write_access

_LAST_READ: Final = "widetable.last-read"
_NOTE: Final = JsonNote(
    "consumer file",
    {"nextSnapshot": is_id, _LAST_READ: lambda value: value is None or is_text(value)},
    "The file keeps no snapshot from expiry: delete the consumer, and let it start again.",
)


class ConsumerProgress(NamedTuple):
    """The progress of a consumer. last_read: the mark of the snapshot before the next one; None: not known."""

    next_snapshot: int
    last_read: str | None


class ConsumerStore:
    """The consumers of one table. Stateless: every call reads the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Return the snapshot at which the consumer continues; None if the table has no such consumer."""
        progress = self.progress(consumer_id)
        return None if progress is None else progress.next_snapshot

    def progress(self, consumer_id: str) -> ConsumerProgress | None:
        """Return the progress of a consumer; None if the table has no such consumer."""
        values = _NOTE.read(self._file_io, self._path(consumer_id))
        return (
            None
            if values is None
            else ConsumerProgress(int(values["nextSnapshot"]), values[_LAST_READ])
        )

    def record(self, consumer_id: str, next_snapshot: int, last_read: str | None = None) -> None:
        """Store that all snapshots before `next_snapshot` are read. It may decrease, for a consumer that reads again.

        last_read: the mark of the snapshot before, if it is known.
        """
        path = self._path(consumer_id)
        values = {"nextSnapshot": next_snapshot}
        named = values if last_read is None else {**values, _LAST_READ: last_read}
        data = _NOTE.to_json(f"consumer {consumer_id!r}", named)
        with needs_write_access(
            "a consumer's progress; a reader without a consumer_id writes none"
        ):
            self._file_io.replace(path, data)

    def renew(self, consumer_id: str) -> None:
        """Update the time of the last progress of a consumer that is running and has nothing to read."""
        progress = self.progress(consumer_id)
        if progress is not None:
            self.record(consumer_id, *progress)

    def check_new(self, consumer_id: str) -> None:
        """Raise InvalidError for a name that a consumer cannot have, before it has made progress."""
        check_name(consumer_id, "consumer", len(CONSUMER_PREFIX) + TEMPORARY_BYTES)

    def delete(self, consumer_id: str, *, dry_run: bool = False) -> bool:
        """Delete a consumer; return whether there was one. dry_run: only check."""
        path = self._path(consumer_id)
        return self._file_io.exists(path) if dry_run else self._file_io.delete(path)

    def idle(self, before_millis: int) -> list[str]:
        """Return the consumers whose last progress was recorded before that time (epoch), sorted by name."""
        return [name for name, millis in self.times().items() if millis < before_millis]

    def times(self) -> dict[str, int]:
        """Return when each consumer last recorded progress, epoch milliseconds, by name.

        Files whose names are not those of consumers are left out.
        """
        entries = self._file_io.list(self._paths.consumer_dir)
        named = ((consumer_name(entry.name), entry.modified_millis) for entry in entries)
        return {name: millis for name, millis in named if name is not None}

    def all(self) -> dict[str, int]:
        """Return the next snapshot of each consumer, sorted by name. Unreadable consumers are skipped and logged."""
        consumers, damaged = readable(self.times(), self.next_snapshot)
        for damage in damaged:
            log_skipped(damage)
        return consumers

    def damaged(self) -> list[DamagedError]:
        """Return an error for each consumer that cannot be read."""
        return readable(self.times(), self.next_snapshot)[1]

    def _path(self, consumer_id: str) -> str:
        return self._paths.consumer(check_name(consumer_id, "consumer", len(CONSUMER_PREFIX)))
