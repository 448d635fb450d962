"""What the calls of a topology build on: the tables of the warehouse, their jobs, and the graph of both.

Raises what reading tables raises, InvalidError for a table that is not under barriers, NotFoundError for a job or table
that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from widetable.arguments import text
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.writer_registration import RUNNING, Job
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.errors import NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable
from widetable.topology.barrier_floor import keep_common_barriers
from widetable.topology.job_graph import JobGraph, check_flow
from widetable.topology.polling import retrying_reads
from widetable.topology.registered_jobs import JobsOfTable, jobs_of, leads_of, merged
from widetable.topology.warehouse import Warehouse, tables_under_barriers


class TopologyState:
    """The base of `Topology`, which adds the calls. It keeps nothing between calls."""

    def __init__(
        self, warehouse: Warehouse, clock: Clock | None = None, *, for_others: bool = False
    ) -> None:
        """for_others: the jobs run in other processes than this one, whose end says nothing about theirs."""
        self._warehouse = warehouse
        self._clock: Final = clock or SystemClock()
        self._for_others = for_others

    def __repr__(self) -> str:
        return f"Topology({self._warehouse!r})"

    def _read(self) -> list[JobsOfTable]:
        """Look once at all tables under barriers."""
        return self._jobs_of(tables_under_barriers(self._warehouse))

    def _jobs_of(self, opened: Iterable[tuple[str, OpenTable]]) -> list[JobsOfTable]:
        return [jobs_of(name, table, self._clock) for name, table in opened]

    def _graph_with(self, *required: str) -> JobGraph:
        """Return the graph of running jobs. Raise NotFoundError if a required table is not in it."""
        tables = self._read()
        for name in required:
            _check_there(text(name, "table"), tables)
        return graph_of(tables)

    @retrying_reads
    def _keep_common_barriers(self) -> dict[str, int]:
        """Keep the barriers that connected tables have in common; return the first kept snapshot by table."""
        opened = dict(tables_under_barriers(self._warehouse))
        return keep_common_barriers(opened, graph_of(self._jobs_of(opened.items())).components())

    def _check_flow(self, job: Job) -> None:
        check_flow(job, live_jobs(self._read()))

    def _opened_sinks(self, job: Job) -> dict[str, OpenTable]:
        return {table: self._opened(table) for table in job.tables}

    def _opened(self, name: str) -> OpenTable:
        """Open a table under barriers."""
        table = self._warehouse.table(name)
        interval_of(table.schema, table.path)
        return table


def live_jobs(tables: Sequence[JobsOfTable]) -> list[Job]:
    """Return the jobs that are planned, that run, or that a table waits for; sorted by name."""
    return merged((job for table in tables for job in table.live()), leads_of(tables))


def running_jobs(tables: Sequence[JobsOfTable]) -> list[Job]:
    """Return the live jobs that are part of the graph."""
    return [job for job in live_jobs(tables) if job.state == RUNNING]


def registered_job(job: str, tables: Sequence[JobsOfTable]) -> Job:
    """Return a job as it was registered, even if that has expired; its sinks in their order, the lead first."""
    declared = merged((note.job for table in tables for note in table.notes), leads_of(tables))
    name = text(job, "job")
    registered = next((one for one in declared if one.name == name), None)
    if registered is None:
        raise no_job(name, live_jobs(tables))
    return registered


def graph_of(tables: Sequence[JobsOfTable]) -> JobGraph:
    """Return the graph of running jobs, with all tables."""
    return JobGraph(running_jobs(tables), (table.name for table in tables))


def no_job(name: str, jobs: Sequence[Job]) -> NotFoundError:
    """Make the error for a name that is not among the jobs."""
    return NotFoundError(
        f"job {name!a}",
        found="no job that is registered, or that a table waits for",
        expected=f"one of {', '.join(job.name for job in jobs) or 'none'}",
        action="Correct the name, or register it.",
        code=ErrorCode.JOB_NOT_FOUND,
    )


def _check_there(table: str, tables: Sequence[JobsOfTable]) -> None:
    names = [each.name for each in tables]
    if table not in names:
        raise NotFoundError(
            f"table {table!a}",
            found="no table under barriers",
            expected=f"one of {', '.join(names) or 'none'}",
            action="Correct the name.",
        )
