"""A lease on compacting one table, so that two processes do not do the same work. Safety never depends on it.

On disk, `service/widetable-compaction-lease`, for the older levels alone `service/widetable-old-levels-lease`, for a
partition that is rescaled `service/widetable-rescale-lease` (other clients ignore these files):

    lease = JSON object {"owner": text, "expires_millis": wall clock since the epoch, "process": identity, or null}

A process takes the lease by publishing the file, in which only one process succeeds. A lease that is not active
(`lease_term`) or cannot be read is taken over by replacing the file (`replace_if`). In an object store only one process
succeeds in that, too; on a disk two processes that replace it at the same moment may both believe that they have the
lease, and then one of their commits fails (`conflicts`). An owner that was late learns it when it renews:

    A    has it, sleeps past its time                              renews: another owner ─► False, stops
    B                            finds it expired, replace_if ─► has it

Two owners cost duplicate work and one of the two commits. Raises StorageError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_anything, is_text, is_whole
from widetable.commit.notes.lease_file import LeaseFile
from widetable.commit.notes.lease_term import LeaseState, LeaseTerm, NotedLease, from_now
from widetable.commit.notes.skipped_files import log_skipped, or_none
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

# A lease with more than twice this time left is ignored.
LONGEST_MILLIS: Final = 60_000
# The kind of the lease on compacting a table.
COMPACTION: Final = "compaction"
_NOTE: Final = JsonNote(
    "lease",
    {"owner": is_text, "expires_millis": is_whole, "process": is_anything},
    "Nothing: it protects nothing, and the next compaction removes it.",
)


@dataclass(frozen=True)
class _StoredLease:
    """A lease as read from its file."""

    owner: str
    term: LeaseTerm

    def is_active(self, path: str, clock: Clock) -> bool:
        return self.term.state(path, LONGEST_MILLIS, clock) is LeaseState.ACTIVE


@dataclass(frozen=True)
class Lease:
    """A lease of `owner`, made by `try_lease`; it expires `duration_millis` after it was taken or last renewed.

    It is not renewed automatically: pass it to `lease_renewal`.
    """

    file_io: FileIO
    path: str
    owner: str
    duration_millis: int
    clock: Clock
    file: LeaseFile = field(repr=False)

    @property
    def is_ours(self) -> bool:
        """Whether this process took it and has not released it. Another process may have taken it over."""
        return self.file.is_ours

    def renew(self) -> bool:
        """Start the duration again. Return False if another owner has the lease: the caller must stop its work."""
        return self._is_still_ours() and self.file.write(self._from_now)

    def release(self) -> None:
        """Remove the lease, if it is still ours."""
        if self._is_still_ours():
            self.file.remove()

    def _is_still_ours(self) -> bool:
        stored = _read(self.file_io, self.path) if self.is_ours else None
        return stored is not None and stored.owner == self.owner

    def _take_over(self, data: bytes | None) -> bool:
        """Publish the lease if `held` is None; else replace the file with that content."""
        if data is None:
            return self.file_io.publish(self.path, self._from_now())
        return self.file_io.replace_if(self.path, data, self._from_now())

    def _from_now(self) -> bytes:
        values = {"owner": self.owner, **from_now(self.duration_millis, self.clock)}
        return _NOTE.to_json(self.path, values)


def try_lease(
    file_io: FileIO,
    paths: TablePaths,
    owner: str,
    duration_millis: int,
    clock: Clock | None = None,
    path: str | None = None,
) -> Lease | None:
    """Take the lease; return None while another owner has it. owner: unique to the caller, such as a random uuid.
    duration_millis: at most LONGEST_MILLIS, otherwise other processes ignore the lease.

    path: of a lease on a part of the work, such as `TablePaths.old_levels_lease`, or on other work. The default is the
    lease on all compaction that is no such part.
    """
    path = path or paths.lease
    clock = clock or SystemClock()
    lease = Lease(file_io, path, owner, duration_millis, clock, LeaseFile(file_io, path))
    if lease._take_over(None):
        return lease
    data = or_none(file_io.read, path)
    stored = _parsed(data, path)
    if stored is not None and stored.owner == owner:
        return lease if lease.renew() else None
    if stored is not None and stored.is_active(path, clock):
        return None
    return lease if lease._take_over(data) else None


def holder(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None, path: str | None = None
) -> tuple[str, int] | None:
    """Return the owner of the lease and when it expires (epoch millis); None without one. path: see `try_lease`."""
    path = path or paths.lease
    stored = _read(file_io, path)
    if stored is None or not stored.is_active(path, clock or SystemClock()):
        return None
    return stored.owner, stored.term.expires_millis


def noted_lease(file_io: FileIO, paths: TablePaths, kind: str = COMPACTION) -> NotedLease | None:
    """Return the lease on compaction, or on other work, active or not; None without one, or if it cannot be read."""
    path = _kinds(paths)[kind]
    stored = _read(file_io, path)
    if stored is None:
        return None
    lease_state = stored.term.state(path, LONGEST_MILLIS, SystemClock())
    return NotedLease(kind, path, stored.owner, None, stored.term.expires_millis, lease_state)


def noted_leases(file_io: FileIO, paths: TablePaths) -> list[NotedLease]:
    """Return all leases on work, active or not; those that cannot be read are left out."""
    leases = (noted_lease(file_io, paths, kind) for kind in _kinds(paths))
    return [lease for lease in leases if lease is not None]


def damaged_leases(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Return an error for each lease that cannot be read."""
    return _NOTE.damaged(file_io, _kinds(paths).values())


def _kinds(paths: TablePaths) -> dict[str, str]:
    return {
        COMPACTION: paths.lease,
        "old-levels": paths.old_levels_lease,
        "join": paths.join_lease,
        "rescale": paths.rescale_lease,
    }


def _read(file_io: FileIO, path: str) -> _StoredLease | None:
    return _parsed(or_none(file_io.read, path), path)


def _parsed(data: bytes | None, path: str) -> _StoredLease | None:
    """Parse the file of a lease; None if it is absent or cannot be read: such a lease protects nothing."""
    if data is None:
        return None
    try:
        values = _NOTE.from_json(data, path)
    except DamagedError as damage:
        log_skipped(damage)
        return None
    return _StoredLease(values["owner"], LeaseTerm.of(values))
