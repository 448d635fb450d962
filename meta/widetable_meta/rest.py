"""What is asked of the service: paths below /v1, each a call of `widetable.Topology`, `Catalog.session` or
`Catalog.revise`, with the same arguments and answers.

Jobs run in other processes than this one: they renew their registration by it. Raises what these calls raise, which
`answering` makes an answer of.

Which requests reach these functions says `forwarding`: those that change something, but for
sessions, only in the instance that leads. The docstrings of the functions are what /openapi.json
says of them. Names of jobs may have slashes, so `{job:path}`; `/running` and `/renew` behind it
are told from a name by the order of the routes and the method.
"""

from __future__ import annotations

from http import HTTPStatus
from importlib import metadata
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query

from widetable import (
    Catalog,
    Delays,
    InvalidError,
    Job,
    NotedRevision,
    NotFoundError,
    RevisionResult,
    TableBarrier,
    TableProgress,
    Topology,
)
from widetable.connector import held_leases
from widetable_meta.answer_form import (
    ErrorAnswer,
    HealthAnswer,
    LeaderAnswer,
    LeftAnswer,
    LineageAnswer,
    PinnedTable,
    SessionAnswer,
    TopologyAnswer,
)
from widetable_meta.error_form import STATUSES
from widetable_meta.leadership import Leadership
from widetable_meta.open_sessions import OpenSession, OpenSessions, Wanted
from widetable_meta.request_form import (
    MOST_BARRIERS,
    JobRequest,
    LeaveRequest,
    RevisionRequest,
    SessionRequest,
)

_LARGEST: Final = 2**63 - 1
VERSION: Final = metadata.version("widetable")
# Of barriers of a table, and of delays.
DEFAULT_LIMIT: Final = 100
Limit = Annotated[int, Query(ge=0, le=MOST_BARRIERS)]
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    int(status): {"model": ErrorAnswer, "description": kind.__name__}
    for kind, status in STATUSES.items()
}


def rest_router(
    catalog: Catalog, topology: Topology, sessions: OpenSessions, leadership: Leadership
) -> APIRouter:
    """All of it."""
    router = APIRouter(prefix="/v1", responses=_ERRORS)
    _add_jobs(router, topology)
    _add_tables(router, topology)
    _add_sessions(router, sessions, catalog.warehouse)
    _add_revisions(router, catalog, topology)
    _add_service(router, sessions, leadership)
    return router


def _add_jobs(router: APIRouter, topology: Topology) -> None:
    @router.post("/jobs", status_code=HTTPStatus.CREATED)
    def register(body: JobRequest) -> Job:
        """Say what a job will read and write. 409 for one that another job is in the way of."""
        return topology.register(body.job, sources=body.sources, sinks=body.sinks)

    @router.post("/jobs/{job:path}/running")
    def running(job: str) -> Job:
        """Say that it runs."""
        return topology.running(job)

    @router.post("/jobs/{job:path}/renew")
    def renew(job: str) -> Job:
        """Say that it goes on: at least once a minute."""
        return topology.renew(job)

    @router.delete("/jobs/{job:path}")
    def drop(job: str, force: bool = False, dry_run: bool = False) -> LeftAnswer:
        """Say that it has ended for good. 409 for one that goes on, without force."""
        left = topology.drop(job, force=force, dry_run=dry_run)
        return LeftAnswer(left=job, tables=left, dry_run=dry_run)

    @router.get("/jobs")
    def jobs() -> list[Job]:
        """All that are planned, that run, or that a table waits for."""
        return topology.jobs()

    @router.post("/writers/leave")
    def leave(body: LeaveRequest) -> LeftAnswer:
        """Say that a writer of one table will not come back."""
        topology.leave(body.table, body.writer, force=body.force, dry_run=body.dry_run)
        return LeftAnswer(left=body.writer, tables=[body.table], dry_run=body.dry_run)


