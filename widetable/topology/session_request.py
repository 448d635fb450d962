"""Sessions whose barrier a service of the warehouse has chosen; the tables are read by this process.

    the service     chooses a barrier, and holds each table at it by a read lease of its own
    this process    finds these leases among the files of its tables, so both look at the same warehouse;
                    takes leases of its own; then the service lets go

What is open here does not need the service any more. Where an instance goes in between, another one is asked. What
sessions of a catalog show never goes back, whichever instance answers, but by a revision. Raises InvalidError for a
service of another warehouse, NotFoundError for a barrier that is older than what was read before, what the service
raises, and what opening a session raises.

    service                            this process                      what keeps the rows
    chooses T, leases a table each                                       the service's leases
    answers T, revision, leases
                                       finds the leases in its tables    "
                                       leases of its own at T            both
                                       closes the service's session      its own

There is no moment without a lease, so an expiry in between takes nothing. Where the service dies
before the third step its leases may go, and the rows: NotFoundError here, and if its session has
ended indeed, another instance is asked.
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

# How many instances may end in the middle of it, one after the other.
_TRIES: Final = 5


@dataclass(frozen=True)
class AskedSessions:
    """Of the warehouse at `root`. opened: its tables by name. shown: by the sessions before.
    That is looked at here, and noted by who opens the session. It holds nothing
    between calls.
    """

    service: MetaService
    file_io: FileIO
    root: str
    opened: Callable[[str], OpenTable]
    shown: ShownBarriers

    def open(self, tables: Sequence[str] | None, consistency: str, as_of: int | None) -> Session:
        """tables: None for all that are under barriers. consistency: one that has barriers.
        as_of: a barrier, which may be older than what was read before; None: the newest. The
        session is the caller's, who closes it.
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
        """Paths of the two hosts say nothing, and a copy of a warehouse has the same snapshots:
        the names of leases are new each time. One that is not found may also be one that has
        ended in between, which renewing tells.
        """
        for name, lease in told.leases.items():
            paths = TablePaths(branch_root(self.root, name, "table name"))
            if lease is None or not self.file_io.exists(paths.read_lease(lease)):
                told.renew()  # raises where it has ended, and its leases with it
                raise InvalidError(
                    "uri",
                    found=f"a service of another warehouse, which lies at {told.warehouse}",
                    expected=f"one of {self.root}: its session holds {name} there",
                    action="Give the URLs of that warehouse's instances, or the warehouse that these serve.",
                )


def _has_ended(told: ServiceSession) -> bool:
    try:
        told.renew()
    except (NotFoundError, StorageError):
        return True
    return False


def _check_not_older(told: ServiceSession, before: ShownBarrier) -> None:
    """The revision of a warehouse only grows."""
    barrier = told.barrier or 0
    if barrier < before.barrier and told.revision == before.revision:
        raise NotFoundError(
            f"a barrier of {', '.join(told.leases)}",
            found=f"{barrier}, which the service says is the newest",
            expected=f"{before.barrier}, which was read before, or a later one",
            action="Ask again; where tables of these names are others than before, make a new catalog.",
        )
