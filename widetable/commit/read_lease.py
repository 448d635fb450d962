"""Leases of readers: for a while, expiry leaves the snapshot that one holds, and all later ones (law 6).

For readers without a consumer: a long scan, a stream that keeps its progress elsewhere. On disk (other clients never
look there):

    service/widetable-read-lease-<uuid> = JSON object {"snapshot_id": the first snapshot that is still needed,
                                                       "expires_millis": wall clock since the epoch}

A reader first writes its lease, then looks whether its snapshot is there and not yet chosen by an expiry; an expiry
first notes what it chose (`retired_snapshots`), then looks for leases (docs/decisions/0009-expiry.md): one of
the two sees the other. A lease that has run out, or that cannot be read, holds nothing; `forget_expired` removes it.
Clocks that disagree only make a lease longer or shorter. Raises NotFoundError for a snapshot that has expired,
InvalidError, StorageError.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Final

from widetable.commit.clock import Clock, SystemClock
from widetable.commit.retired_snapshots import RetiredSnapshots
from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import InvalidError, NotFoundError
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO

_PREFIX: Final = "widetable-read-lease-"


@dataclass(frozen=True)
class _Held:
    snapshot_id: int
    expires_millis: int

    def to_json(self) -> bytes:
        body = {"snapshot_id": self.snapshot_id, "expires_millis": self.expires_millis}
        return json.dumps(body).encode()


class ReadLease:
    """Made by `hold`. It runs out `duration_millis` after it was taken, moved or last renewed. Not thread-safe."""

    def __init__(
        self, file_io: FileIO, path: str, snapshot_id: int, duration_millis: int, clock: Clock
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._snapshot_id = snapshot_id
        self._duration_millis = duration_millis
        self._clock = clock
        self._expires_millis = 0

    @property
    def snapshot_id(self) -> int:
        """The first snapshot that is held."""
        return self._snapshot_id

    @property
    def expires_millis(self) -> int:
        """When it runs out, epoch milliseconds."""
        return self._expires_millis

    def move(self, snapshot_id: int) -> bool:
        """Hold only the snapshots from `snapshot_id` on, and renew. Going back is an InvalidError: what was let go
        may have expired.
        """
        if snapshot_id < self._snapshot_id:
            raise InvalidError(
                "snapshot_id",
                found=f"{snapshot_id}, before {self._snapshot_id}",
                expected="the held snapshot or a later one",
                action="Take a new lease.",
            )
        self._snapshot_id = snapshot_id
        return self.renew()

    def renew(self) -> bool:
        """Start the duration again. False when it had run out before: snapshots may have expired meanwhile, so look
        whether the next one is there.
        """
        now_millis = _now_millis(self._clock)
        in_time = now_millis < self._expires_millis
        self._expires_millis = now_millis + self._duration_millis
        held = _Held(self._snapshot_id, self._expires_millis)
        self._file_io.replace(self._path, held.to_json())
        return in_time

    def release(self) -> None:
        """Let go. May be called again."""
        self._file_io.delete(self._path)
        self._expires_millis = 0


def hold(
    file_io: FileIO,
    paths: TablePaths,
    snapshot_id: int,
    duration_millis: int,
    clock: Clock | None = None,
) -> ReadLease:
    """Keep `snapshot_id` and all later ones from expiry for `duration_millis`; it may be one that is yet to come.

    Raises NotFoundError when it has expired, or an expiry is about to take it.
    """
    path = paths.read_lease(str(uuid.uuid4()))
    lease = ReadLease(file_io, path, snapshot_id, duration_millis, clock or SystemClock())
    lease.renew()
    if _is_gone(file_io, paths, snapshot_id):
        lease.release()
        earliest = SnapshotStore(file_io, paths).earliest_id()
        raise NotFoundError(
            paths.snapshot(snapshot_id),
            found="an expired snapshot",
            expected=f"a snapshot that is still kept, from {earliest} on",
            action="Read a newer snapshot, or a tag.",
        )
    return lease


def held_snapshots(file_io: FileIO, paths: TablePaths, clock: Clock | None = None) -> list[int]:
    """The snapshots that leases hold which have not run out, ascending."""
    now_millis = _now_millis(clock or SystemClock())
    found = [_read(file_io, path) for path, _ in _lease_files(file_io, paths)]
    return sorted(
        held.snapshot_id for held in found if held is not None and held.expires_millis > now_millis
    )


def forget_expired(
    file_io: FileIO, paths: TablePaths, expired_for_millis: int, clock: Clock | None = None
) -> list[str]:
    """Remove leases that ran out at least so long ago, and unreadable ones as old; their paths."""
    limit_millis = _now_millis(clock or SystemClock()) - expired_for_millis
    forgotten = []
    for path, modified_millis in _lease_files(file_io, paths):
        held = _read(file_io, path)
        ended_millis = modified_millis if held is None else held.expires_millis
        if ended_millis <= limit_millis and file_io.delete(path):
            forgotten.append(path)
    return forgotten


def _lease_files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, int]]:
    """(path, modified_millis) of all."""
    return [
        (f"{paths.service_dir}/{entry.name}", entry.modified_millis)
        for entry in file_io.list(paths.service_dir)
        if entry.name.startswith(_PREFIX)
    ]


def _is_gone(file_io: FileIO, paths: TablePaths, snapshot_id: int) -> bool:
    if RetiredSnapshots(file_io, paths).is_noted(snapshot_id):
        return True
    if file_io.exists(paths.snapshot(snapshot_id)):
        return False
    latest_id = SnapshotStore(file_io, paths).latest_id()
    return latest_id is not None and snapshot_id <= latest_id


def _read(file_io: FileIO, path: str) -> _Held | None:
    """None for a lease that is not there or cannot be read."""
    try:
        body = json.loads(file_io.read(path))
        return _Held(int(body["snapshot_id"]), int(body["expires_millis"]))
    except (NotFoundError, ValueError, TypeError, KeyError):
        return None


def _now_millis(clock: Clock) -> int:
    return clock.now_nanos() // 1_000_000
