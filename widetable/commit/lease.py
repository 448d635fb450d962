"""A lease on compacting one table, so that two do not do the same work. Safety never depends on it.

On disk, `service/widetable-compaction-lease`, for the older levels by themselves `service/widetable-old-levels-lease`
(other clients never look there):

    lease = JSON object {"owner": text, "expires_millis": wall clock since the epoch, "process": identity, or null}

It is taken by publishing the file, which one of many can. One that is expired, unreadable or of a process that was
killed on this machine (`process_identity`) is removed and taken over; two that do so at the same moment may both
believe to have it, and then one of their commits loses (`conflicts`). An owner that was late finds out when it renews.
Clocks that disagree only make a lease longer or shorter. Raises StorageError.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from widetable.commit.clock import Clock, SystemClock
from widetable.commit.process_identity import has_ended, this_process
from widetable.errors import NotFoundError
from widetable.paths import TablePaths
from widetable.storage.file_io import FileIO


@dataclass(frozen=True)
class _Held:
    owner: str
    expires_millis: int
    process: str | None

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def is_in_force(self, clock: Clock) -> bool:
        if self.expires_millis <= clock.now_nanos() // 1_000_000:
            return False
        return self.process is None or not has_ended(self.process)


@dataclass(frozen=True)
class Lease:
    """Held by `owner`; it runs out `duration_millis` after it was taken or last renewed."""

    file_io: FileIO
    path: str
    owner: str
    duration_millis: int
    clock: Clock

    def renew(self) -> bool:
        """Start the duration again. False when the lease is somebody else's by now: stop the work that it was for."""
        held = _read(self.file_io, self.path)
        if held is None or held.owner != self.owner:
            return False
        self.file_io.replace(self.path, self._from_now().to_json())
        return True

    def release(self) -> None:
        """Give it back, if it is still ours."""
        held = _read(self.file_io, self.path)
        if held is not None and held.owner == self.owner:
            self.file_io.delete(self.path)

    def _publish(self) -> bool:
        return self.file_io.publish(self.path, self._from_now().to_json())

    def _from_now(self) -> _Held:
        expires_millis = self.clock.now_nanos() // 1_000_000 + self.duration_millis
        return _Held(self.owner, expires_millis, this_process())


def try_lease(
    file_io: FileIO,
    paths: TablePaths,
    owner: str,
    duration_millis: int,
    clock: Clock | None = None,
    path: str | None = None,
) -> Lease | None:
    """The lease, or None while somebody else has it. owner: unique to the caller, a random uuid for instance.

    path: of a lease on a part of the work, `TablePaths.old_levels_lease`; by default on all that is not such a part.
    """
    lease = Lease(file_io, path or paths.lease, owner, duration_millis, clock or SystemClock())
    if lease._publish():
        return lease
    held = _read(file_io, lease.path)
    if held is not None and held.owner == owner:
        return lease if lease.renew() else None
    if held is not None and held.is_in_force(lease.clock):
        return None
    file_io.delete(lease.path)
    return lease if lease._publish() else None


def holder(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None
) -> tuple[str, int] | None:
    """Who has the lease, and until when (epoch milliseconds); None when nobody has."""
    held = _read(file_io, paths.lease)
    if held is None or not held.is_in_force(clock or SystemClock()):
        return None
    return held.owner, held.expires_millis


def _read(file_io: FileIO, path: str) -> _Held | None:
    """None for a lease that is not there or cannot be read: it protects nobody."""
    try:
        body = json.loads(file_io.read(path))
        owner, expires_millis = str(body["owner"]), int(body["expires_millis"])
        process = body.get("process")
        return _Held(owner, expires_millis, process if isinstance(process, str) else None)
    except (NotFoundError, ValueError, TypeError, KeyError):
        return None
