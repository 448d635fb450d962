"""Revision: derived tables go back to a barrier together, and jobs make them again from there (docs/decisions/0046).

    1  a note names the tables and the barrier
    2  each table goes back in one commit; jobs and writers that began before are refused there from then on
    3  the note becomes active: from this moment on readers see all tables gone back, before it none of them

A call that is killed in between has changed nothing that readers see. The same call again continues the revision, and
nobody can begin another one before. A revision takes a table, all tables that are made from it, and all others that the
affected jobs write, so that these continue at one barrier. The topology refuses jobs that begin meanwhile: each looks
for the note after it is registered, and the revision reads the registrations again after the note. Source: F33 and F34
of FLIP-276, rule R20 of docs/consistency.md. Raises InvalidError for a table that no job makes, and if rows from
outside would be lost, ConflictError while another revision has not ended, NotFoundError for a barrier that a table does
not have, or at which jobs could not continue, and what commits raise.

a is from outside; j1 makes b and c from a, j2 makes d from b, j3 makes e from a. A revision of b:

    b, and d, which is made from it; c, which j1 writes, too     tables b, c, d; jobs j1, j2
    a stays, and must have the changes after T for j1 to continue; e and j3 continue undisturbed

    killed after 1     nothing went back, readers see nothing; jobs of these tables cannot begin
    killed during 2    some tables went back: their newest rows show it, no barrier does
    killed after 2     the same call meets each table at the number, and makes the note active

A call that continues takes the targets from the note, not from the newest state; only a job that was
registered in between adds tables. The table that is made last goes back first, so that no table ever has rows
whose sources have lost theirs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from widetable.arguments import flag, text, whole_number
from widetable.commit.barriers.barrier_state import ROOT, check_barrier
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.writer_registration import DERIVED, Job
from widetable.commit.holds.read_lease import hold
from widetable.commit.notes.revision_notes import RevisionNote, RevisionNotes, notes_of, unfinished
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.operations.barriers.revision import (
    go_back,
    jobs_at,
    lost_commits,
    restorable_barrier,
)
from widetable.operations.handle.barrier_scan import (
    barrier_changes,
    barrier_views,
    first_kept_for,
    newest_revision,
)
from widetable.operations.handle.open_table import OpenTable
from widetable.topology.barrier_floor import keep_common_barriers
from widetable.topology.job_graph import JobGraph
from widetable.topology.topology import Topology
from widetable.topology.warehouse import Warehouse, tables_under_barriers


@dataclass(frozen=True)
class RevisedTable:
    """What a revision does to one table.

    Attributes
    ----------
    table : str
        `db.name` of the table.
    barrier : int or None
        The barrier up to which the table was complete, in epoch milliseconds. None: there was none.
    to : int or None
        The barrier that it goes back to. None: it loses all rows.
    commits, records : int
        How many commits and records of later barriers it loses, as far as they are kept.
    """

    __module__ = "widetable"

    table: str
    barrier: int | None
    to: int | None
    commits: int
    records: int


@dataclass(frozen=True)
class RevisionResult:
    """What `Catalog.revise` did, or would do in a dry run.

    Attributes
    ----------
    number : int or None
        The number of the revision. None: a dry run.
    table : str
        The table that was revised.
    to : int or None
        The barrier that it goes back to, in epoch milliseconds. None: the beginning.
    tables : tuple of RevisedTable
        All tables that go back, each after those that it is derived from.
    jobs : tuple of str
        The jobs that must start with a new checkpoint.
    """

    __module__ = "widetable"

    number: int | None
    table: str
    to: int | None
    tables: tuple[RevisedTable, ...]
    jobs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)


class _Scope(NamedTuple):
    """Names the tables of a revision, in the order in which they are made, and its jobs."""

    tables: Sequence[str]
    jobs: Sequence[Job]


def revise(
    warehouse: Warehouse, table: str, to: int | None, *, dry_run: bool = False
) -> RevisionResult:
    """Take a table and its dependents back to a barrier, as `Catalog.revise` describes."""
    name, is_dry = text(table, "table"), flag(dry_run, "dry_run")
    barrier = 0 if to is None else whole_number(to, "to", least=1)
    revised = warehouse.table(name)
    interval = interval_of(revised.schema, revised.path)
    if barrier:
        check_barrier(barrier, interval)
    opened = dict(tables_under_barriers(warehouse))
    newest = max(map(newest_revision, opened.values()), default=0)  # before the notes are read
    notes = notes_of(revised._file_io, revised._paths)
    assert notes is not None, "a catalog's table lies in its warehouse"
    last, noted = notes.last()
    if noted is not None and (noted.table, noted.barrier) != (name, barrier):
        raise unfinished(noted)
    scope = _scope(name, Topology(warehouse).jobs(), noted.tables if noted else ())
    revision = _Revision(notes, opened, barrier, last - 1 if noted else notes.active())
    if noted is None:
        _check_made(name, scope)
    targets = revision.targets(scope, noted)
    described = revision.described(targets)
    jobs = tuple(job.name for job in scope.jobs)
    if is_dry:
        return RevisionResult(None, name, to, described, jobs)
    note = noted or RevisionNote(max(last, newest) + 1, name, barrier, targets)
    with contextlib.ExitStack() as leases:
        revision.hold(note, scope, leases)
        if not notes.publish(note):
            raise ConflictError(
                f"revision {note.number}",
                found="another revision that was faster",
                expected="one revision at a time",
                action="Look at what it does (Topology.revisions), and try again.",
            )
        revision.carry_out(note, Topology(warehouse).jobs())
    return RevisionResult(note.number, name, to, described, jobs)


@dataclass(frozen=True)
class _Revision:
    """Carries out one revision. opened: the tables under barriers. barrier: 0 for the beginning. before: the revision
    that is active until then.
    """

    notes: RevisionNotes
    opened: Mapping[str, OpenTable]
    barrier: int
    before: int

    # All reads of tables here are in the revision `before`, even if some tables have gone back already. So each step
    # gives the same result whenever it is made.
    def targets(self, scope: _Scope, noted: RevisionNote | None) -> dict[str, int]:
        """Return the target barrier of each table, 0 if it had no rows then; noted targets stay."""
        noted_targets = noted.tables if noted else {}
        targets = {}
        for name in scope.tables:
            if name in noted_targets or name not in self.opened:
                targets[name] = noted_targets.get(name, 0) if name in self.opened else 0
                continue
            try:
                targets[name] = restorable_barrier(self.opened[name], self.barrier, self.before)
            except NotFoundError as error:
                raise self._unreachable(error) from error
        if noted is None:
            self._check_sources(scope, targets)
        return targets

    def described(self, targets: Mapping[str, int]) -> tuple[RevisedTable, ...]:
        """Describe each table before the revision, and what it loses."""
        described = []
        for name, barrier in targets.items():
            if name in self.opened:
                table = self.opened[name]
                frontier = barrier_views(table, self.before).newest().frontier
                lost = lost_commits(table, barrier, self.before)
                described.append(RevisedTable(name, frontier or None, barrier or None, *lost))
        return tuple(described)

    def hold(self, note: RevisionNote, scope: _Scope, leases: contextlib.ExitStack) -> None:
        """Take leases on the files to restore, and on those with which jobs begin then, until the revision ends."""
        for name, barrier in note.tables.items():
            table = self.opened.get(name)
            if table is not None and barrier and newest_revision(table) < note.number:
                views = barrier_views(table, self.before)
                changes = barrier_changes(table, self.before)
                first_id = first_kept_for(changes, views, barrier)
                lease = hold(table._file_io, table._paths, first_id)
                leases.callback(lease.release)
        for _, table, first_id in self._restarts(note.tables, scope, self.before):
            lease = hold(table._file_io, table._paths, first_id)
            leases.callback(lease.release)

    def carry_out(self, note: RevisionNote, jobs: Sequence[Job]) -> None:
        """Carry out a noted revision. The table that is made last goes back first. jobs: the current ones.

        Consumers and the common floor are written before the revision is active, because from that moment on jobs begin
        at the barrier, and expiry follows them.
        """
        scope = _scope(note.table, jobs, note.tables)
        targets = self.targets(scope, note)
        for name, barrier in reversed(targets.items()):
            if name in self.opened:
                go_back(self.opened[name], note.number, barrier, self.before)
        for job, table, first_id in self._restarts(targets, scope, note.number):
            if table._consumers.next_snapshot(job) is not None:
                table._consumers.record(job, first_id)
        components = JobGraph(jobs, self.opened).components()
        keep_common_barriers(self.opened, components, note.number)
        self.notes.activate(note.number, targets)

    def _restarts(
        self, targets: Mapping[str, int], scope: _Scope, revision: int
    ) -> Iterable[tuple[str, OpenTable, int]]:
        """Yield (job, source, first snapshot needed) of jobs that continue at the barrier, for sources at it."""
        for job in self._continuing(scope, targets):
            for source in job.sources:
                table = self.opened.get(source)
                if table is not None and (source not in targets or revision > self.before):
                    changes = barrier_changes(table, revision)
                    yield job.name, table, changes.first_needed(self.barrier)

    def _continuing(self, scope: _Scope, targets: Mapping[str, int]) -> Iterable[Job]:
        """Yield the jobs that had reached the barrier, which continue there."""
        for job in scope.jobs:
            barrier, lead = targets.get(job.tables[0]), self.opened.get(job.tables[0])
            if barrier and lead and job.name in jobs_at(lead, barrier, self.before):
                yield job

    def _check_sources(self, scope: _Scope, targets: Mapping[str, int]) -> None:
        """Raise NotFoundError if jobs could not continue at the barrier."""
        for job in self._continuing(scope, targets):
            for source in job.sources:
                if source not in targets and source in self.opened:
                    try:
                        barrier_changes(self.opened[source], self.before).check_start(self.barrier)
                    except NotFoundError as error:
                        raise self._unreachable(error) from error

    def _unreachable(self, error: NotFoundError) -> NotFoundError:
        return NotFoundError(
            error.subject,
            found=error.found,
            expected=error.expected,
            action=f"Choose a barrier that all tables have, other than {self.barrier}, or to=None for the beginning.",
            code=error.code,
        )


def _scope(table: str, jobs: Sequence[Job], noted: Iterable[str]) -> _Scope:
    """Return what goes back with a table: all tables that are made from those that go back, and all others that these
    jobs write. noted: tables of a note, which go back whatever the current jobs are.
    """
    tables, before = {table, *noted}, 0
    while len(tables) != before:
        before = len(tables)
        for job in jobs:
            if not tables.isdisjoint((*job.tables, *job.sources)):
                tables.update(job.tables)
    layers = JobGraph(jobs, tables).layers()
    ordered = [name for layer in layers for name in layer if name in tables]
    return _Scope(ordered, [job for job in jobs if not tables.isdisjoint(job.tables)])


def _check_made(table: str, scope: _Scope) -> None:
    roots = [job for job in scope.jobs if job.kind == ROOT]
    if not any(job.kind == DERIVED and table in job.tables for job in scope.jobs):
        writers = ", ".join(job.name for job in roots if table in job.tables)
        raise InvalidError(
            table,
            found=f"a table that no job makes from others; it is written by {writers or 'nobody'}",
            expected="a table that a job makes from others, and can make again",
            action="Revise the tables that are made from it; rows from outside must be corrected by their writers.",
        )
    if roots:
        raise InvalidError(
            f"revision of {table}",
            found=f"{roots[0].name}, whose rows from outside in {roots[0].tables[0]} would be lost",
            expected="tables that jobs make from others only",
            action="Let it leave, if its rows after the barrier may be lost; it can write them again when it returns.",
        )
