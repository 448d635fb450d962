"""Sessions whose barrier a service of the warehouse chooses; this process reads the tables.

    the service     chooses a barrier, and keeps each table at it by its own read lease
    this process    finds these leases among the files of its tables, so both use the same warehouse;
                    takes its own leases; then the service releases its leases

An open session no longer needs the service. If an instance ends in between, another one is asked. The barriers that
sessions of a catalog show never go back, whichever instance answers, except by a revision. Raises InvalidError for a
service of another warehouse, NotFoundError for a barrier that is older than one read before, what the service
raises, and what opening a session raises.

    service                            this process                      what keeps the rows
    chooses T, leases a table each                                       the service's leases
    answers T, revision, leases
                                       finds the leases in its tables    "
                                       leases of its own at T            both
                                       closes the service's session      its own

There is no moment without a lease, so an expiry in between removes nothing. If the service dies before the third step,
its leases may be removed, and then the rows. That is a NotFoundError here; if the service's session has really ended,
another instance is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.errors import InvalidError, NotFoundError, StorageError
from widetable.operations.barriers.barrier_listing import ShownBarrier, ShownBarriers
from widetable.operations.barriers.session import Session
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, branch_root
from widetable.topology.meta_service import MetaService, ServiceSession

# How many instances may end during one request, one after the other.
_TRIES: Final = 5


@dataclass(frozen=True)
class SessionRequests:
    """Opens sessions of the warehouse at `root`. It has no state between calls.

    opened: opens its tables by name. shown: the barriers of earlier sessions; this class reads them, and the caller
    notes the new ones.
    """

    service: MetaService
    file_io: FileIO
    root: str
    opened: Callable[[str], OpenTable]
    shown: ShownBarriers

    def open(self, tables: Sequence[str] | None, consistency: str, as_of: int | None) -> Session:
        """Open a session, which the caller closes.

        tables: None for all that are under barriers. consistency: one with barriers. as_of: a barrier, which may be
        older than one read before; None: the newest.
        """
        for tries_left in reversed(range(_TRIES)):
            with self.service.session(tables, consistency=consistency, as_of=as_of) as told:
                try:
                    return self._read_here(told, consistency, is_newest=as_of is None)
                except (NotFoundError, StorageError):
                    if not tries_left or not _has_ended(told):
                        raise
        raise AssertionError("the last try returns or raises")

    def _read_here(self, told: ServiceSession, consistency: str, *, is_newest: bool) -> Session:
        self._check_warehouse(told)
        before = self.shown.last(consistency, told.leases)
        if is_newest and before is not None:
            _check_not_older(told, before)
        opened = {name: self.opened(name) for name in told.leases}
        shown = None if before is None else before.barrier
        return Session(opened, consistency, told.barrier, shown, told.revision)

    def _check_warehouse(self, told: ServiceSession) -> None:
        """Raise InvalidError if the service has another warehouse. Paths may differ between hosts, and a copy of a
        warehouse has the same snapshots, but each lease has a new name. A lease may also be missing because the
        session has ended; renewing shows that.
        """
        for name, lease in told.leases.items():
            paths = TablePaths(branch_root(self.root, name, "table name"))
            if lease is None or not self.file_io.exists(paths.read_lease(lease)):
                told.renew()  # raises if the session has ended, and its leases with it
                raise InvalidError(
                    "uri",
                    found=f"a service of another warehouse, which lies at {told.warehouse}",
                    expected=f"a service of {self.root}, whose session has a lease on {name} there",
                    action="Pass the URLs of that warehouse's instances, or the warehouse that these serve.",
                )


def _has_ended(told: ServiceSession) -> bool:
    try:
        told.renew()
    except (NotFoundError, StorageError):
        return True
    return False


def _check_not_older(told: ServiceSession, before: ShownBarrier) -> None:
    """Raise NotFoundError for a barrier before one of an earlier session, unless a revision came between them."""
    barrier = told.barrier or 0
    if barrier < before.barrier and told.revision == before.revision:
        raise NotFoundError(
            f"a barrier of {', '.join(told.leases)}",
            found=f"{barrier}, which the service says is the newest",
            expected=f"{before.barrier}, which was read before, or a later one",
            action="Try again; if the tables were replaced by others of these names, make a new catalog.",
        )
