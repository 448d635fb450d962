"""The topology: jobs and the tables under barriers that they read and write, as one graph (0043).

    catalog.topology().register("amounts", sources=["shop.shopping"], sinks={"shop.amounts": None})
    catalog.topology().running("amounts")

It has no state: every call reads the registrations (`writer_registration`) and snapshots of the tables, so no process
has to run for it, and its answers are current. A planned job reserves its columns, so that conflicting jobs are
refused; it is part of the graph when it runs. Raises ConflictError for a job that conflicts with another one,
InvalidError for tables that are under no barriers, NotFoundError for unknown names, and what reading tables
raises.

    register     planned: reserves its columns for ten minutes; not in the graph
    running      in the graph; `renew` once a minute, or it is not alive, but still live while a table waits for it
    drop         no longer live

A call lists the warehouse and opens each of its tables, to find those under barriers.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from widetable.arguments import flag, mapping, names, refused, text, whole_number
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.writer_registration import (
    DERIVED,
    PENDING,
    RUNNING,
    Job,
    JobSink,
    write_registration,
)
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.lease_term import LeaseState
from widetable.commit.notes.revision_notes import notes_of
from widetable.errors import NotFoundError
from widetable.operations.barriers.common_barrier import common_barrier
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.derived_options import WIDENER_OF
from widetable.storage.job_names import job_name
from widetable.topology.barrier_floor import check_consumer, keep_common_barriers, renew_consumer
from widetable.topology.barrier_times import KeptBarriers
from widetable.topology.column_claims import check_columns
from widetable.topology.delays import Delays, delays_of, newest_delays
from widetable.topology.departure import (
    check_agreed,
    check_ended,
    check_waited_for,
    forgotten,
    take_leave,
)
from widetable.topology.job_claim import check_unrevised, claim
from widetable.topology.job_graph import JobGraph, check_flow
from widetable.topology.job_tables import check_alike
from widetable.topology.noted_revision import NotedRevision, noted_revisions
from widetable.topology.polling import retrying_reads
from widetable.topology.registered_jobs import JobsOfTable, jobs_of, leads_of, merged
from widetable.topology.system_tables import SystemTables
from widetable.topology.table_barriers import TableBarrier, table_barriers
from widetable.topology.table_progress import (
    FIRST_VERSION,
    TableProgress,
    progress_of,
)
from widetable.topology.warehouse import Warehouse, tables_under_barriers

# The tables in which a session's barrier is complete.
TABLES: Final = "tables"
TOPOLOGY: Final = "topology"
SCOPES: Final = (TABLES, TOPOLOGY)


class Topology:
    """The jobs and tables of a warehouse. `Catalog.topology` makes it. It has no state: threads may share it, and it
    sees changes of others.
    """

    __module__ = "widetable"

    def __init__(
        self, warehouse: Warehouse, clock: Clock | None = None, *, for_others: bool = False
    ) -> None:
        """Make the topology. for_others: the jobs run in other processes, so their registrations outlive this one."""
        self._warehouse = warehouse
        self._clock: Final = clock or SystemClock()
        self._for_others = for_others

    def __repr__(self) -> str:
        return f"Topology({self._warehouse!r})"

    def register(
        self, job: str, *, sources: Sequence[str] = (), sinks: Mapping[str, Sequence[str] | None]
    ) -> Job:
        """Register what a planned job will read and write. This reserves its columns for ten minutes; `running` tells
        that it runs. It replaces an earlier registration of the job.

        sources: tables, none for a job whose sources are outside. sinks: table to the columns that it writes besides
        the key, None for all; the first table is the lead.
        """
        name = job_name(job, "job")
        if name.startswith(WIDENER_OF):
            raise refused(job, "job", f"a name that does not begin with {WIDENER_OF}, as wideners'")
        columns_of = {
            table: None if columns is None else names(columns, "sinks")
            for table, columns in mapping(sinks, "sinks").items()
        }
        if not columns_of:
            raise refused(sinks, "sinks", "at least one table")
        read = names(sources, "sources")
        if read:
            check_consumer(name)
        new = Job(
            name,
            DERIVED if read else ROOT,
            PENDING,
            read,
            tuple(JobSink(table, columns) for table, columns in columns_of.items()),
            str(uuid.uuid4()),
        )
        check_alike(name, {table: self._opened(table) for table in (*read, *columns_of)})
        self._claim(new)
        self._forget_elsewhere(new)
        return new

    def running(self, job: str) -> Job:
        """Declare that a registered job runs. Its process calls `renew` at least once a minute from now on. If it ends
        without `drop`, its columns are free as soon as no table waits for its writer.
        """
        started = replace(_declared(job, self._read()), state=RUNNING, run=str(uuid.uuid4()))
        self._claim(started)
        return started

    def renew(self, job: str) -> Job:
        """Declare that a job is still running; its sources keep what it has not read. An expired registration is
        checked like a new one.
        """
        tables = self._read()  # read once: the notes have the declared job
        declared = _declared(job, tables)
        notes = [note for table in tables for note in table.notes if note.job.name == job]
        if all(note.lease_state is LeaseState.ACTIVE for note in notes):
            for table in self._opened_sinks(declared).values():
                self._write(declared, table)
        else:
            self._claim(declared)
        for source in declared.sources:
            with contextlib.suppress(NotFoundError):  # the job's query reports a dropped source
                renew_consumer(self._opened(source), declared.name)
        return declared

    def drop(self, job: str, *, force: bool = False, dry_run: bool = False) -> list[str]:
        """Declare that a job has ended for good: tables no longer wait for it, and its columns are free. The rows of
        its tables stay. Expired registrations of other jobs for which no table waits are removed, too.

        Raises ConflictError, unless with force, for a job that another process runs, because that process renews its
        registration; with force it is back with its next commit. The same holds for a root that has not reached the
        same barrier in all its tables: the last barriers of some lack rows that only it can write.

        Returns the tables that it leaves; dry_run: only return them.
        """
        name, force, dry_run = text(job, "job"), flag(force, "force"), flag(dry_run, "dry_run")
        all_tables = self._read()
        tables = [
            table
            for table in all_tables
            if name in table.state.members
            or any(job.name == name for job in (*(n.job for n in table.notes), *table.wideners))
        ]
        if not tables:
            raise _no_job(name, _live(all_tables))
        if not force:
            check_ended(name, tables)
            check_agreed(name, tables)
        if not dry_run:
            for table, one in (*((table, name) for table in tables), *forgotten(all_tables)):
                take_leave(one, self._opened(table.name), table)
            self._forget_progress(name, all_tables)
            self.keep()
        return [table.name for table in tables]

    def leave(self, table: str, writer: str, *, force: bool = False, dry_run: bool = False) -> None:
        """Declare that a writer of one table will not return: the table no longer waits for it, and shows its rows. Its
        other tables wait for it as before. Without force this refuses what `drop` refuses; dry_run: only check.
        """
        name = text(writer, "writer")
        force, dry_run = flag(force, "force"), flag(dry_run, "dry_run")
        opened, tables = self._opened(text(table, "table")), self._read()
        of_table = jobs_of(table, opened, self._clock)
        check_waited_for(name, of_table)
        if not force:
            check_ended(name, [of_table])
            check_agreed(name, tables)
        if not dry_run:
            take_leave(name, opened, of_table)

    @retrying_reads
    def jobs(self) -> list[Job]:
        """Return all jobs that are planned, that run, or for which a table waits; by name."""
        return _live(self._read())

    @retrying_reads
    def rebuild(self) -> dict[str, int]:
        """Bring the tables in the database `__meta` up to date; missing ones are made. They are those of FLIP-276,
        `__META_ETL_SOURCE`, `__META_ETL_SINK` and `__META_TABLE_VERSION`, and `__META_JOB`, `__META_BARRIER`,
        `__META_JOB_BARRIER`, `__META_REVISION` and `__META_SETTING`. They may be dropped at any time; this loses only
        the times of barriers whose snapshots have expired. Returns the number of rows of each, by its name.
        """
        tables = self._read()
        opened = {table.name: self._opened(table.name) for table in tables}
        kept = {name: KeptBarriers(table) for name, table in opened.items()}
        first = next(iter(opened.values()), None)
        notes = None if first is None else notes_of(first._file_io, first._paths)
        revisions = [] if notes is None else notes.all()
        options = {name: table.schema.typed_options for name, table in opened.items()}
        system = SystemTables(tables, self._progress(tables), kept, revisions, options)
        return system.bring_up_to_date(self._warehouse)

    @retrying_reads
    def tables(self) -> list[TableProgress]:
        """Return the progress of each table under barriers; by layer, then by name."""
        return self._progress(self._read())

    def _progress(self, tables: Sequence[JobsOfTable]) -> list[TableProgress]:
        jobs, graph = _running(tables), _graph(tables)
        now_millis = self._clock.now_nanos() // 1_000_000
        views = {table.name: barrier_views(self._opened(table.name)) for table in tables}
        common = {}
        for component in graph.components():
            connected = [views[name] for name in component if name in views]
            common.update(dict.fromkeys(component, common_barrier(connected)))
        versions = self._versions(views)
        return progress_of(tables, jobs, graph.layers(), common, versions, now_millis)

    def _versions(self, tables: Iterable[str]) -> dict[str, int]:
        """Return the version of each table: 1, and one more with each revision."""
        versions = dict.fromkeys(tables, FIRST_VERSION)
        for name in list(versions)[:1]:
            table = self._warehouse.table(name)
            notes = notes_of(table._file_io, table._paths)
            for revised in notes.tables() if notes is not None else ():
                versions.update({one: versions[one] + 1 for one in revised if one in versions})
        return versions

    @retrying_reads
    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """Return the barriers of a table with their snapshots, ascending: those that it has completed, by the kept
        snapshots, and those that it waits for, with the missing writers. limit: the most complete ones, the newest.
        """
        most = None if limit is None else whole_number(limit, "limit", least=0)
        return table_barriers(self._opened(text(table, "table")), most)

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays:
        """Measure how long after a barrier each table was complete and its changes were available, and the share of
        each derived job. barrier: None for all that tables have completed, by the kept snapshots. limit: the most
        barriers, the newest. Raises NotFoundError for a barrier that no table has completed, or whose snapshots have
        expired.
        """
        only = None if barrier is None else whole_number(barrier, "barrier", least=1)
        most = None if limit is None else whole_number(limit, "limit", least=0)
        delays, newest = self._delays(only)
        if only is not None and not delays.tables:
            raise NotFoundError(
                f"delays of barrier {only}",
                found="no table that has completed it in a snapshot that is kept",
                expected=f"{newest or 'none'} or an earlier barrier",
                action="Choose another barrier, or wait for it.",
            )
        return delays if most is None else newest_delays(delays, most)

    @retrying_reads
    def _delays(self, only: int | None) -> tuple[Delays, int]:
        """Return the delays, and the newest barrier of any table, 0 without one. only: the barrier, None for all."""
        opened = dict(tables_under_barriers(self._warehouse))
        tables = self._jobs_of(opened.items())
        kept = {name: KeptBarriers(table, only) for name, table in opened.items()}
        completed = {each for one in kept.values() for each in one.frontiers()}
        barriers = completed if only is None else {only}
        times = {name: one.times(barriers) for name, one in kept.items()}
        delays = delays_of(times, _running(tables), _graph(tables).layers(), barriers)
        return delays, max((one.newest for one in kept.values()), default=0)

    @retrying_reads
    def common_barrier(self) -> int | None:
        """Return the newest barrier that is complete and exact in all tables under barriers; None without one."""
        opened = tables_under_barriers(self._warehouse)
        return common_barrier([barrier_views(table) for _, table in opened]) or None

    @retrying_reads
    def revisions(self) -> list[NotedRevision]:
        """Return all revisions, ascending by number; the last one may not have ended."""
        return noted_revisions(self._warehouse)

    @retrying_reads
    def keep(self) -> dict[str, int]:
        """Keep from expiry, in all tables that jobs connect, the newest barrier that they have in common and those of
        `widetable.barriers-kept` intervals before it. Spark jobs and services call it regularly; it is valid
        until the next call. Returns the first snapshot that is kept, by table.
        """
        opened = dict(tables_under_barriers(self._warehouse))
        return keep_common_barriers(opened, _graph(self._jobs_of(opened.items())).components())

    @retrying_reads
    def upstream(self, table: str) -> list[str]:
        """Return the tables from which it is made, directly or not, in the order in which they are made."""
        return self._graph_with(table).upstream(table)

    @retrying_reads
    def downstream(self, table: str) -> list[str]:
        """Return the tables that are made from it, directly or not, in the order in which they are made."""
        return self._graph_with(table).downstream(table)

    @retrying_reads
    def connected(self, tables: Sequence[str]) -> list[str]:
        """Return these tables, and then all that jobs connect with them, directly or not."""
        requested = names(tables, "tables")
        components = self._graph_with(*requested).components()
        near = (one for one in components if not set(requested).isdisjoint(one))
        return list(dict.fromkeys((*requested, *chain.from_iterable(near))))

    @retrying_reads
    def layers(self) -> list[list[str]]:
        """Return the tables under barriers: those that no job makes from others, then by layer those made from them."""
        return self._graph_with().layers()

    def _graph_with(self, *required: str) -> JobGraph:
        """Return the graph, or raise NotFoundError if a required table is not in it."""
        tables = self._read()
        for name in required:
            _check_exists(text(name, "table"), tables)
        return _graph(tables)

    def _read(self) -> list[JobsOfTable]:
        return self._jobs_of(tables_under_barriers(self._warehouse))

    def _jobs_of(self, opened: Iterable[tuple[str, OpenTable]]) -> list[JobsOfTable]:
        return [jobs_of(name, table, self._clock) for name, table in opened]

    def _claim(self, job: Job) -> None:
        """Register the job in all sinks, then check it against all jobs of the warehouse (`job_claim`)."""
        sinks = self._opened_sinks(job)
        schemas = {table: opened.schema for table, opened in sinks.items()}
        for sink in job.sinks:
            schemas[sink.table].chosen(sink.columns)

        def check() -> None:
            others = _live(self._read())
            check_flow(job, others)
            check_unrevised(job, next(iter(sinks.values())))
            for table, schema in schemas.items():
                check_columns(job, others, table, schema)

        claim(job, sinks, check, self._clock, ends_with_process=self._ends_with_process(job))

    def _check_flow(self, job: Job) -> None:
        check_flow(job, _live(self._read()))

    def _write(self, job: Job, table: OpenTable) -> None:
        lasts = self._ends_with_process(job)
        write_registration(table._file_io, table._paths, job, self._clock, ends_with_process=lasts)

    def _ends_with_process(self, job: Job) -> bool:
        """Whether this process runs the job: the process that plans a job need not run it."""
        return job.state == RUNNING and not self._for_others

    def _forget_elsewhere(self, job: Job) -> None:
        """Remove the job from tables that it no longer writes. A table that still waits for its writer gets the new
        registration, because the earlier sources and lead are obsolete.
        """
        for table in self._read():
            is_of_it = any(note.job.name == job.name for note in table.notes)
            if not is_of_it or table.name in job.tables:
                continue
            opened = self._opened(table.name)
            if job.name in table.state.members:
                self._write(job, opened)
            else:
                take_leave(job.name, opened, table)

    def _forget_progress(self, job: str, tables: Sequence[JobsOfTable]) -> None:
        """Delete the consumers of a derived job in its sources."""
        notes = (note.job for table in tables for note in table.notes if note.job.name == job)
        sources = {source for each in notes for source in each.sources}
        for table in tables:
            if table.name in sources:
                self._opened(table.name)._consumers.delete(job)

    def _opened_sinks(self, job: Job) -> dict[str, OpenTable]:
        return {table: self._opened(table) for table in job.tables}

    def _opened(self, name: str) -> OpenTable:
        table = self._warehouse.table(name)
        interval_of(table.schema, table.path)
        return table


def _live(tables: Sequence[JobsOfTable]) -> list[Job]:
    return merged((job for table in tables for job in table.live()), leads_of(tables))


def _declared(job: str, tables: Sequence[JobsOfTable]) -> Job:
    """Return the job as it was registered, even if that has expired; its sinks as declared, the lead first."""
    jobs = merged((note.job for table in tables for note in table.notes), leads_of(tables))
    name = text(job, "job")
    declared = next((one for one in jobs if one.name == name), None)
    if declared is None:
        raise _no_job(name, _live(tables))
    return declared


def _running(tables: Sequence[JobsOfTable]) -> list[Job]:
    return [job for job in _live(tables) if job.state == RUNNING]


def _graph(tables: Sequence[JobsOfTable]) -> JobGraph:
    return JobGraph(_running(tables), (table.name for table in tables))


def _check_exists(table: str, tables: Sequence[JobsOfTable]) -> None:
    existing = [each.name for each in tables]
    if table not in existing:
        raise NotFoundError(
            f"table {table!a}",
            found="no table under barriers",
            expected=f"one of {', '.join(existing) or 'none'}",
            action="Correct the name.",
        )


def _no_job(name: str, jobs: Sequence[Job]) -> NotFoundError:
    return NotFoundError(
        f"job {name!a}",
        found="no job that is registered, or for which a table waits",
        expected=f"one of {', '.join(job.name for job in jobs) or 'none'}",
        action="Correct the name, or register it.",
    )
