"""A client of the service of a warehouse: what `widetable.Catalog` does embedded, by REST.

It takes several URIs, and asks the next one when one is gone. Answers are the same values as of `widetable.Topology`.
Raises the six kinds of error: those of the calls as they are embedded, StorageError where no instance answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from widetable import (
    Delays,
    Job,
    NotedRevision,
    RevisionResult,
    StorageError,
    TableBarrier,
    TableProgress,
)
from widetable.connector import flag, mapping, names, text, whole_number
from widetable_meta.answer_form import NESTED as NESTED
from widetable_meta.client_session import ClientSession
from widetable_meta.service_calls import PATIENCE_SECONDS, ServiceCalls

T = TypeVar("T")
_JOB: Final = TypeAdapter(Job)
_JOBS: Final = TypeAdapter(list[Job])
_TABLES: Final = TypeAdapter(list[TableProgress])
_BARRIERS: Final = TypeAdapter(list[TableBarrier])
_DELAYS: Final = TypeAdapter(Delays)
_REVISED: Final = TypeAdapter(RevisionResult)
_REVISIONS: Final = TypeAdapter(list[NotedRevision])


class MetaClient:
    """uris: of instances of one warehouse's service, or the one. patience_seconds: how long it asks one after the other
    until one answers; a leader that is gone is followed by another one within ten. Several threads may use it.
    """

    def __init__(
        self, uris: str | Sequence[str], *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        given = [uris] if isinstance(uris, str) else uris
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
        return _value(_JOB, self._calls.call("POST", "jobs", body).body)

    def running(self, job: str) -> Job:
        """As `Topology.running`; call `renew` at least once a minute from now on."""
        return _value(_JOB, self._calls.call("POST", f"jobs/{_part(job, 'job')}/running").body)

    def renew(self, job: str) -> Job:
        """As `Topology.renew`."""
        return _value(_JOB, self._calls.call("POST", f"jobs/{_part(job, 'job')}/renew").body)

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
        return _value(_REVISED, found.body)

    def jobs(self) -> list[Job]:
        """As `Topology.jobs`."""
        return _value(_JOBS, self._calls.call("GET", "jobs").body)

    def tables(self) -> list[TableProgress]:
        """As `Topology.tables`."""
        return _value(_TABLES, self._calls.call("GET", "tables").body)

    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """As `Topology.barriers`; limit: None for the hundred newest."""
        query = {"limit": _number(limit, "limit")}
        path = f"tables/{_part(table, 'table')}/barriers"
        return _value(_BARRIERS, self._calls.call("GET", path, query=query).body)

    def delays(self, barrier: int | None = None) -> Delays:
        """As `Topology.delays`; of the hundred newest barriers."""
        query = {"barrier": _number(barrier, "barrier")}
        return _value(_DELAYS, self._calls.call("GET", "delays", query=query).body)

    def revisions(self) -> list[NotedRevision]:
        """As `Topology.revisions`."""
        return _value(_REVISIONS, self._calls.call("GET", "revisions").body)

    def leader(self) -> str | None:
        """The URL of the instance that leads; None where nobody does."""
        found: str | None = self._calls.call("GET", "leader").body["url"]
        return found


def _value(adapter: TypeAdapter[T], body: Any) -> T:
    try:
        return adapter.validate_python(body)
    except ValidationError as refusal:
        raise StorageError(
            "the service",
            found=f"an answer that this version does not know: {refusal.errors()[0]['msg']}",
            expected="one of the same version",
            action="Bring the service and this client to the same version.",
        ) from refusal


def _part(name: str, what: str) -> str:
    """Of a path."""
    return quote(text(name, what), safe="")


def _flags(**given: bool) -> dict[str, str]:
    return {name: str(flag(value, name)).lower() for name, value in given.items()}


def _number(value: int | None, name: str) -> int | None:
    return None if value is None else whole_number(value, name)
