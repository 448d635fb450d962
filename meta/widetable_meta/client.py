"""A client of the service of a warehouse: it does over REST what `widetable.Catalog` does in the process.

It takes several URLs, and asks the next one if one is gone. Answers are the values that `widetable.Topology` returns.
Raises the errors of those calls, and StorageError if no instance answers.

Arguments are checked here, before any request. Calls that are not safe to repeat (drop, leave, revise) are sent to
another instance only if it is certain that they were not carried out; all others, including register and renew, are
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter

from widetable import (
    Delays,
    InvalidError,
    Job,
    NotedRevision,
    TableBarrier,
    TableProgress,
)
from widetable.connector import arguments
from widetable_meta.answer_form import NESTED as NESTED
from widetable_meta.answer_form import LineageAnswer, TopologyAnswer
from widetable_meta.answer_value import value_of
from widetable_meta.client_jobs import (
    drop,
    leave,
    optional_number,
    path_part,
    register,
    renew,
    revise,
    running,
)
from widetable_meta.client_session import ClientSession
from widetable_meta.request_form import MAX_BARRIERS
from widetable_meta.service_calls import PATIENCE_SECONDS, ServiceCalls
from widetable_meta.service_url import service_urls

_JOBS: Final = TypeAdapter(list[Job])
_TABLES: Final = TypeAdapter(list[TableProgress])
_BARRIERS: Final = TypeAdapter(list[TableBarrier])
_DELAYS: Final = TypeAdapter(Delays)
_REVISIONS: Final = TypeAdapter(list[NotedRevision])
_TOPOLOGY: Final = TypeAdapter(TopologyAnswer)
_LINEAGE: Final = TypeAdapter(LineageAnswer)


class MetaClient:
    """A client of the service of a warehouse, which `widetable meta serve` runs.

    Its calls answer what those of `widetable.Topology` and `widetable.Catalog` answer in a process of their own. If an
    instance is gone, the client asks the next one; another leader follows within ten seconds. Threads may share it.
    Besides the errors that it names, a call raises StorageError when no instance answers.

    Parameters
    ----------
    uris : str or list of str
        The URL, or URLs, of the instances of one warehouse's service.
    patience_seconds : float, default 20.0
        For how long a call asks one instance after the other until one answers, in seconds.

    Raises
    ------
    InvalidError
        A URL is not valid.

    Examples
    --------
    `url` is that of a service of the warehouse. The examples of the methods go on from here.

    >>> import widetable as wt
    >>> import widetable_meta
    >>> catalog = wt.Catalog("warehouse")
    >>> visits = catalog.create_table(
    ...     "shop.visits",
    ...     {"id": "BIGINT", "city": "STRING"},
    ...     primary_key=["id"],
    ...     options={"widetable.barrier-interval": "1 s"},
    ...     if_not_exists=True,
    ... )
    >>> crm = catalog.writer("shop.visits", "crm")
    >>> crm.write([{"id": 1, "city": "Oslo"}], complete=True).rows
    1
    >>> client = widetable_meta.MetaClient(url)
    >>> [table.table for table in client.tables()]
    ['shop.visits']
    """

    def __init__(
        self, uris: str | Sequence[str], *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        given = service_urls([uris] if isinstance(uris, str) else uris, "uris")
        self._calls = ServiceCalls(given, patience_seconds)

    def __repr__(self) -> str:
        return f"MetaClient({self._calls!r})"

    def session(
        self,
        tables: Sequence[str] | None = None,
        *,
        consistency: str = "RepeatableRead",
        as_of: int | None = None,
        at_least: int | None = None,
    ) -> ClientSession:
        """Hold tables at one barrier, so that any reader sees the same rows.

        Parameters
        ----------
        tables
            As in `Catalog.session`.
        consistency : str, default "RepeatableRead"
            `RepeatableRead`, `ReadCommitted` or `ReadUncommitted`, as in `Catalog.session`.
        as_of
            As in `Catalog.session`.
        at_least : int, default None
            The barrier that was read before: what is read then never goes back, whichever instance answers. None: any
            barrier.

        Returns
        -------
        ClientSession
            The open session, a context manager.

        Raises
        ------
        NotFoundError
            A table or barrier does not exist, or there is only an older barrier than `at_least`, because of a revision
            or of other tables.
        InvalidError
            An argument does not fit.

        Examples
        --------
        >>> with client.session(["shop.visits"]) as session:
        ...     visits.scan(barrier=session.barrier).count()
        1
        """
        body = {
            "tables": None if tables is None else list(arguments.names(tables, "tables")),
            "consistency": arguments.text(consistency, "consistency"),
            "as_of": optional_number(as_of, "as_of"),
            "at_least": optional_number(at_least, "at_least"),
        }
        return ClientSession(self._calls, self._calls.call("POST", "sessions", body))

    # Jobs
    register = register
    running = running
    renew = renew
    drop = drop
    leave = leave
    revise = revise

    def jobs(self) -> list[Job]:
        """List the jobs.

        Returns
        -------
        list of Job
            As `Topology.jobs`: sorted by name.

        Raises
        ------
        StorageError
            No instance answers.
        """
        return value_of(_JOBS, self._calls.call("GET", "jobs").body)

    def tables(self) -> list[TableProgress]:
        """List how far each table under barriers is.

        Returns
        -------
        list of TableProgress
            As `Topology.tables`: by layer, then by name.

        Raises
        ------
        StorageError
            No instance answers.
        """
        return value_of(_TABLES, self._calls.call("GET", "tables").body)

    def layers(self) -> list[list[str]]:
        """List the tables under barriers, layer by layer.

        Returns
        -------
        list of list of str
            As `Topology.layers`.

        Raises
        ------
        StorageError
            No instance answers.
        """
        return self._topology().layers

    def common_barrier(self) -> int | None:
        """Return the newest barrier that all tables under barriers have in common.

        Returns
        -------
        int or None
            The barrier, in epoch milliseconds; None where there is none.

        Raises
        ------
        StorageError
            No instance answers.
        """
        return self._topology().common_barrier

    def upstream(self, table: str) -> list[str]:
        """List the tables that a table is derived from.

        Parameters
        ----------
        table
            As in `Topology.upstream`.

        Returns
        -------
        list of str
            As `Topology.upstream`.

        Raises
        ------
        NotFoundError
            The table is not under barriers, or does not exist.
        """
        return self._lineage(table).upstream

    def downstream(self, table: str) -> list[str]:
        """List the tables that are derived from a table.

        Parameters
        ----------
        table
            As in `Topology.downstream`.

        Returns
        -------
        list of str
            As `Topology.downstream`.

        Raises
        ------
        NotFoundError
            The table is not under barriers, or does not exist.
        """
        return self._lineage(table).downstream

    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """List the barriers of a table.

        Parameters
        ----------
        table
            As in `Topology.barriers`.
        limit : int, default None
            The newest complete barriers only, 10,000 at most. None: all, if there are fewer than 10,000.

        Returns
        -------
        list of TableBarrier
            As `Topology.barriers`: ascending.

        Raises
        ------
        InvalidError
            There are 10,000 barriers or more, and no `limit`.
        NotFoundError
            The table is not under barriers, or does not exist.
        """
        path = f"tables/{path_part(table, 'table')}/barriers"
        barriers = value_of(_BARRIERS, self._calls.call("GET", path, query=_limit(limit)).body)
        _check_all(limit, sum(one.is_complete for one in barriers))
        return barriers

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays:
        """Measure how long tables and jobs took after barriers.

        Parameters
        ----------
        barrier
            As in `Topology.delays`.
        limit : int, default None
            The newest barriers only, 10,000 at most. None: all, if there are fewer than 10,000.

        Returns
        -------
        Delays
            As `Topology.delays`.

        Raises
        ------
        InvalidError
            There are 10,000 barriers or more, and no `limit`.
        NotFoundError
            No table has come to the barrier, or its snapshots have expired.
        """
        query = {"barrier": optional_number(barrier, "barrier"), **_limit(limit)}
        delays = value_of(_DELAYS, self._calls.call("GET", "delays", query=query).body)
        _check_all(limit, len({one.barrier for one in delays.tables}))
        return delays

    def revisions(self) -> list[NotedRevision]:
        """List the revisions of the warehouse.

        Returns
        -------
        list of NotedRevision
            As `Topology.revisions`: ascending by number.

        Raises
        ------
        StorageError
            No instance answers.
        """
        return value_of(_REVISIONS, self._calls.call("GET", "revisions").body)

    def leader(self) -> str | None:
        """Return which instance leads.

        Returns
        -------
        str or None
            Its URL; None where no instance leads.

        Raises
        ------
        StorageError
            No instance answers.
        """
        url: str | None = self._calls.call("GET", "leader").body["url"]
        return url

    def _topology(self) -> TopologyAnswer:
        return value_of(_TOPOLOGY, self._calls.call("GET", "topology").body)

    def _lineage(self, table: str) -> LineageAnswer:
        path = f"tables/{path_part(table, 'table')}/lineage"
        return value_of(_LINEAGE, self._calls.call("GET", path).body)


def client_of(uris: Sequence[str], what: str) -> MetaClient:
    """Make a client. what: the name of the argument, for messages."""
    return MetaClient(service_urls(uris, what))


def _limit(given: int | None) -> dict[str, int]:
    if given is None:
        return {"limit": MAX_BARRIERS}
    return {"limit": arguments.whole_number(given, "limit", least=0, most=MAX_BARRIERS)}


def _check_all(limit: int | None, barriers: int) -> None:
    """Refuse an answer that may be cut, if all barriers were requested.

    The service returns at most 10,000 barriers. An answer of exactly that number may be complete or cut.
    """
    if limit is None and barriers >= MAX_BARRIERS:
        raise InvalidError(
            "limit",
            found=f"no limit, and {MAX_BARRIERS} barriers or more",
            expected=f"a limit of at most {MAX_BARRIERS}",
            action="Give a limit, or read all barriers by a catalog without the service.",
        )
