"""The topology: jobs and the tables under barriers that they read and write, as one graph (0043).

    catalog.topology().register("amounts", sources=["shop.shopping"], sinks={"shop.amounts": None})
    catalog.topology().running("amounts")

It holds nothing: every call looks at the registrations (`writer_registration`) and snapshots of the tables, so nothing
has to run besides, and nothing can be behind. A job that is planned has its place, so others are refused what is in its
way; it is part of the graph when it runs. Raises ConflictError for a job that another one is in the way of,
InvalidError for tables that are under no barriers, NotFoundError for names that are nobody's, and what reading tables
raises.

    register     planned: has its columns, for ten minutes; no part of the graph
    running      part of the graph; `renew` once a minute, or it is not alive, but still live while a table waits for it
    drop         live no more

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
from widetable.topology.polling import looked_again
from widetable.topology.registered_jobs import JobsOfTable, jobs_of, leads_of, merged
from widetable.topology.system_tables import SystemTables
from widetable.topology.table_barriers import TableBarrier, table_barriers
from widetable.topology.table_progress import (
    FIRST_VERSION,
    TableProgress,
    progress_of,
)
from widetable.topology.warehouse import Warehouse, tables_under_barriers

# What a session's barrier is complete in.
TABLES: Final = "tables"
TOPOLOGY: Final = "topology"
SCOPES: Final = (TABLES, TOPOLOGY)


class Topology:
    """Made by `Catalog.topology`. It has no state: threads may share it, and it sees what others
    change.
    """

    __module__ = "widetable"

    def __init__(
        self, warehouse: Warehouse, clock: Clock | None = None, *, for_others: bool = False
    ) -> None:
        """for_others: the jobs run in other processes than this one, whose end says nothing of theirs."""
        self._warehouse = warehouse
        self._clock: Final = clock or SystemClock()
        self._for_others = for_others

    def __repr__(self) -> str:
        return f"Topology({self._warehouse!r})"

    def register(
        self, job: str, *, sources: Sequence[str] = (), sinks: Mapping[str, Sequence[str] | None]
    ) -> Job:
        """Say what a job will read and write, when it is planned. It has its place for ten minutes; `running` says that
        it runs. sources: tables, none for a job whose sources are outside. sinks: table to the columns that it writes
        besides the key, None for all; the first is the lead. What the job said before is replaced.
        """
        name = job_name(job, "job")
        if name.startswith(WIDENER_OF):
            raise refused(job, "job", f"a name that does not begin with {WIDENER_OF}, as wideners'")
        given = {
            table: None if columns is None else names(columns, "sinks")
            for table, columns in mapping(sinks, "sinks").items()
        }
        if not given:
            raise refused(sinks, "sinks", "a table, at least")
        read = names(sources, "sources")
        if read:
            check_consumer(name)
        new = Job(
            name,
            DERIVED if read else ROOT,
            PENDING,
            read,
            tuple(JobSink(table, columns) for table, columns in given.items()),
            str(uuid.uuid4()),
        )
        check_alike(name, {table: self._opened(table) for table in (*read, *given)})
        self._claim(new)
        self._forget_elsewhere(new)
        return new

    def running(self, job: str) -> Job:
        """Say that a registered job runs. Its process calls `renew` at least once a minute from now on; once it ends
        without `drop`, its columns are free as soon as no table waits for its writer.
        """
        known = _known(job, self._read())
        started = replace(known, state=RUNNING, run=str(uuid.uuid4()))
        self._claim(started)
        return started

    def renew(self, job: str) -> Job:
        """Say that it goes on; its sources go on to keep what it has not read. One that ran out is looked at as a new
        one is.
        """
        tables = self._read()  # one look: what is known is in the notes
        known = _known(job, tables)
        notes = [note for table in tables for note in table.notes if note.job.name == job]
        if all(note.lease_state is LeaseState.ACTIVE for note in notes):
            for table in self._opened_sinks(known).values():
                self._write(known, table)
        else:
            self._claim(known)
        for source in known.sources:
            with contextlib.suppress(NotFoundError):  # its query is told that it was dropped
                renew_consumer(self._opened(source), known.name)
        return known

    def drop(self, job: str, *, force: bool = False, dry_run: bool = False) -> list[str]:
        """Say that a job has ended for good: no table waits for it any more, and its columns are free. What its tables
        show stays. Registrations that ran out, of jobs that no table waits for, go with it.

        A job that goes on in another process than this one, which renews its registration, is not dropped:
        ConflictError, unless with force; it is back with its next commit. A root of several tables must have come
        equally far in each, or the last barriers of some lack rows that only it can write: the same.

        Returns the tables that it leaves; dry_run: it does not, yet.
        """
        name, force, dry_run = text(job, "job"), flag(force, "force"), flag(dry_run, "dry_run")
        found = self._read()
        tables = [
            table
            for table in found
            if name in table.state.members
            or any(job.name == name for job in (*(n.job for n in table.notes), *table.wideners))
        ]
        if not tables:
            raise _no_job(name, _live(found))
        if not force:
            check_ended(name, tables)
            check_agreed(name, tables)
        if not dry_run:
            for table, one in (*((table, name) for table in tables), *forgotten(found)):
                take_leave(one, self._opened(table.name), table)
            self._forget_progress(name, found)
            self.keep()
        return [table.name for table in tables]

    def leave(self, table: str, writer: str, *, force: bool = False, dry_run: bool = False) -> None:
        """Say that a writer of one table will not come back: the table goes on without it and shows its rows. Its other
        tables wait for it as before. What `drop` refuses without force is refused here; dry_run: nothing is done yet.
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

    @looked_again
    def jobs(self) -> list[Job]:
        """All that are planned, that run, or that a table waits for; by name."""
        return _live(self._read())

    @looked_again
    def rebuild(self) -> dict[str, int]:
        """Bring the tables in the database `__meta` up to date, made where they are not there: those of FLIP-276,
        `__META_ETL_SOURCE`, `__META_ETL_SINK` and `__META_TABLE_VERSION`, with `__META_JOB`, `__META_BARRIER`,
        `__META_JOB_BARRIER`, `__META_REVISION` and `__META_SETTING`. They may be dropped at any time; what goes then
        are the times of barriers whose snapshots have expired. Returns the number of rows of each, by its name.
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

    @looked_again
    def tables(self) -> list[TableProgress]:
        """How far each table under barriers is; by layer, then by name."""
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
        """1, and one more with each revision."""
        found = dict.fromkeys(tables, FIRST_VERSION)
        for name in list(found)[:1]:
            table = self._warehouse.table(name)
            notes = notes_of(table._file_io, table._paths)
            for revised in notes.tables() if notes is not None else ():
                found.update({one: found[one] + 1 for one in revised if one in found})
        return found

    @looked_again
    def barriers(self, table: str, limit: int | None = None) -> list[TableBarrier]:
        """Which snapshots the barriers of a table are, ascending: those that it came to, by the snapshots that are
        kept, and those that it waits for, with who is missing. limit: so many of the complete ones, the newest.
        """
        most = None if limit is None else whole_number(limit, "limit", least=0)
        return table_barriers(self._opened(text(table, "table")), most)

    def delays(self, barrier: int | None = None, limit: int | None = None) -> Delays:
        """How long after a barrier each table was complete and its changes were out, and what each derived job took of
        that. barrier: None for all that tables were complete up to, by the snapshots that are kept. limit: so many
        barriers, the newest. Raises NotFoundError for a barrier that no table has come to, or whose snapshots have
        expired.
        """
        asked = None if barrier is None else whole_number(barrier, "barrier", least=1)
        most = None if limit is None else whole_number(limit, "limit", least=0)
        found, newest = self._delays(asked)
        if asked is not None and not found.tables:
            raise NotFoundError(
                f"delays of barrier {asked}",
                found="no table that has come to it by a snapshot that is kept",
                expected=f"{newest or 'none'} or an earlier one",
                action="Choose another one, or wait for it.",
            )
        return found if most is None else newest_delays(found, most)

    @looked_again
    def _delays(self, asked: int | None) -> tuple[Delays, int]:
        """And the newest barrier of any table, 0 without one."""
        opened = dict(tables_under_barriers(self._warehouse))
        tables = self._jobs_of(opened.items())
        kept = {name: KeptBarriers(table, asked) for name, table in opened.items()}
        came = {each for one in kept.values() for each in one.frontiers()}
        barriers = came if asked is None else {asked}
        times = {name: one.times(barriers) for name, one in kept.items()}
        found = delays_of(times, _running(tables), _graph(tables).layers(), barriers)
        return found, max((one.newest for one in kept.values()), default=0)

    @looked_again
    def common_barrier(self) -> int | None:
        """The newest one that is complete and exact in all tables under barriers; None where there is none."""
        opened = tables_under_barriers(self._warehouse)
        return common_barrier([barrier_views(table) for _, table in opened]) or None

    @looked_again
    def revisions(self) -> list[NotedRevision]:
        """Which there were, ascending by number; the last one may not have ended."""
        return noted_revisions(self._warehouse)

    @looked_again
    def keep(self) -> dict[str, int]:
        """Let expiry leave, in all tables that jobs connect, the newest barrier that they have in common and those of
        `widetable.barriers-kept` intervals before it. Jobs of Spark and services call it again and again; it holds
        until it is called again. Returns the first snapshot that is kept, by table.
        """
        opened = dict(tables_under_barriers(self._warehouse))
        return keep_common_barriers(opened, _graph(self._jobs_of(opened.items())).components())

    @looked_again
    def upstream(self, table: str) -> list[str]:
        """The tables that it is made of, directly or not, those that are made first in front."""
        return self._graph_with(table).upstream(table)

    @looked_again
    def downstream(self, table: str) -> list[str]:
        """The tables that are made of it, directly or not, those that are made first in front."""
        return self._graph_with(table).downstream(table)

    @looked_again
    def connected(self, tables: Sequence[str]) -> list[str]:
        """These, and then all that jobs connect with them, however far."""
        given = names(tables, "tables")
        components = self._graph_with(*given).components()
        near = (one for one in components if not set(given).isdisjoint(one))
        return list(dict.fromkeys((*given, *chain.from_iterable(near))))

    @looked_again
    def layers(self) -> list[list[str]]:
        """The tables under barriers: those that no job makes of others, then layer by layer what is made of them."""
        return self._graph_with().layers()

    def _graph_with(self, *given: str) -> JobGraph:
        """given: tables that must be in it."""
        tables = self._read()
        for name in given:
            _check_there(text(name, "table"), tables)
        return _graph(tables)

    def _read(self) -> list[JobsOfTable]:
        return self._jobs_of(tables_under_barriers(self._warehouse))

    def _jobs_of(self, opened: Iterable[tuple[str, OpenTable]]) -> list[JobsOfTable]:
        return [jobs_of(name, table, self._clock) for name, table in opened]

    def _claim(self, job: Job) -> None:
        """Say so in all sinks, then look at all jobs of the warehouse (`job_claim`)."""
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
        """Whoever plans a job need not be who runs it."""
        return job.state == RUNNING and not self._for_others

    def _forget_elsewhere(self, job: Job) -> None:
        """Where it wrote before and will not any more. A table that still waits for its writer is told what it does
        now: sources and lead of before count no more.
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
        """What a derived job had read: nobody goes on there."""
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


