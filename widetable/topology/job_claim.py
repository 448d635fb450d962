"""Registers a job in the tables that it writes into: says so first, then looks whether another one is in the way.

Of two that are in each other's way at the same moment one sees the other at least, and both may be refused; who is
refused leaves everything as it was. Raises ConflictError for columns and cycles that another live job is in the way of
(`column_claims`, `job_graph`) and while a revision of its tables is not done, and what reading tables raises.

    p: says a      q: says a      p: looks, sees q      q: looks, sees p      both refused, both put back
    p: says a      p: looks       q: says a             q: looks, sees p      p is in
    p: looks       p: says a      q: looks              q: says a             the other order: both would be in

Who dies behind its word and before its look leaves a registration that runs out. The same order
stands against a revision (`topology/revision.py`): it notes first, then looks at registrations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import (
    RUNNING,
    RUNNING_MILLIS,
    Job,
    JobSink,
    RegisteredJob,
    WriterRegistration,
    registration_of,
    write_registration,
)
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.lease_renewal import LEASE_RENEWAL
from widetable.commit.notes.lease_term import LeaseState
from widetable.commit.notes.revision_notes import notes_of, unfinished
from widetable.operations.handle.open_table import OpenTable
from widetable.topology.column_claims import check_columns
from widetable.topology.registered_jobs import jobs_of


def claim(
    job: Job,
    sinks: Mapping[str, OpenTable],
    check: Callable[[], None],
    clock: Clock,
    *,
    ends_with_process: bool,
) -> list[WriterRegistration]:
    """Write the registrations; what was there before is there again when the check raises. sinks: all of the job.

    check: looks at the other jobs and raises; it is called once all are written.
    ends_with_process: they hold no longer than this process lives. One returned for each sink,
    which is renewed by nobody yet.
    """
    made = []
    with contextlib.ExitStack() as undo:
        for table in sinks.values():
            before = registration_of(table._file_io, table._paths, job.name, clock)
            written = write_registration(
                table._file_io, table._paths, job, clock, ends_with_process=ends_with_process
            )
            made.append(written)
            undo.callback(_put_back, table, before, written)
        check()
        undo.pop_all()
    return made


def check_unrevised(job: Job, sink: OpenTable) -> None:
    """What it reads and writes would be of before a revision and of behind it. Notes are those
    of the warehouse, so one sink says all; a table that lies in none has no revisions.
    """
    notes = notes_of(sink._file_io, sink._paths)
    note = None if notes is None else notes.unfinished()
    if note is not None and not note.tables.keys().isdisjoint((*job.sources, *job.tables)):
        raise unfinished(note)


@dataclass(eq=False)
class WriterClaim:
    """The registration of a running writer of a table, which is renewed for as long as somebody has it. What its job
    has said of sources and other sinks stays, also where it was dropped since; without any it is a root.

    Only this table is looked at: columns of others do not matter, and who adds no source closes no cycle; who has some
    again may: check_flow.
    """

    table: OpenTable
    table_name: str
    check_flow: Callable[[Job], None] | None = None
    clock: Clock = field(default_factory=SystemClock)
    last: Job | None = None

    def register(self, name: str, columns: tuple[str, ...] | None, run: str) -> WriterRegistration:
        """Of a writer's name, the columns that it writes, None for all, and its run. Renewed for
        as long as the caller has what is returned. Raises ConflictError, and leaves what was
        there, where another job is in the way.
        """
        table, table_name, clock = self.table, self.table_name, self.clock
        known = registration_of(table._file_io, table._paths, name, clock)
        is_back = known is None and self.last is not None
        declared = (
            (self.last or Job(name, ROOT, RUNNING, (), (), run)) if known is None else known.job
        )
        job = replace(declared, state=RUNNING, run=run).with_sink(JobSink(table_name, columns))
        schema = table.schema

        def check() -> None:
            check_unrevised(job, table)
            if is_back and job.sources and self.check_flow is not None:
                self.check_flow(job)
            check_columns(job, jobs_of(table_name, table, clock).live(), table_name, schema)

        (registration,) = claim(job, {table_name: table}, check, clock, ends_with_process=True)
        LEASE_RENEWAL.start(registration)
        self.last = job
        return registration

    def renew(self, name: str, columns: tuple[str, ...] | None, run: str) -> None:
        """Say that a run goes on, for who cannot have what `register` returned, as each of its commits may be made in
        another process. One that ran out is looked at as a new one is. Nothing is done for one that is not registered,
        or is another run's by now: its commit finds that out.
        """
        table, clock = self.table, self.clock
        known = registration_of(table._file_io, table._paths, name, clock)
        if known is None or known.job.run != run:
            return
        if known.lease_state is not LeaseState.ACTIVE:
            self.register(name, columns, run)
        elif known.expires_millis - clock.now_nanos() // 1_000_000 < RUNNING_MILLIS // 2:
            job = known.job
            write_registration(table._file_io, table._paths, job, clock, ends_with_process=True)


def _put_back(table: OpenTable, before: RegisteredJob | None, written: WriterRegistration) -> None:
    if before is None:
        written.release()
    else:
        table._file_io.replace(before.path, before.data, durable=False)
