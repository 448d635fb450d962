"""Register a job in the tables that it writes: write the registration first, then check for conflicts.

If two conflicting jobs register at the same moment, at least one sees the other, and both may be refused; a refused job
leaves everything as it was. Raises ConflictError for columns and cycles that conflict with another live job
(`column_claims`, `job_graph`) and while a revision of its tables is not done, and what reading tables raises.

    p: writes a    q: writes a    p: checks, sees q     q: checks, sees p     both refused, both undone
    p: writes a    p: checks      q: writes a           q: checks, sees p     p is registered
    p: checks      p: writes a    q: checks             q: writes a           the other order: both would be registered

A job that is killed between writing and checking leaves a registration that expires. A revision
(`topology/revision.py`) uses the same order: it writes its note first, then reads the registrations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import (
    RENEWAL_MILLIS,
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
    """Write the registrations, and return one for each sink; nothing renews them yet. If the check raises, the previous
    registrations are restored.

    sinks: all of the job. check: raises for conflicts with other jobs; it is called after all registrations are
    written. ends_with_process: the registrations end with this process.
    """
    made = []
    with contextlib.ExitStack() as undo:
        for table in sinks.values():
            before = registration_of(table._file_io, table._paths, job.name, clock)
            written = write_registration(
                table._file_io, table._paths, job, clock, ends_with_process=ends_with_process
            )
            made.append(written)
            undo.callback(_restore, table, before, written)
        check()
        undo.pop_all()
    return made


def check_unrevised(job: Job, sink: OpenTable) -> None:
    """Raise ConflictError during a revision of the job's tables, because the job would mix rows from before and after
    it. Notes belong to the warehouse, so one sink suffices; a table outside of one has no revisions.
    """
    notes = notes_of(sink._file_io, sink._paths)
    note = None if notes is None else notes.unfinished()
    if note is not None and not note.tables.keys().isdisjoint((*job.sources, *job.tables)):
        raise unfinished(note)


@dataclass(eq=False)
class WriterClaim:
    """Registers a running writer of a table. Sources and other sinks that its job has declared stay, even if the job
    was dropped since; without any it is a root.

    It checks only this table: columns of other tables do not matter, and a writer without new sources closes no cycle.
    check_flow: checks for cycles if a dropped job returns with its sources.
    """

    table: OpenTable
    table_name: str
    check_flow: Callable[[Job], None] | None = None
    clock: Clock = field(default_factory=SystemClock)
    last: Job | None = None

    def register(self, name: str, columns: tuple[str, ...] | None, run: str) -> WriterRegistration:
        """Register a writer by its name, its columns (None: all) and its run. The registration is renewed while the
        caller keeps it. Raises ConflictError for a conflict with another job, and then changes nothing.
        """
        table, table_name, clock = self.table, self.table_name, self.clock
        earlier = registration_of(table._file_io, table._paths, name, clock)
        is_back = earlier is None and self.last is not None
        declared = (
            (self.last or Job(name, ROOT, RUNNING, (), (), run)) if earlier is None else earlier.job
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
        """Renew the registration of a run, for callers that cannot keep the result of `register`, because each commit
        may happen in another process. An expired registration is checked like a new one. If the run is not registered,
        or another run has the name, nothing happens here, and its commit is refused.
        """
        table, clock, now_millis = self.table, self.clock, self.clock.now_nanos() // 1_000_000
        current = registration_of(table._file_io, table._paths, name, clock)
        if current is None or current.job.run != run:
            return
        if current.lease_state is not LeaseState.ACTIVE:
            self.register(name, columns, run)
        elif now_millis + RUNNING_MILLIS - current.expires_millis >= RENEWAL_MILLIS:
            job = current.job
            write_registration(table._file_io, table._paths, job, clock, ends_with_process=True)


def _restore(table: OpenTable, before: RegisteredJob | None, written: WriterRegistration) -> None:
    if before is None:
        written.release()
    else:
        table._file_io.replace(before.path, before.data, durable=False)
