"""A client of the service of a warehouse: what `widetable.Catalog` does embedded, by REST.

It takes several URIs, and asks the next one when one is gone. Answers are the same values as of `widetable.Topology`.
Raises the six kinds of error: those of the calls as they are embedded, StorageError where no instance answers.

Arguments are checked here, as they would be embedded, before anybody is asked. What changes
something and is not safe to do twice (drop, leave, revise) is asked again only where it surely
was not done; the rest, also register and renew, is asked again of the next instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pydantic import TypeAdapter

from widetable import (
    Delays,
    InvalidError,
    Job,
    NotedRevision,
    RevisionResult,
    TableBarrier,
    TableProgress,
)
from widetable.connector import flag, mapping, names, text, whole_number
from widetable_meta.answer_form import NESTED as NESTED
from widetable_meta.answer_form import LineageAnswer, TopologyAnswer
from widetable_meta.answer_value import value_of
from widetable_meta.client_session import ClientSession
from widetable_meta.request_form import MOST_BARRIERS
from widetable_meta.service_calls import PATIENCE_SECONDS, ServiceCalls
from widetable_meta.service_url import service_urls

_JOB: Final = TypeAdapter(Job)
_JOBS: Final = TypeAdapter(list[Job])
_TABLES: Final = TypeAdapter(list[TableProgress])
_BARRIERS: Final = TypeAdapter(list[TableBarrier])
_DELAYS: Final = TypeAdapter(Delays)
_REVISED: Final = TypeAdapter(RevisionResult)
_REVISIONS: Final = TypeAdapter(list[NotedRevision])
_TOPOLOGY: Final = TypeAdapter(TopologyAnswer)
_LINEAGE: Final = TypeAdapter(LineageAnswer)


class MetaClient:
    """uris: of instances of one warehouse's service, or the one. patience_seconds: how long it asks one after the other
    until one answers; a leader that is gone is followed by another one within ten. Several threads may use it.
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
        """Hold tables at one barrier, as `Catalog.session`. at_least: the barrier that was read before, so that what is
        read never goes back, whichever instance answers: NotFoundError where there is only an older one, which only a
        revision or other tables give.
        """
        body = {
            "tables": None if tables is None else list(names(tables, "tables")),
            "consistency": text(consistency, "consistency"),
            "as_of": _number(as_of, "as_of"),
            "at_least": _number(at_least, "at_least"),
        }
        return ClientSession(self._calls, self._calls.call("POST", "sessions", body))

    def register(
        self, job: str, *, sources: Sequence[str] = (), sinks: Mapping[str, Sequence[str] | None]
    ) -> Job:
        """As `Topology.register`."""
        columns = {
            table: None if given is None else list(names(given, "sinks"))
            for table, given in mapping(sinks, "sinks").items()
        }
        body = {
            "job": text(job, "job"),
            "sources": list(names(sources, "sources")),
            "sinks": columns,
        }
        return value_of(_JOB, self._calls.call("POST", "jobs", body).body)

    def running(self, job: str) -> Job:
        """As `Topology.running`; call `renew` at least once a minute from now on."""
        return value_of(_JOB, self._calls.call("POST", f"jobs/{_part(job, 'job')}/running").body)

    def renew(self, job: str) -> Job:
        """As `Topology.renew`."""
        return value_of(_JOB, self._calls.call("POST", f"jobs/{_part(job, 'job')}/renew").body)

    def drop(self, job: str, *, force: bool = False, dry_run: bool = False) -> list[str]:
        """As `Topology.drop`. The service does not see who calls: a job that lets go of itself has stopped renewing for
        a minute, or says force.
        """
        query = _flags(force=force, dry_run=dry_run)
        path = f"jobs/{_part(job, 'job')}"
        found = self._calls.call("DELETE", path, query=query, is_repeatable=False)
        return [str(table) for table in found.body["tables"]]

    def leave(self, table: str, writer: str, *, force: bool = False, dry_run: bool = False) -> None:
        """As `Topology.leave`."""
        body = {
            "table": text(table, "table"),
            "writer": text(writer, "writer"),
            "force": flag(force, "force"),
            "dry_run": flag(dry_run, "dry_run"),
        }
        self._calls.call("POST", "writers/leave", body, is_repeatable=False)

    def revise(self, table: str, *, to: int | None, dry_run: bool = False) -> RevisionResult:
        """As `Catalog.revise`. Where the service goes while it is at it: look at `revisions`, and call it again if it
        has not ended.
        """
        body = {
            "table": text(table, "table"),
            "to": _number(to, "to"),
            "full": to is None,
            "dry_run": flag(dry_run, "dry_run"),
        }
        found = self._calls.call("POST", "revisions", body, is_repeatable=False, seconds=None)
        return value_of(_REVISED, found.body)

    def jobs(self) -> list[Job]:
        """As `Topology.jobs`."""
        return value_of(_JOBS, self._calls.call("GET", "jobs").body)

    def tables(self) -> list[TableProgress]:
        """As `Topology.tables`."""
        return value_of(_TABLES, self._calls.call("GET", "tables").body)

    def layers(self) -> list[list[str]]:
        """As `Topology.layers`."""
        return self._topology().layers

    def common_barrier(self) -> int | None:
        """As `Topology.common_barrier`."""
        return self._topology().common_barrier

    def upstream(self, table: str) -> list[str]:
        """As `Topology.upstream`."""
        return self._lineage(table).upstream

    def downstream(self, table: str) -> list[str]:
        """As `Topology.downstream`."""
        return self._lineage(table).downstream

    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """As `Topology.barriers`. limit: 10,000 at most; None for all: InvalidError where there are as many."""
        path = f"tables/{_part(table, 'table')}/barriers"
        found = value_of(_BARRIERS, self._calls.call("GET", path, query=_limit(limit)).body)
        _check_all(limit, sum(one.is_complete for one in found))
        return found

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays:
        """As `Topology.delays`. limit: as of `barriers`."""
        query = {"barrier": _number(barrier, "barrier"), **_limit(limit)}
        found = value_of(_DELAYS, self._calls.call("GET", "delays", query=query).body)
        _check_all(limit, len({one.barrier for one in found.tables}))
        return found

    def revisions(self) -> list[NotedRevision]:
        """As `Topology.revisions`."""
        return value_of(_REVISIONS, self._calls.call("GET", "revisions").body)

    def leader(self) -> str | None:
        """The URL of the instance that leads; None where nobody does."""
        found: str | None = self._calls.call("GET", "leader").body["url"]
        return found

    def _topology(self) -> TopologyAnswer:
        return value_of(_TOPOLOGY, self._calls.call("GET", "topology").body)

    def _lineage(self, table: str) -> LineageAnswer:
        path = f"tables/{_part(table, 'table')}/lineage"
        return value_of(_LINEAGE, self._calls.call("GET", path).body)


def client_of(uris: Sequence[str], what: str) -> MetaClient:
    """what: the argument, for messages."""
    return MetaClient(service_urls(uris, what))


def _part(name: str, what: str) -> str:
    """Of a path."""
    return quote(text(name, what), safe="")


def _flags(**given: bool) -> dict[str, str]:
    return {name: str(flag(value, name)).lower() for name, value in given.items()}


def _limit(given: int | None) -> dict[str, int]:
    if given is None:
        return {"limit": MOST_BARRIERS}
    return {"limit": whole_number(given, "limit", least=0, most=MOST_BARRIERS)}


def _check_all(limit: int | None, barriers: int) -> None:
    """Of an answer that was to be of all: it is cut. The service gives 10,000 barriers at most;
    one answer of just so many may be cut or not, so it is refused rather than taken for all.
    """
    if limit is None and barriers >= MOST_BARRIERS:
        raise InvalidError(
            "limit",
            found=f"none, of {MOST_BARRIERS} barriers or more",
            expected=f"{MOST_BARRIERS} at most, the newest",
            action="Give it; a catalog without the service has all.",
        )


def _number(value: int | None, name: str) -> int | None:
    return None if value is None else whole_number(value, name)
