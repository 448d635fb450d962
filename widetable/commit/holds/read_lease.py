"""Leases of readers: expiry leaves the snapshot that one holds, and all later ones (law 6).

For readers without a consumer: a long scan, a stream that keeps its progress elsewhere. On disk (other clients never
look there):

    service/widetable-read-lease-<uuid> = JSON object {"snapshot_id": the first snapshot that is still needed,
                                                       "expires_millis": wall clock since the epoch,
                                                       "process": identity, or null}

It is renewed for as long as its holder has the object (`lease_renewal`), and removed when that is released, collected
as garbage, or the process ends; a process that was killed holds nothing (`lease_term`). A reader first writes its
lease, then looks whether its snapshot is there and not yet chosen by an expiry; an expiry first notes what it chose
(`retired_snapshots`), then looks for leases (docs/decisions/0009-expiry.md): one of the two sees the other. A lease
that is not in force, or that cannot be read, holds nothing; `forget_expired` removes it. Raises NotFoundError for a
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
from widetable.commit.notes.lease_term import Held, LeaseState, NotedLease, from_now, held
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, InvalidError, NotFoundError, StorageError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

# A lease that says that it runs for twice as long is not believed.
LONGEST_MILLIS: Final = 3_600_000
_PREFIX: Final = "widetable-read-lease-"
_NOTE: Final = JsonNote(
    "read lease",
    {"snapshot_id": is_id, "expires_millis": is_whole, "process": is_anything},
    "Nothing: it holds nothing, and the next expiry removes it.",
)
_log = logging.getLogger("widetable")


class ReadLease:
    """Made by `hold`. It runs out `duration_millis` after it was taken, moved or last renewed. Only for the process
    that took it: in a forked child it holds nothing. For one thread, besides the one that renews it.

    snapshot_id: the first that is held. duration_millis: for which it is taken, and renewed. expires_millis: when it
    runs out, epoch.
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
        # A lease that nobody has any more holds nothing, at the end of the process neither.
        weakref.finalize(self, _let_go, self._file)

    @property
    def name(self) -> str:
        """In that of its file, `TablePaths.read_lease`: no other lease has it."""
        return self._path.rpartition(_PREFIX)[2]

    @property
    def is_ours(self) -> bool:
        """Whether this process took it, and has not released it."""
        return self._file.is_ours

    def move(self, snapshot_id: int) -> bool:
        """Hold only the snapshots from `snapshot_id` on, and renew. Going back is an InvalidError: what was let go
        may have expired.
        """
        if snapshot_id < self.snapshot_id:
            raise InvalidError(
                "snapshot_id",
                found=f"{snapshot_id}, before {self.snapshot_id}",
                expected="the held snapshot or a later one",
                action="Take a new lease.",
            )
        self.snapshot_id = snapshot_id
        return self.renew()

    def renew(self) -> bool:
        """Start the duration again. False when it had run out before: snapshots may have expired meanwhile, so look
        whether the next one is there.
        """
        before_millis = self.expires_millis
        now_millis = _now_millis(self._clock)
        return self._file.write(self._from_now) and now_millis < before_millis

    def release(self) -> None:
        """Let go. May be called again."""
        LEASE_RENEWAL.stop(self)
        self._file.remove()
        self.expires_millis = 0

    def _from_now(self) -> bytes:
        said = {"snapshot_id": self.snapshot_id, **from_now(self.duration_millis, self._clock)}
        data = _NOTE.to_json(self._path, said)
        self.expires_millis = said["expires_millis"]
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
    """Keep `snapshot_id` and all later ones from expiry; it may be one that is yet to come.

    duration_millis: how long it outlives this process where nobody sees that the process has ended; at most
    LONGEST_MILLIS. renews: by itself, for as long as the caller has the object. Raises NotFoundError when the snapshot
    has expired, or an expiry is about to take it.
    """
    path = paths.read_lease(str(uuid.uuid4()))
    lease = ReadLease(file_io, path, snapshot_id, duration_millis, clock or SystemClock())
    try:
        lease.renew()
        is_gone = _is_gone(file_io, paths, snapshot_id)
    except BaseException:
        _let_go(lease)
        raise
    if is_gone:
        lease.release()
        earliest = SnapshotStore(file_io, paths).earliest_id()
        raise NotFoundError(
            paths.snapshot(snapshot_id),
            found="an expired snapshot",
            expected=f"a snapshot that is still kept, from {earliest} on",
            action="Read a newer snapshot, or a tag; a stream begins anew with another checkpoint.",
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
    """As `hold`, for a reader that goes on without a lease where the storage takes none, as one that is read-only
    does: None, which is logged. It then reads what expiry leaves. Raises NotFoundError as `hold`.
    """
    try:
        return hold(file_io, paths, snapshot_id, duration_millis, clock, renews=renews)
    except StorageError as error:
        _log.info("snapshot %d of %s is read without a lease: %s", snapshot_id, paths.root, error)
        return None


def held_snapshots(file_io: FileIO, paths: TablePaths, clock: Clock | None = None) -> list[int]:
    """The snapshots that leases hold which are in force, ascending."""
    found = noted_read_leases(file_io, paths, clock)
    return sorted(one.snapshot_id or 0 for one in found if one.lease_state is LeaseState.ACTIVE)


def forget_expired(
    file_io: FileIO, paths: TablePaths, expired_for_millis: int, clock: Clock | None = None
) -> list[str]:
    """Remove leases that stopped to hold at least so long ago, and unreadable ones as old; their paths."""
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
    """All that can be read, in force or not. owner: the process, where it is known."""
    return [one.noted for one in _leases(file_io, paths, clock) if one.noted is not None]


def damaged_read_leases(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Leases that cannot be read."""
    return _NOTE.damaged(file_io, (path for path, _ in _files(file_io, paths)))


def _leases(file_io: FileIO, paths: TablePaths, clock: Clock | None) -> list[Held]:
    clock = clock or SystemClock()
    found = (
        held("read", _NOTE, file_io, path, modified_millis, LONGEST_MILLIS, clock)
        for path, modified_millis in _files(file_io, paths)
    )
    return [one for one in found if one is not None]


def _files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, int]]:
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


def _let_go(lease: LeaseFile | ReadLease) -> None:
    """Of what is removed where nobody hears of an error: the lease then runs out."""
    try:
        lease.remove() if isinstance(lease, LeaseFile) else lease.release()
    except StorageError as refusal:
        _log.info("a read lease runs out by itself: %s", refusal)


def _now_millis(clock: Clock) -> int:
    return clock.now_nanos() // 1_000_000
