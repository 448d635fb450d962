"""Leases of readers: expiry keeps the snapshot of a lease and all later ones (law 6).

They serve readers without a consumer: a long scan, a stream that stores its progress elsewhere. On disk (other clients
ignore these files):

    service/widetable-read-lease-<uuid> = JSON object {"snapshot_id": the first snapshot that is still needed,
                                                       "expires_millis": wall clock since the epoch,
                                                       "process": identity, or null}

A lease is renewed while its object is referenced (`lease_renewal`), and removed when that is released or
garbage-collected, or the process ends; a lease of a killed process is invalid (`lease_term`). A reader first writes its
lease, then checks that its snapshot exists and that no expiry has chosen it. An expiry first notes the snapshots that
it chose (`retired_snapshots`), then reads the leases (docs/decisions/0009-expiry.md): so one of the two sees the other.
A lease that is not active or cannot be read keeps nothing; `forget_expired` removes it. Raises NotFoundError for a
snapshot that has expired, InvalidError, StorageError.
"""

from __future__ import annotations

import logging
import uuid
import weakref
from typing import Final

from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_anything, is_id, is_whole
from widetable.commit.notes.lease_file import LeaseFile
from widetable.commit.notes.lease_renewal import LEASE_RENEWAL
from widetable.commit.notes.lease_term import Hold, LeaseState, NotedLease, from_now, read_hold
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, InvalidError, NotFoundError, StorageError
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

# A lease with more than twice this time left is ignored.
LONGEST_MILLIS: Final = 3_600_000
_PREFIX: Final = "widetable-read-lease-"
_NOTE: Final = JsonNote(
    "read lease",
    {"snapshot_id": is_id, "expires_millis": is_whole, "process": is_anything},
    "Nothing: it keeps no snapshot, and the next expiry removes it.",
)
_log = logging.getLogger("widetable")


class ReadLease:
    """A lease of a reader, made by `hold`. It expires `duration_millis` after it was taken, moved or last renewed. It
    belongs to the process that took it: in a forked child it keeps nothing. One thread may use it, besides the thread
    that renews it.

    snapshot_id: the first snapshot that it keeps. expires_millis: when it expires, since the epoch.
    """

    def __init__(
        self, file_io: FileIO, path: str, snapshot_id: int, duration_millis: int, clock: Clock
    ) -> None:
        self._path = path
        self.snapshot_id = snapshot_id
        self.duration_millis = duration_millis
        self._clock = clock
        self.expires_millis = 0
        self._file = LeaseFile(file_io, path)
        # A lease that is no longer referenced keeps nothing, also at the end of the process.
        weakref.finalize(self, _release_quietly, self._file)

    @property
    def name(self) -> str:
        """The unique part of its file name (`TablePaths.read_lease`)."""
        return self._path.rpartition(_PREFIX)[2]

    @property
    def is_ours(self) -> bool:
        """Whether this process took it and has not released it."""
        return self._file.is_ours

    def move(self, snapshot_id: int) -> bool:
        """Keep only the snapshots from `snapshot_id` on, and renew; return as `renew` does.

        Raises InvalidError for an earlier snapshot than now: it may have expired.
        """
        if snapshot_id < self.snapshot_id:
            raise InvalidError(
                "snapshot_id",
                found=f"{snapshot_id}, before {self.snapshot_id}",
                expected="the snapshot of the lease or a later one",
                action="Take a new lease.",
            )
        self.snapshot_id = snapshot_id
        return self.renew()

    def renew(self) -> bool:
        """Start the duration again. Return False if the lease had expired before: snapshots may have expired meanwhile,
        so the caller must check that its next one exists.
        """
        before_millis = self.expires_millis
        now_millis = _now_millis(self._clock)
        return self._file.write(self._from_now) and now_millis < before_millis

    def release(self) -> None:
        """Release the lease. May be called again."""
        LEASE_RENEWAL.stop(self)
        self._file.remove()
        self.expires_millis = 0

    def _from_now(self) -> bytes:
        values = {"snapshot_id": self.snapshot_id, **from_now(self.duration_millis, self._clock)}
        data = _NOTE.to_json(self._path, values)
        self.expires_millis = values["expires_millis"]
        return data


