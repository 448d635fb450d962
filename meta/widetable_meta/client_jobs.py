"""The calls of a client about jobs: what `MetaClient` lists as its methods, each a function.

These calls change something. `drop`, `leave` and `revise` are sent to another instance only if it is certain that they
were not carried out. Raises what the calls of `widetable.Topology` raise, and StorageError if no instance answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import quote

from pydantic import TypeAdapter

from widetable import Job, RevisionResult
from widetable.connector import arguments
from widetable_meta.answer_value import value_of
from widetable_meta.service_calls import ServiceCalls

_JOB: Final = TypeAdapter(Job)
_REVISED: Final = TypeAdapter(RevisionResult)


class CallingClient(Protocol):
    """The part of a client that these functions use."""

    _calls: ServiceCalls


def register(
    client: CallingClient,
    job: str,
    *,
    sources: Sequence[str] = (),
    sinks: Mapping[str, Sequence[str] | None],
) -> Job:
    """Register a job that is planned.

    Parameters
    ----------
    job, sources, sinks
        As in `Topology.register`.

    Returns
    -------
    Job
        The job, as it is registered now.

    Raises
    ------
    InvalidError
        A name is not valid, or a table is not under barriers.
    NotFoundError
        A table or column does not exist.
    ConflictError
        Another job is in the way.
    """
    columns = {
        table: None if given is None else list(arguments.names(given, "sinks"))
        for table, given in arguments.mapping(sinks, "sinks").items()
    }
    body = {
        "job": arguments.text(job, "job"),
        "sources": list(arguments.names(sources, "sources")),
        "sinks": columns,
    }
    return value_of(_JOB, client._calls.call("POST", "jobs", body).body)


def running(client: CallingClient, job: str) -> Job:
    """Report that a registered job runs; call `renew` at least once a minute from now on.

    Parameters
    ----------
    job
        As in `Topology.running`.

    Returns
    -------
    Job
        The job, as it is registered now.

    Raises
    ------
    NotFoundError
        No job of that name is registered.
    ConflictError
        Another job is in the way.
    """
    return value_of(_JOB, client._calls.call("POST", f"jobs/{path_part(job, 'job')}/running").body)


def renew(client: CallingClient, job: str) -> Job:
    """Report that a job still runs.

    Parameters
    ----------
    job
        As in `Topology.renew`.

    Returns
    -------
    Job
        The job, as it is registered now.

    Raises
    ------
    NotFoundError
        No job of that name is registered.
    ConflictError
        The registration had expired, and another job is in the way.
    """
    return value_of(_JOB, client._calls.call("POST", f"jobs/{path_part(job, 'job')}/renew").body)


def drop(
    client: CallingClient, job: str, *, force: bool = False, dry_run: bool = False
) -> list[str]:
    """Report that a job has ended for good.

    The service does not see which process calls. A job that drops itself has stopped renewing for a minute, or
    gives `force`.

    Parameters
    ----------
    job, force, dry_run
        As in `Topology.drop`.

    Returns
    -------
    list of str
        The tables that the job leaves.

    Raises
    ------
    NotFoundError
        No table knows the job.
    ConflictError
        The job still runs, or its tables are not equally far.
    """
    query = flag_texts(force=force, dry_run=dry_run)
    path = f"jobs/{path_part(job, 'job')}"
    answer = client._calls.call("DELETE", path, query=query, is_repeatable=False)
    return [str(table) for table in answer.body["tables"]]


def leave(
    client: CallingClient, table: str, writer: str, *, force: bool = False, dry_run: bool = False
) -> None:
    """Report that a writer of one table will not come back.

    Parameters
    ----------
    table, writer, force, dry_run
        As in `Topology.leave`.

    Raises
    ------
    NotFoundError
        The table does not exist, or does not wait for the writer.
    ConflictError
        The writer still runs, or its tables are not equally far.
    """
    body = {
        "table": arguments.text(table, "table"),
        "writer": arguments.text(writer, "writer"),
        "force": arguments.flag(force, "force"),
        "dry_run": arguments.flag(dry_run, "dry_run"),
    }
    client._calls.call("POST", "writers/leave", body, is_repeatable=False)


def revise(
    client: CallingClient, table: str, *, to: int | None, dry_run: bool = False
) -> RevisionResult:
    """Take a table that jobs derive from others back to a barrier.

    If the service ends meanwhile, look at `revisions`; call it again if the revision has not ended.

    Parameters
    ----------
    table, to, dry_run
        As in `Catalog.revise`.

    Returns
    -------
    RevisionResult
        The tables and what they lose, and the jobs.

    Raises
    ------
    InvalidError
        The table is not under barriers, or no job derives it from others.
    NotFoundError
        A table no longer has the barrier.
    ConflictError
        Another revision has not ended.
    """
    body = {
        "table": arguments.text(table, "table"),
        "to": optional_number(to, "to"),
        "full": to is None,
        "dry_run": arguments.flag(dry_run, "dry_run"),
    }
    answer = client._calls.call("POST", "revisions", body, is_repeatable=False, seconds=None)
    return value_of(_REVISED, answer.body)


def path_part(name: str, what: str) -> str:
    """Return a name as one part of the path of a URL."""
    return quote(arguments.text(name, what), safe="")


def optional_number(value: int | None, name: str) -> int | None:
    """Return the whole number, or None where none was given."""
    return None if value is None else arguments.whole_number(value, name)


def flag_texts(**flags: bool) -> dict[str, str]:
    """Return the flags in the form of a query: `true` or `false`, by name."""
    return {name: str(arguments.flag(value, name)).lower() for name, value in flags.items()}