def _add_tables(router: APIRouter, topology: Topology) -> None:
    @router.get("/tables")
    def tables() -> list[TableProgress]:
        """How far each table is, and which writers it waits for."""
        return topology.tables()

    @router.get("/tables/{table}/barriers")
    def barriers(table: str, limit: Limit = DEFAULT_LIMIT) -> list[TableBarrier]:
        """Which snapshots its barriers are, ascending; the newest ones."""
        return topology.barriers(table, limit)

    @router.get("/tables/{table}/lineage")
    def lineage(table: str) -> LineageAnswer:
        """The tables that it is made of, and that are made of it, directly or not; those made first in front."""
        upstream, downstream = topology.upstream(table), topology.downstream(table)
        return LineageAnswer(table=table, upstream=upstream, downstream=downstream)

    @router.get("/topology")
    def whole() -> TopologyAnswer:
        """Jobs, tables, and the order in which tables are made of each other."""
        return TopologyAnswer(
            jobs=topology.jobs(),
            tables=topology.tables(),
            layers=topology.layers(),
            common_barrier=topology.common_barrier(),
        )

    @router.get("/delays")
    def delays(
        barrier: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None,
        limit: Limit = DEFAULT_LIMIT,
    ) -> Delays:
        """How long after a barrier tables came to it, and what jobs took of that; of the newest barriers."""
        return topology.delays(barrier, limit)


def _add_sessions(router: APIRouter, sessions: OpenSessions, warehouse: str) -> None:
    @router.post("/sessions", status_code=HTTPStatus.CREATED)
    def open_session(body: SessionRequest) -> SessionAnswer:
        """Hold tables at one barrier. It lives as long as this instance, and is closed when nobody renews it."""
        wanted = Wanted(body.tables, body.consistency, body.as_of, body.at_least)
        return _session_answer(sessions.open(wanted), warehouse)

    @router.put("/sessions/{id}")
    def renew_session(id: str) -> SessionAnswer:
        """It goes on for as long again."""
        return _session_answer(sessions.renew(id), warehouse)

    @router.delete("/sessions/{id}", status_code=HTTPStatus.NO_CONTENT)
    def close_session(id: str) -> None:
        """Let go of what it holds."""
        sessions.close(id)


def _add_revisions(router: APIRouter, catalog: Catalog, topology: Topology) -> None:
    @router.post("/revisions")
    def revise(body: RevisionRequest) -> RevisionResult:
        """Take a table that jobs make, and all that is made of it, back to a barrier."""
        if body.full == (body.to is not None):
            raise InvalidError(
                "revision",
                found="both to and full" if body.full else "neither to nor full",
                expected="one of them",
                action="Say to which barrier the table is to go back, or that it is to be made from the beginning.",
            )
        return catalog.revise(body.table, to=body.to, dry_run=body.dry_run)

    @router.get("/revisions")
    def revisions() -> list[NotedRevision]:
        """Which there were."""
        return topology.revisions()

    @router.get("/revisions/{number}")
    def revision(number: int) -> NotedRevision:
        """One of them."""
        found = topology.revisions()
        for one in found:
            if one.number == number:
                return one
        raise NotFoundError(
            f"revision {str(number)[:64]}",
            found="none of that number",
            expected=f"one of {', '.join(str(one.number) for one in found) or 'none'}",
            action="Correct the number.",
        )


def _add_service(router: APIRouter, sessions: OpenSessions, leadership: Leadership) -> None:
    @router.get("/health")
    def health() -> HealthAnswer:
        """Whether this instance answers."""
        return HealthAnswer(
            status="ok",
            version=VERSION,
            url=leadership.url,
            is_leader=leadership.is_here,
            sessions=sessions.count(),
        )

    @router.get("/leader")
    def leader() -> LeaderAnswer:
        """Who leads."""
        return LeaderAnswer(url=leadership.leader_url, is_here=leadership.is_here)


def _session_answer(found: OpenSession, warehouse: str) -> SessionAnswer:
    session, leases = found.session, held_leases(found.session)
    return SessionAnswer(
        id=found.id,
        warehouse=warehouse,
        consistency=found.wanted.consistency,
        barrier=session.barrier,
        revision=session.revision,
        tables={
            name: PinnedTable(snapshot_id=snapshot_id, lease=leases[name])
            for name, snapshot_id in session.snapshot_ids().items()
        },
        expires=found.expires_millis,
    )