def hold(
    file_io: FileIO,
    paths: TablePaths,
    snapshot_id: int,
    duration_millis: int = LONGEST_MILLIS,
    clock: Clock | None = None,
    *,
    renews: bool = True,
) -> ReadLease:
    """Keep `snapshot_id`, which may not exist yet, and all later snapshots from expiry.

    duration_millis: how long the lease outlives this process where the end of the process cannot be seen; at most
    LONGEST_MILLIS. renews: automatically while the object is referenced. Raises NotFoundError if the snapshot has
    expired, or an expiry is about to remove it.
    """
    path = paths.read_lease(str(uuid.uuid4()))
    lease = ReadLease(file_io, path, snapshot_id, duration_millis, clock or SystemClock())
    try:
        lease.renew()
        is_gone = _is_gone(file_io, paths, snapshot_id)
    except BaseException:
        _release_quietly(lease)
        raise
    if is_gone:
        lease.release()
        earliest = SnapshotStore(file_io, paths).earliest_id()
        raise NotFoundError(
            paths.snapshot(snapshot_id),
            found="an expired snapshot",
            expected=f"a snapshot that is still kept, from {earliest} on",
            action="Read a newer snapshot, or a tag; restart a stream with a new checkpoint.",
            code=ErrorCode.SNAPSHOT_EXPIRED,
        )
    if renews:
        LEASE_RENEWAL.start(lease)
    return lease


def hold_if_taken(
    file_io: FileIO,
    paths: TablePaths,
    snapshot_id: int,
    duration_millis: int = LONGEST_MILLIS,
    clock: Clock | None = None,
    *,
    renews: bool = True,
) -> ReadLease | None:
    """Take a lease as `hold` does; return None if the storage takes none, such as a read-only one, which is logged.

    A reader without a lease reads as long as expiry keeps its snapshot. Raises NotFoundError as `hold` does.
    """
    try:
        return hold(file_io, paths, snapshot_id, duration_millis, clock, renews=renews)
    except StorageError as error:
        _log.info("snapshot %d of %s is read without a lease: %s", snapshot_id, paths.root, error)
        return None


def held_snapshots(file_io: FileIO, paths: TablePaths, clock: Clock | None = None) -> list[int]:
    """Return the snapshots that active leases keep, ascending."""
    leases = noted_read_leases(file_io, paths, clock)
    return sorted(one.snapshot_id or 0 for one in leases if one.lease_state is LeaseState.ACTIVE)


def forget_expired(
    file_io: FileIO, paths: TablePaths, expired_for_millis: int, clock: Clock | None = None
) -> list[str]:
    """Remove leases that ended at least so long ago, and unreadable ones of that age; return their paths."""
    clock = clock or SystemClock()
    limit_millis = _now_millis(clock) - expired_for_millis
    return [
        one.path
        for one in _leases(file_io, paths, clock)
        if one.ended_millis is not None
        and one.ended_millis <= limit_millis
        and file_io.delete(one.path)
    ]


def noted_read_leases(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None
) -> list[NotedLease]:
    """Return all leases that can be read, active or not. owner: the process, if it is known."""
    return [one.noted for one in _leases(file_io, paths, clock) if one.noted is not None]


def damaged_read_leases(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Return an error for each lease that cannot be read."""
    return _NOTE.damaged(file_io, (path for path, _ in _files(file_io, paths)))


def _leases(file_io: FileIO, paths: TablePaths, clock: Clock | None) -> list[Hold]:
    clock = clock or SystemClock()
    leases = (
        read_hold("read", _NOTE, file_io, path, modified_millis, LONGEST_MILLIS, clock)
        for path, modified_millis in _files(file_io, paths)
    )
    return [one for one in leases if one is not None]


def _files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, int]]:
    """Return (path, modified_millis) of all leases."""
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


def _release_quietly(lease: LeaseFile | ReadLease) -> None:
    """Release a lease where no caller can handle an error: if that fails, the lease expires."""
    try:
        lease.remove() if isinstance(lease, LeaseFile) else lease.release()
    except StorageError as refusal:
        _log.info("a read lease was not removed and will expire: %s", refusal)


def _now_millis(clock: Clock) -> int:
    return clock.now_nanos() // 1_000_000
