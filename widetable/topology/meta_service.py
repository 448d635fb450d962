"""The service of a warehouse (`widetable meta serve`) from the engine's side; only this module imports its package.

In: URLs of instances. Out: a client that answers what `Topology`, `Catalog.session` and `Catalog.revise` answer. Raises
UnsupportedError if the extra `meta` is not installed, InvalidError for invalid URLs; what the client raises, such as
StorageError if no instance answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from widetable.arguments import names
from widetable.commit.barriers.writer_registration import Job
from widetable.runtime.extra_package import extra_package
from widetable.runtime.forked_child import SharedByThreads
from widetable.topology.delays import Delays
from widetable.topology.revision import RevisionResult
from widetable.topology.table_barriers import TableBarrier
from widetable.topology.table_progress import TableProgress

_CLIENT: Final = "widetable_meta.client"


class MetaAnswers(Protocol):
    """Answers questions about a warehouse. `Topology` answers by itself, and a service's client asks the service.

    The command line works with either. Contracts are those of `Topology`; limit=None means all in both.
    """

    def jobs(self) -> list[Job]: ...

    def tables(self) -> list[TableProgress]: ...

    def common_barrier(self) -> int | None: ...

    def upstream(self, table: str) -> list[str]: ...

    def downstream(self, table: str) -> list[str]: ...

    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]: ...

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays: ...

    def drop(self, job: str, *, force: bool = False, dry_run: bool = False) -> list[str]: ...

    def leave(
        self, table: str, writer: str, *, force: bool = False, dry_run: bool = False
    ) -> None: ...


class ServiceSession(Protocol):
    """Tables that an instance of the service keeps at a barrier, until the context manager is left.

    leases: the names of the read leases, by table. warehouse: its path for the service, which may differ from the path
    here. revision: the one to which the barrier belongs.
    """

    @property
    def barrier(self) -> int | None: ...

    @property
    def revision(self) -> int | None: ...

    @property
    def snapshot_ids(self) -> dict[str, int | None]: ...

    @property
    def warehouse(self) -> str: ...

    @property
    def leases(self) -> dict[str, str | None]: ...

    def __enter__(self) -> ServiceSession: ...

    def __exit__(self, *_: object) -> None: ...

    def renew(self) -> None:
        """Renew the session. Raises NotFoundError if it has ended, StorageError if its instance is gone."""
        ...


class MetaService(MetaAnswers, Protocol):
    """A client of the service, which sends requests to URLs."""

    def session(
        self,
        tables: Sequence[str] | None = None,
        *,
        consistency: str,
        as_of: int | None = None,
    ) -> ServiceSession: ...

    def revise(self, table: str, *, to: int | None, dry_run: bool = False) -> RevisionResult: ...


class ServiceLink(SharedByThreads):
    """Connects to the instances at some URLs. Each process makes its own client on first use; the link is picklable.

    A client's sockets must not be shared with a forked child and cannot be pickled, so only the URLs are passed on.
    """

    def __init__(self, uris: Sequence[str], what: str) -> None:
        """Make the link. what: the argument, for messages."""
        self._uris = tuple(uris)
        self._what = what
        super().__init__()

    def __reduce__(self) -> tuple[object, ...]:
        return ServiceLink, (self._uris, self._what)

    def _reset(self) -> None:
        self._client: MetaService | None = None

    def client(self) -> MetaService:
        """Return the client, which the threads of a process share."""
        if self._client is None:
            self._client = service_client(self._uris, self._what)
        return self._client


def linked(uri: Any, what: str) -> ServiceLink:
    """Make a link, without a request yet. uri: one URL, or several. what: the argument, for messages."""
    link = ServiceLink((uri,) if isinstance(uri, str) else names(uri, what), what)
    link.client()
    return link


def service_client(uris: Sequence[str], what: str) -> MetaService:
    """Return a client of the instances at these URLs. what: the argument, for messages."""
    return cast("MetaService", extra_package(_CLIENT, what, "meta").client_of(uris, what))
