"""A lease on compacting one table, so that two do not do the same work. Safety never depends on it.

On disk, `service/widetable-compaction-lease`, for the older levels by themselves `service/widetable-old-levels-lease`,
for a partition that gets other buckets `service/widetable-rescale-lease` (other clients never look there):

    lease = JSON object {"owner": text, "expires_millis": wall clock since the epoch, "process": identity, or null}

It is taken by publishing the file, which one of many can. One that is not in force (`lease_term`) or cannot be read is
taken over by putting another in its place (`replace_if`): in an object store one of many can, too; on a disk two that
do so at the same moment may both believe to have it, and then one of their commits loses (`conflicts`). An owner that
was late finds out when it renews:

    A    holds it, sleeps past its time                            renews: another owner is there ─► False, stops
    B                            finds it over, replace_if ─► has it

A wrong belief costs work that is done twice, and one of the two commits. Raises StorageError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_anything, is_text, is_whole
from widetable.commit.notes.lease_file import LeaseFile
from widetable.commit.notes.lease_term import LeaseState, LeaseTerm, NotedLease, from_now
from widetable.commit.notes.skipped_files import if_there, pass_over
from widetable.errors import DamagedError
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths

# A lease that says that it runs for twice as long is not believed.
LONGEST_MILLIS: Final = 60_000
# The kind of the lease of who compacts a table.
COMPACTION: Final = "compaction"
_NOTE: Final = JsonNote(
    "lease",
    {"owner": is_text, "expires_millis": is_whole, "process": is_anything},
    "Nothing: it holds nothing, and is removed by who compacts next.",
)


@dataclass(frozen=True)
class _HeldLease:
    """What a file says."""

    owner: str
    term: LeaseTerm

    def is_in_force(self, path: str, clock: Clock) -> bool:
        return self.term.state(path, LONGEST_MILLIS, clock) is LeaseState.ACTIVE


@dataclass(frozen=True)
class Lease:
    """Held by `owner`; it runs out `duration_millis` after it was taken or last renewed.

    Made by `try_lease`. Nothing renews it by itself: give it to `lease_renewal`.
    """

    file_io: FileIO
    path: str
    owner: str
    duration_millis: int
    clock: Clock
    file: LeaseFile = field(repr=False)

    @property
    def is_ours(self) -> bool:
        """Whether this process took it, and has not released it. Somebody else may have taken it over."""
        return self.file.is_ours

    def renew(self) -> bool:
        """Start the duration again. False when the lease is somebody else's by now: stop the work that it was for."""
        return self._is_there() and self.file.write(self._from_now)

    def release(self) -> None:
        """Give it back, if it is still ours."""
        if self._is_there():
            self.file.remove()

    def _is_there(self) -> bool:
        held = _read(self.file_io, self.path) if self.is_ours else None
        return held is not None and held.owner == self.owner

    def _take_over(self, held: bytes | None) -> bool:
        """Where none is, for None, else from one of which this was read."""
        if held is None:
            return self.file_io.publish(self.path, self._from_now())
        return self.file_io.replace_if(self.path, held, self._from_now())

    def _from_now(self) -> bytes:
        held = {"owner": self.owner, **from_now(self.duration_millis, self.clock)}
        return _NOTE.to_json(self.path, held)


def try_lease(
    file_io: FileIO,
    paths: TablePaths,
    owner: str,
    duration_millis: int,
    clock: Clock | None = None,
    path: str | None = None,
) -> Lease | None:
    """The lease, or None while somebody else has it. owner: unique to the caller, a random uuid for instance.
    duration_millis: at most LONGEST_MILLIS, or nobody believes it.

    path: of a lease on a part of the work, `TablePaths.old_levels_lease`, or on other work; by default on all
    compaction that is not such a part.
    """
    path = path or paths.lease
    clock = clock or SystemClock()
    lease = Lease(file_io, path, owner, duration_millis, clock, LeaseFile(file_io, path))
    if lease._take_over(None):
        return lease
    found = if_there(file_io.read, path)
    held = _held(found, path)
    if held is not None and held.owner == owner:
        return lease if lease.renew() else None
    if held is not None and held.is_in_force(path, clock):
        return None
    return lease if lease._take_over(found) else None


def holder(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None, path: str | None = None
) -> tuple[str, int] | None:
    """Who has the lease, and until when (epoch milliseconds); None when nobody has. path: as of `try_lease`."""
    path = path or paths.lease
    held = _read(file_io, path)
    if held is None or not held.is_in_force(path, clock or SystemClock()):
        return None
    return held.owner, held.term.expires_millis


def noted_lease(file_io: FileIO, paths: TablePaths, kind: str = COMPACTION) -> NotedLease | None:
    """The lease on compaction, or on other work, in force or not; None where none is noted, or it cannot be read."""
    path = _kinds(paths)[kind]
    held = _read(file_io, path)
    if held is None:
        return None
    lease_state = held.term.state(path, LONGEST_MILLIS, SystemClock())
    return NotedLease(kind, path, held.owner, None, held.term.expires_millis, lease_state)


def noted_leases(file_io: FileIO, paths: TablePaths) -> list[NotedLease]:
    """Leases on work, in force or not; those that cannot be read are left out."""
    found = (noted_lease(file_io, paths, kind) for kind in _kinds(paths))
    return [lease for lease in found if lease is not None]


def damaged_leases(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Leases that cannot be read."""
    return _NOTE.damaged(file_io, _kinds(paths).values())


def _kinds(paths: TablePaths) -> dict[str, str]:
    return {
        COMPACTION: paths.lease,
        "old-levels": paths.old_levels_lease,
        "join": paths.join_lease,
        "rescale": paths.rescale_lease,
    }


def _read(file_io: FileIO, path: str) -> _HeldLease | None:
    return _held(if_there(file_io.read, path), path)


def _held(found: bytes | None, path: str) -> _HeldLease | None:
    """None for a lease that is not there or cannot be read: it protects nobody."""
    if found is None:
        return None
    try:
        values = _NOTE.from_json(found, path)
    except DamagedError as damage:
        pass_over(damage)
        return None
    return _HeldLease(values["owner"], LeaseTerm.of(values))
