"""Consumers: readers whose progress is kept in the table, so that expiry leaves what they have not read.

On disk: never change (Paimon `ConsumerManager`; format.md sections 3 and 12):

    consumer/consumer-<id> = JSON object {"nextSnapshot": id of the first snapshot that is not read yet}

Raises InvalidError for a name that is a path, DamagedError for a file that is no such JSON, StorageError.
"""

from __future__ import annotations

import json
from typing import Final

from widetable.errors import DamagedError, InvalidError, NotFoundError
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO

_PREFIX: Final = "consumer-"


class ConsumerStore:
    """Without state: every call looks at the storage."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Where the consumer goes on; None for one that the table does not know."""
        path = self._path(consumer_id)
        try:
            data = self._file_io.read(path)
        except NotFoundError:
            return None
        try:
            found = json.loads(data)["nextSnapshot"]
        except (ValueError, TypeError, KeyError) as cause:
            raise _damaged(path) from cause
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise _damaged(path)
        return found

    def record(self, consumer_id: str, next_snapshot: int) -> None:
        """All snapshots before `next_snapshot` are read. May go back, for a consumer that reads again."""
        body = json.dumps({"nextSnapshot": next_snapshot}).encode()
        self._file_io.replace(self._path(consumer_id), body)

    def delete(self, consumer_id: str) -> bool:
        """Forget a consumer; whether there was one."""
        return self._file_io.delete(self._path(consumer_id))

    def idle(self, before_millis: int) -> list[str]:
        """Consumers whose last progress was recorded before that time (epoch), sorted by name."""
        entries = self._file_io.list(self._paths.consumer_dir)
        idle = [entry.name for entry in entries if entry.modified_millis < before_millis]
        return [name[len(_PREFIX) :] for name in idle if name.startswith(_PREFIX)]

    def all(self) -> dict[str, int]:
        """Consumer to its next snapshot, sorted by name."""
        entries = self._file_io.list(self._paths.consumer_dir)
        names = [e.name[len(_PREFIX) :] for e in entries if e.name.startswith(_PREFIX)]
        found = {name: self.next_snapshot(name) for name in names}
        return {name: next_id for name, next_id in found.items() if next_id is not None}

    def _path(self, consumer_id: str) -> str:
        if not consumer_id.strip() or "/" in consumer_id or "\\" in consumer_id:
            raise InvalidError(
                f"consumer {consumer_id!r}",
                found="a blank name or a path",
                expected="a name that is none of these",
                action="Use another consumer id.",
            )
        return self._paths.consumer(consumer_id)


def _damaged(path: str) -> DamagedError:
    return DamagedError(
        path,
        found="no consumer file",
        expected='{"nextSnapshot": a snapshot id}',
        action="Delete the file, and let the consumer start anew.",
    )
