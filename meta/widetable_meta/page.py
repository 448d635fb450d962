"""The page of a service: alarms, topology, tables, jobs, sessions and revisions as HTML with a drawing in SVG.

It is made here, on every request, from what tables say: no script, nothing is fetched, and a policy in its head forbids
both. Every text of others is escaped by the template (`page.html`). Raises what reading tables raises.

A page looks at all tables several times, and once more for each barrier at which delays are
shown; what it lists is bounded, so a page of many sessions or revisions stays short. Its looks
are of different moments: a job that begins in between may be in one list and not in the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from widetable import Job, JobDelay, NotFoundError, TableProgress, Topology
from widetable.connector import duration_text, last_seen_text, now_millis, time_text
from widetable_meta.alarms import alarms_of
from widetable_meta.drawing import JOB_WIDTH, TABLE_WIDTH, drawing_of, job_text
from widetable_meta.leadership import Leadership
from widetable_meta.open_sessions import OpenSessions

# Of barriers at which delays are looked up: one for each part of the topology that stands for itself.
_MOST_BARRIERS: Final = 8
_MOST_SESSIONS: Final = 50
_MOST_REVISIONS: Final = 20
_MOST_ALARMS: Final = 5
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def page_router(
    warehouse: str, topology: Topology, sessions: OpenSessions, leadership: Leadership
) -> APIRouter:
    """The one page."""
    router = APIRouter()
    page = Page(warehouse, topology, sessions, leadership)

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    def whole() -> HTMLResponse:
        headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(page.html(), HTTPStatus.OK, headers)

    return router


class Page:
    """Of one instance."""

    def __init__(
        self,
        warehouse: str,
        topology: Topology,
        sessions: OpenSessions,
        leadership: Leadership,
    ) -> None:
        self._warehouse = warehouse
        self._topology = topology
        self._sessions = sessions
        self._leadership = leadership
        environment = Environment(
            loader=PackageLoader("widetable_meta", ""),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "duration": _duration,
            "last_seen": last_seen_text,
            "moment": _moment,
            "short": _short,
        }
        self._template = environment.get_template("page.html")

    def html(self) -> str:
        """As of now."""
        tables, jobs = self._topology.tables(), self._topology.jobs()
        delays = self._delays(tables, jobs)
        revisions = self._topology.revisions()
        open_ones = self._sessions.listed()
        leadership = self._leadership
        has_leader = leadership.is_here or leadership.leader_url is not None
        alarms = alarms_of(self._warehouse, tables, revisions, has_leader)
        return self._template.render(
            warehouse=self._warehouse,
            alarms=alarms[:_MOST_ALARMS],
            alarm_count=len(alarms),
            leadership=leadership,
            now_millis=now_millis(),
            common=self._topology.common_barrier() if tables else None,
            drawing=drawing_of(tables, jobs, delays),
            table_width=TABLE_WIDTH,
            job_width=JOB_WIDTH,
            tables=tables,
            jobs=jobs,
            said={job.name: job_text(job, delays.get(job.name)) for job in jobs},
            delays=delays,
            sessions=open_ones[:_MOST_SESSIONS],
            session_count=len(open_ones),
            revisions=list(reversed(revisions))[:_MOST_REVISIONS],
            revision_count=len(revisions),
        )

    def _delays(
        self, tables: Sequence[TableProgress], jobs: Sequence[Job]
    ) -> Mapping[str, JobDelay]:
        """Of each job at the newest barrier that its tables have in common. Parts that nothing
        connects are at different ones, of which the newest eight are looked up.
        """
        common = {one.table: one.common_barrier for one in tables}
        wanted = {common.get(job.tables[0]) for job in jobs if job.sources}
        barriers = sorted(barrier for barrier in wanted if barrier is not None)
        found: dict[str, JobDelay] = {}
        for barrier in barriers[-_MOST_BARRIERS:]:
            with contextlib.suppress(NotFoundError):  # its snapshots have expired meanwhile
                of_jobs = self._topology.delays(barrier).jobs
                for job in jobs:
                    if job.sources and common.get(job.tables[0]) == barrier:
                        found.update({one.job: one for one in of_jobs if one.job == job.name})
        return found


def _duration(millis: int | None) -> str:
    return "-" if millis is None else duration_text(_rounded(millis))


def _rounded(millis: int) -> int:
    return millis if abs(millis) < 10_000 else millis // 1000 * 1000


def _moment(millis: int | None) -> str:
    return "none" if millis is None else time_text(millis)


def _short(millis: int | None) -> str:
    """Of UTC, as all that stands on the page."""
    return "none" if millis is None else time_text(millis, is_utc=False)
