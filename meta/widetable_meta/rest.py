"""The paths of the service below /v1, each a call of `widetable.Topology`, `Catalog.session` or `Catalog.revise`, with
the same arguments and answers.

Jobs run in other processes than this one, and renew their registration through it. Raises what these calls raise;
`answering` makes answers of errors.

`forwarding` decides which requests reach these functions: those that change something, except for those of sessions,
only in the instance that leads. /openapi.json shows the docstrings of the functions. Names of jobs may have slashes,
hence `{job:path}`; the order of the routes and the method distinguish `/running` and `/renew` from a name.
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
    MAX_BARRIERS,
    JobRequest,
    LeaveRequest,
    RevisionRequest,
    SessionRequest,
)

_LARGEST: Final = 2**63 - 1
VERSION: Final = metadata.version("widetable")
# The number of barriers of an answer, of a table or of delays.
DEFAULT_LIMIT: Final = 100
Limit = Annotated[int, Query(ge=0, le=MAX_BARRIERS)]
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    int(status): {"model": ErrorAnswer, "description": kind.__name__}
    for kind, status in STATUSES.items()
}


def rest_router(
    catalog: Catalog, topology: Topology, sessions: OpenSessions, leadership: Leadership
) -> APIRouter:
    """Return all routes."""
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
        """Register what a job will read and write. 409: another job is in the way."""
        return topology.register(body.job, sources=body.sources, sinks=body.sinks)

    @router.post("/jobs/{job:path}/running")
    def running(job: str) -> Job:
        """Report that the job runs."""
        return topology.running(job)

    @router.post("/jobs/{job:path}/renew")
    def renew(job: str) -> Job:
        """Report that the job still runs, at least once a minute."""
        return topology.renew(job)

    @router.delete("/jobs/{job:path}")
    def drop(job: str, force: bool = False, dry_run: bool = False) -> LeftAnswer:
        """Report that the job has ended for good. 409: it still runs, and force is not given."""
        left = topology.drop(job, force=force, dry_run=dry_run)
        return LeftAnswer(left=job, tables=left, dry_run=dry_run)

    @router.get("/jobs")
    def jobs() -> list[Job]:
        """List the jobs that are planned, that run, or that a table waits for."""
        return topology.jobs()

    @router.post("/writers/leave")
    def leave(body: LeaveRequest) -> LeftAnswer:
        """Report that a writer of one table will not come back."""
        topology.leave(body.table, body.writer, force=body.force, dry_run=body.dry_run)
        return LeftAnswer(left=body.writer, tables=[body.table], dry_run=body.dry_run)


def _add_tables(router: APIRouter, topology: Topology) -> None:
    @router.get("/tables")
    def tables() -> list[TableProgress]:
        """List how far each table is, and which writers it waits for."""
        return topology.tables()

    @router.get("/tables/{table}/barriers")
    def barriers(table: str, limit: Limit = DEFAULT_LIMIT) -> list[TableBarrier]:
        """List which snapshots the newest barriers of the table are, ascending."""
        return topology.barriers(table, limit)

    @router.get("/tables/{table}/lineage")
    def lineage(table: str) -> LineageAnswer:
        """List the tables that it is derived from, and those derived from it, directly or not, in that order."""
        upstream, downstream = topology.upstream(table), topology.downstream(table)
        return LineageAnswer(table=table, upstream=upstream, downstream=downstream)

    @router.get("/topology")
    def whole() -> TopologyAnswer:
        """Return jobs, tables, and the order in which tables are derived from each other."""
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
        """List how long tables took after the newest barriers, and what jobs took of that."""
        return topology.delays(barrier, limit)


def _add_sessions(router: APIRouter, sessions: OpenSessions, warehouse: str) -> None:
    @router.post("/sessions", status_code=HTTPStatus.CREATED)
    def open_session(body: SessionRequest) -> SessionAnswer:
        """Hold tables at one barrier. The session ends with this instance, or when nobody renews it."""
        wanted = Wanted(body.tables, body.consistency, body.as_of, body.at_least)
        return _session_answer(sessions.open(wanted), warehouse)

    @router.put("/sessions/{id}")
    def renew_session(id: str) -> SessionAnswer:
        """Extend the session by its life time."""
        return _session_answer(sessions.renew(id), warehouse)

    @router.delete("/sessions/{id}", status_code=HTTPStatus.NO_CONTENT)
    def close_session(id: str) -> None:
        """Close the session."""
        sessions.close(id)


def _add_revisions(router: APIRouter, catalog: Catalog, topology: Topology) -> None:
    @router.post("/revisions")
    def revise(body: RevisionRequest) -> RevisionResult:
        """Take a table that jobs derive, and all that is derived from it, back to a barrier."""
        if body.full == (body.to is not None):
            raise InvalidError(
                "revision",
                found="both to and full" if body.full else "neither to nor full",
                expected="one of to and full",
                action="Give the barrier that the table goes back to, or full to derive it from the beginning.",
            )
        return catalog.revise(body.table, to=body.to, dry_run=body.dry_run)

    @router.get("/revisions")
    def revisions() -> list[NotedRevision]:
        """List the revisions."""
        return topology.revisions()

    @router.get("/revisions/{number}")
    def revision(number: int) -> NotedRevision:
        """Return one revision."""
        revisions = topology.revisions()
        for one in revisions:
            if one.number == number:
                return one
        raise NotFoundError(
            f"revision {str(number)[:64]}",
            found="no revision of that number",
            expected=f"one of {', '.join(str(one.number) for one in revisions) or 'none'}",
            action="Correct the number.",
        )


def _add_service(router: APIRouter, sessions: OpenSessions, leadership: Leadership) -> None:
    @router.get("/health")
    def health() -> HealthAnswer:
        """Report that this instance answers."""
        return HealthAnswer(
            status="ok",
            version=VERSION,
            url=leadership.url,
            is_leader=leadership.is_here,
            sessions=sessions.count(),
        )

    @router.get("/leader")
    def leader() -> LeaderAnswer:
        """Return which instance leads."""
        return LeaderAnswer(url=leadership.leader_url, is_here=leadership.is_here)


def _session_answer(opened: OpenSession, warehouse: str) -> SessionAnswer:
    session, leases = opened.session, held_leases(opened.session)
    return SessionAnswer(
        id=opened.id,
        warehouse=warehouse,
        consistency=opened.wanted.consistency,
        barrier=session.barrier,
        revision=session.revision,
        tables={
            name: PinnedTable(snapshot_id=snapshot_id, lease=leases[name])
            for name, snapshot_id in session.snapshot_ids().items()
        },
        expires=opened.expires_millis,
    )
