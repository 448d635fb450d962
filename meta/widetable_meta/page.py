"""The page of a service: alarms, topology, tables, jobs, sessions and revisions as HTML with a drawing in SVG.

The page is made on every request, from the tables. It has no script and fetches nothing; a policy in its head forbids
both. The template (`page.html`) escapes all texts of others. Raises what reading tables raises.

A page reads all tables several times, and once more for each barrier whose delays it shows. Its lists are bounded, so a
page of many sessions or revisions stays short. The reads happen at different moments: a job that begins in between may
be in one list and not in another.
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

# How many barriers have their delays shown: one for each unconnected part of the topology.
_MAX_BARRIERS: Final = 8
_MAX_SESSIONS: Final = 50
_MAX_REVISIONS: Final = 20
_MAX_ALARMS: Final = 5
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def page_router(
    warehouse: str, topology: Topology, sessions: OpenSessions, leadership: Leadership
) -> APIRouter:
    """Return the route of the page."""
    router = APIRouter()
    page = Page(warehouse, topology, sessions, leadership)

    @router.get("/", response_class=HTMLResponse, include_in_schema=False)
    def whole() -> HTMLResponse:
        headers = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(page.html(), HTTPStatus.OK, headers)

    return router


class Page:
    """The page of one instance."""

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
        """Return the page as of now."""
        tables, jobs = self._topology.tables(), self._topology.jobs()
        delays = self._delays(tables, jobs)
        revisions = self._topology.revisions()
        open_ones = self._sessions.listed()
        leadership = self._leadership
        has_leader = leadership.is_here or leadership.leader_url is not None
        alarms = alarms_of(self._warehouse, tables, revisions, has_leader)
        return self._template.render(
            warehouse=self._warehouse,
            alarms=alarms[:_MAX_ALARMS],
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
            sessions=open_ones[:_MAX_SESSIONS],
            session_count=len(open_ones),
            revisions=list(reversed(revisions))[:_MAX_REVISIONS],
            revision_count=len(revisions),
        )

    def _delays(
        self, tables: Sequence[TableProgress], jobs: Sequence[Job]
    ) -> Mapping[str, JobDelay]:
        """Return the delays of each job at the newest barrier that its tables have in common.

        Unconnected parts have different barriers, of which the newest eight are shown.
        """
        common = {one.table: one.common_barrier for one in tables}
        candidates = {common.get(job.tables[0]) for job in jobs if job.sources}
        barriers = sorted(barrier for barrier in candidates if barrier is not None)
        newest: dict[str, JobDelay] = {}
        for barrier in barriers[-_MAX_BARRIERS:]:
            with contextlib.suppress(NotFoundError):  # its snapshots have expired meanwhile
                of_jobs = self._topology.delays(barrier).jobs
                for job in jobs:
                    if job.sources and common.get(job.tables[0]) == barrier:
                        newest.update({one.job: one for one in of_jobs if one.job == job.name})
        return newest


def _duration(millis: int | None) -> str:
    return "-" if millis is None else duration_text(_rounded(millis))


def _rounded(millis: int) -> int:
    return millis if abs(millis) < 10_000 else millis // 1000 * 1000


def _moment(millis: int | None) -> str:
    return "none" if millis is None else time_text(millis)


def _short(millis: int | None) -> str:
    """Return a time as UTC, like all times on the page."""
    return "none" if millis is None else time_text(millis, is_utc=False)
