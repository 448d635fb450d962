"""The lease of the leading service of a warehouse (docs/decisions/0045).

On disk, `__meta.db/service/widetable-meta-lease`, in the form of the lease on compacting a table (`lease`):

    owner = URL of the service "#" a uuid of its life

It lasts ten seconds and is renewed automatically (`lease_renewal`); the lease of an ended process of this machine is
free at once. Safety never depends on it: a leader only makes exclusive files and commits, and two that lead for a
moment write the same. Raises StorageError.

    a leads, and is killed       on a's host: free at the next read; elsewhere after ten seconds at most
    a leads, and is paused       the lease expires, b takes it; a tries to renew, sees b, and follows

The uuid tells two processes of one URL apart, so that a restarted service does not take its earlier lease for its own.
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

# The longest time without a leader, apart from reads; the lease is renewed six times in it.
LEASE_MILLIS: Final = 10_000


class ServiceLease:
    """The lease of one process of a service; several threads may use it.

    The URL is the one under which other instances reach the process.
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
        """Take the lease if it is free.

        If somebody leads, this reads one small file. The owner that is read back decides who leads, not the success of
        taking it: on a disk, two that take it at once may both believe to have it (`lease`).

        Returns
        -------
        tuple of str and bool
            The URL of the leader, None without one, and whether it is this process.
        """
        with self._lock:
            owner = self._holder()
            if owner is None and self._take():
                owner = self._holder()  # if two took it at once, the later one has it
            return (owner.rpartition("#")[0] if owner else None), owner == self._owner

    def release(self) -> None:
        """Release the lease if this process has it."""
        with self._lock:
            if self._lease is not None:
                LEASE_RENEWAL.stop(self._lease)
                self._lease.release()
                self._lease = None

    def _holder(self) -> str | None:
        current = holder(self._file_io, self._paths, self._clock, self._path)
        return None if current is None else current[0]

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