def _known(job: str, tables: Sequence[JobsOfTable]) -> Job:
    """As it was registered, in force or not; its sinks as it gave them, the lead first."""
    declared = merged((note.job for table in tables for note in table.notes), leads_of(tables))
    name = text(job, "job")
    found = next((one for one in declared if one.name == name), None)
    if found is None:
        raise _no_job(name, _live(tables))
    return found


def _running(tables: Sequence[JobsOfTable]) -> list[Job]:
    return [job for job in _live(tables) if job.state == RUNNING]


def _graph(tables: Sequence[JobsOfTable]) -> JobGraph:
    return JobGraph(_running(tables), (table.name for table in tables))


def _check_there(table: str, tables: Sequence[JobsOfTable]) -> None:
    there = [each.name for each in tables]
    if table not in there:
        raise NotFoundError(
            f"table {table!a}",
            found="no table under barriers",
            expected=f"one of {', '.join(there) or 'none'}",
            action="Correct the name.",
        )


def _no_job(name: str, jobs: Sequence[Job]) -> NotFoundError:
    return NotFoundError(
        f"job {name!a}",
        found="no job that is registered, or that a table waits for",
        expected=f"one of {', '.join(job.name for job in jobs) or 'none'}",
        action="Correct the name, or register it.",
    )
