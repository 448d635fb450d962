"""The jobs of tables: those whose registration is in force, and those for whose writer a table still waits.

A job whose process has ended without leaving still reserves its columns and blocks its table, because it may return. If
a table waits for a writer without a registration, this is a job of unknown columns, unless it is a widener, which the
options of its table declare, whether it runs or not. Raises what reading snapshots raises.

    registration       table waits for it   the job is
    in force           yes, or no           live; alive
    over, or void      yes                  live, with its columns: it was killed, and may return
    over, or void      no                   not a job; the next drop deletes the file
    none               yes                  live, of unknown columns, which conflict with none

*Live* jobs reserve their columns and form the graph; *alive* ones renew their registration. A job with two
tables has a file in each, which are equal except while it is being registered;
`merged` combines them into one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.commit.barriers.writer_registration import (
    DERIVED,
    RUNNING,
    Job,
    JobSink,
    RegisteredJob,
    registrations,
    silent_jobs,
)
from widetable.commit.notes.clock import Clock
from widetable.commit.notes.lease import holder
from widetable.commit.notes.lease_term import LeaseState
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.derived_options import WIDENER_RUN, WidenOption, widen_options


@dataclass(frozen=True)
class JobsOfTable:
    """Holds the jobs of one table.

    state: of its barriers. notes: registrations, in force or not. wideners: those that its options declare.
    is_maintained: whether somebody has the maintainers' lease, and so runs the wideners.
    """

    name: str
    state: BarrierState
    notes: tuple[RegisteredJob, ...]
    wideners: tuple[Job, ...] = ()
    is_maintained: bool = False

    def live(self) -> list[Job]:
        """Return the live jobs, each only with its sink in this table."""
        noted = {job.name for job in (*(note.job for note in self.notes), *self.wideners)}
        registered = [
            replace(self._here(note.job), silent_millis=note.silent_millis)
            for note in self.notes
            if note.lease_state is LeaseState.ACTIVE or note.job.name in self.state.members
        ]
        unregistered = [
            Job(name, member.kind, RUNNING, (), (JobSink(self.name, ()),), member.run)
            for name, member in sorted(self.state.members.items())
            if name not in noted
        ]
        return [*registered, *self.wideners, *unregistered]

    def alive(self) -> set[str]:
        """Return the jobs whose registration is in force, because their process renews it, and wideners that run."""
        wideners = {job.name for job in self.wideners if self.is_maintained}
        return wideners | {n.job.name for n in self.notes if n.lease_state is LeaseState.ACTIVE}

    def silent(self) -> dict[str, int]:
        """Return the jobs whose registration is not in force, and for how long they have been silent, milliseconds."""
        return silent_jobs(self.notes)

    def _here(self, job: Job) -> Job:
        sinks = tuple(sink for sink in job.sinks if sink.table == self.name)
        return replace(job, sinks=sinks or (JobSink(self.name, ()),))


def jobs_of(name: str, table: OpenTable, clock: Clock) -> JobsOfTable:
    """Read the jobs of a table under barriers."""
    # Registrations are read first, because a job that ends leaves the table before it deletes its registration.
    notes = tuple(registrations(table._file_io, table._paths, clock))
    state, options = barrier_views(table).newest(), widen_options(table.schema.options)
    wideners = tuple(_widener(name, option) for option in options)
    is_maintained = bool(wideners) and holder(table._file_io, table._paths, clock) is not None
    return JobsOfTable(name, state, notes, wideners, is_maintained)


def _widener(fact: str, option: WidenOption) -> Job:
    sink = JobSink(fact, (*option.columns, option.sequence))
    return Job(option.writer_of(fact), DERIVED, RUNNING, (option.table,), (sink,), WIDENER_RUN)


def merged(jobs: Iterable[Job], leads: Mapping[str, str] | None = None) -> list[Job]:
    """Return one job for each name, sorted by name, with all its sources and sinks. leads: the first sink of each job.

        pending, s.x -> s.a(v)      and      running, s.a -> s.b, lead s.b
        running, sources s.x, s.a, sinks s.b, s.a(v), the run of the first

    Sinks other than the lead are in the order of their names. Derived and running take precedence over root and
    pending.
    """
    by_name: dict[str, Job] = {}
    for job in jobs:
        other = by_name.get(job.name)
        by_name[job.name] = job if other is None else _joined(other, job)
    return [_lead_first(by_name[name], leads or {}) for name in sorted(by_name)]


def leads_of(tables: Iterable[JobsOfTable]) -> dict[str, str]:
    """Return the first sink of each job, by its registration."""
    return {
        note.job.name: note.job.sinks[0].table
        for table in tables
        for note in table.notes
        if note.job.sinks
    }


def _joined(one: Job, other: Job) -> Job:
    both = one
    for sink in other.sinks:
        both = both.with_sink(sink)
    return replace(
        both,
        kind=DERIVED if DERIVED in (one.kind, other.kind) else one.kind,
        state=RUNNING if RUNNING in (one.state, other.state) else one.state,
        silent_millis=_shorter(one.silent_millis, other.silent_millis),
        sources=tuple(dict.fromkeys((*one.sources, *other.sources))),
    )


def _shorter(one: int | None, other: int | None) -> int | None:
    """Return the shorter silence; a job that is alive in one of its tables is not silent (None)."""
    return None if one is None or other is None else min(one, other)


def _lead_first(job: Job, leads: Mapping[str, str]) -> Job:
    lead = leads.get(job.name)
    return replace(job, sinks=tuple(sorted(job.sinks, key=lambda s: (s.table != lead, s.table))))
