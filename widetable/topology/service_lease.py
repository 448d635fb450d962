"""Which of the services of a warehouse leads: the one that has the lease (docs/decisions/0045).

On disk, `__meta.db/service/widetable-meta-lease`, in the form of the lease on compacting a table (`lease`):

    owner = URL of the service "#" a uuid of its life

It runs for ten seconds and is renewed by itself (`lease_renewal`); that of a process of this machine that has ended is
free at once. Safety never depends on it: what a leader does are exclusive files and commits, and two that lead for a
moment write the same. Raises StorageError.

    a leads, and is killed       on a's host: free at the next look; elsewhere after ten seconds at most
    a leads, and stands still    the lease runs out, b takes it; a renews: it is b's by now, a follows

The uuid tells two lives of one URL apart: a service that was started again does not take its own
old lease for its own.
"""

from __future__ import annotations

import threading
import uuid
from typing import Final

from widetable.commit.notes.clock import Clock
from widetable.commit.notes.lease import Lease, holder, try_lease
from widetable.commit.notes.lease_renewal import LEASE_RENEWAL
from widetable.storage.file_io import FileIO
from widetable.storage.paths import META_DATABASE, TablePaths, database_dir, leading_lease

# The longest time without a leader, but for looks; renewed six times in it.
LEASE_MILLIS: Final = 10_000


class ServiceLease:
    """One life of one service; several threads may use it. url: under which the others reach it. clock: None for the
    system's.
    """

    def __init__(
        self, file_io: FileIO, warehouse: str, url: str, clock: Clock | None = None
    ) -> None:
        self._file_io = file_io
        self._paths = TablePaths(database_dir(warehouse, META_DATABASE))
        self._path = leading_lease(warehouse)
        self._owner = f"{url}#{uuid.uuid4()}"
        self._clock = clock
        self._lock = threading.Lock()
        self._lease: Lease | None = None

    def look(self) -> tuple[str | None, bool]:
        """(URL of who leads, None where nobody does; whether it is this one), after it has taken what was free.

        One read of a small file where somebody leads. By the owner that is read back it is
        decided who leads, not by having taken it: on a disk two that take over at once may both
        believe to have it (`lease`).
        """
        with self._lock:
            owner = self._holder()
            if owner is None and self._take():
                owner = self._holder()  # of two that took it at once the later one has it
            return (owner.rpartition("#")[0] if owner else None), owner == self._owner

    def release(self) -> None:
        """Give it back, if it is ours."""
        with self._lock:
            if self._lease is not None:
                LEASE_RENEWAL.stop(self._lease)
                self._lease.release()
                self._lease = None

    def _holder(self) -> str | None:
        found = holder(self._file_io, self._paths, self._clock, self._path)
        return None if found is None else found[0]

    def _take(self) -> bool:
        lease = try_lease(
            self._file_io, self._paths, self._owner, LEASE_MILLIS, self._clock, self._path
        )
        if lease is None:
            return False
        if self._lease is not None:
            LEASE_RENEWAL.stop(self._lease)
        self._lease = lease
        LEASE_RENEWAL.start(lease)
        return True
