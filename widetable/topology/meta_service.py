"""The service of a warehouse (`widetable meta serve`) as the engine knows it, and the one place that knows its package.

In: URLs of instances. Out: a client that answers what `Topology`, `Catalog.session` and `Catalog.revise` answer. Raises
UnsupportedError where the extra `meta` is not installed, InvalidError for URLs that are none; what the client raises,
StorageError where no instance answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol, cast

from widetable.arguments import names
from widetable.commit.barriers.writer_registration import Job
from widetable.errors import UnsupportedError
from widetable.runtime.forked_child import UNFORKABLE, SharedByThreads
from widetable.topology.delays import Delays
from widetable.topology.revision import RevisionResult
from widetable.topology.table_barriers import TableBarrier
from widetable.topology.table_progress import TableProgress

_CLIENT: Final = "widetable_meta.client"


class MetaAnswers(Protocol):
    """Of a warehouse: `Topology` has them at hand, a service's client asks for them.
    The command line is written for either. Contracts are those of `Topology`; limit=None means
    all in both.
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
    """Tables that an instance of the service holds at a barrier. leases: the names of the read leases, by table.

    A context manager: leaving it lets go of what the service holds. warehouse: where it lies for
    the service, which may be another path than here. revision: that the barrier goes by.
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
        """Raises NotFoundError where it has ended, StorageError where its instance is gone."""
        ...


class MetaService(MetaAnswers, Protocol):
    """Asked by URLs."""

    def session(
        self,
        tables: Sequence[str] | None = None,
        *,
        consistency: str,
        as_of: int | None = None,
    ) -> ServiceSession: ...

    def revise(self, table: str, *, to: int | None, dry_run: bool = False) -> RevisionResult: ...


class ServiceLink(SharedByThreads):
    """To the instances at these URLs. Its client is made when it is asked for, in each process anew; picklable.
    Sockets of a client must not be shared with a forked child, nor can they be pickled: so URLs
    travel, and nothing else.
    """

    def __init__(self, uris: Sequence[str], what: str) -> None:
        """what: the argument, for messages."""
        self._uris = tuple(uris)
        self._what = what
        super().__init__()

    def __reduce__(self) -> tuple[object, ...]:
        return ServiceLink, (self._uris, self._what)

    def _start_anew(self) -> None:
        self._client: MetaService | None = None

    def client(self) -> MetaService:
        """The threads of a process have it in common."""
        if self._client is None:
            self._client = service_client(self._uris, self._what)
        return self._client


def linked(uri: Any, what: str) -> ServiceLink:
    """uri: one URL, or several. what: the argument, for messages. Nobody is asked yet."""
    link = ServiceLink((uri,) if isinstance(uri, str) else names(uri, what), what)
    link.client()
    return link


def service_client(uris: Sequence[str], what: str) -> MetaService:
    """Of the instances at these URLs. what: the argument, for messages."""
    return cast("MetaService", meta_package(_CLIENT, what).client_of(uris, what))


def meta_package(module: str, what: str) -> ModuleType:
    """A module of the service. what: needs it, for messages."""
    try:
        with UNFORKABLE:  # a child would wait for a module that nobody imports any more
            return import_module(module)
    except ModuleNotFoundError as missing:
        raise UnsupportedError(
            what,
            found=f"an installation without its packages: {missing}",
            expected="those of the extra meta",
            action="pip install 'widetable[meta]'",
        ) from missing
