"""Revision: tables that jobs make go back to a barrier together, to be made again from there (docs/decisions/0046).

    1  a note says which tables, and to which barrier
    2  each table goes back in one commit; who began before is refused there from then on
    3  the note is active: from this moment on readers see the tables gone back, before it none of them

Who dies in between has changed nothing that readers see; whoever asks for the same again goes on with it, and nobody
begins another one before. It takes a table, all that is made of it, and all else that the jobs concerned write: they go
on at one barrier. Jobs that begin meanwhile are refused by the topology: each looks for the note once it is registered,
and what is registered is looked for once more behind the note. Source: F33 and F34 of FLIP-276, rule R20 of
docs/consistency.md. Raises InvalidError for a table that no job makes and where rows from outside would be lost,
ConflictError while another revision has not ended, NotFoundError for a barrier that a table does not have, and where
jobs could not go on at it, and what commits raise.

a is from outside; j1 makes b and c of a, j2 makes d of b, j3 makes e of a. Revised is b:

    b, and d, which is made of it; c, which j1 writes, too       tables b, c, d; jobs j1, j2
    a stays, and must have the changes after T for j1 to go on; e and j3 go on undisturbed

    killed behind 1    nothing went back, readers see nothing; jobs of these tables cannot begin
    killed within 2    some tables went back: their newest rows show it, no barrier does
    killed behind 2    the same call finds each table at the number, and makes it active

Whoever goes on takes targets from the note, not from what is newest by then; only a job that was
registered in between adds tables. What is made last goes back first: at no moment has a table rows
of what its sources have lost.
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
from widetable.operations.barriers.revision import barrier_to_go_to, came_to, go_back, lost_commits
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
    """barrier: up to which it was complete, None for none. to: which it goes back to, None where it is cleared.
    commits, records: of later barriers, which go; as far as they are kept.
    """

    __module__ = "widetable"

    table: str
    barrier: int | None
    to: int | None
    commits: int
    records: int


@dataclass(frozen=True)
class RevisionResult:
    """number: of the revision; None for a dry run. tables: those that are made first in front. jobs: which start with a
    new checkpoint. to: None for from the beginning.
    """

    __module__ = "widetable"

    number: int | None
    table: str
    to: int | None
    tables: tuple[RevisedTable, ...]
    jobs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        return asdict(self)


class _Scope(NamedTuple):
    """tables: those that are made first in front."""

    tables: Sequence[str]
    jobs: Sequence[Job]


def revise(
    warehouse: Warehouse, table: str, to: int | None, *, dry_run: bool = False
) -> RevisionResult:
    """`Catalog.revise`."""
    name, is_dry = text(table, "table"), flag(dry_run, "dry_run")
    barrier = 0 if to is None else whole_number(to, "to", least=1)
    asked = warehouse.table(name)
    interval = interval_of(asked.schema, asked.path)
    if barrier:
        check_barrier(barrier, interval)
    opened = dict(tables_under_barriers(warehouse))
    newest = max(map(newest_revision, opened.values()), default=0)  # before the notes are read
    notes = notes_of(asked._file_io, asked._paths)
    assert notes is not None, "a catalog's table lies in its warehouse"
    last, noted = notes.last()
    if noted is not None and (noted.table, noted.barrier) != (name, barrier):
        raise unfinished(noted)
    scope = _scope(name, Topology(warehouse).jobs(), noted.tables if noted else ())
    way = _Undoing(notes, opened, barrier, last - 1 if noted else notes.active())
    if noted is None:
        _check_made(name, scope)
    targets = way.targets(scope, noted)
    found = way.described(targets)
    jobs = tuple(job.name for job in scope.jobs)
    if is_dry:
        return RevisionResult(None, name, to, found, jobs)
    note = noted or RevisionNote(max(last, newest) + 1, name, barrier, targets)
    with contextlib.ExitStack() as leases:
        way.hold(note, scope, leases)
        if not notes.publish(note):
            raise ConflictError(
                f"revision {note.number}",
                found="another one that was first",
                expected="one after the other",
                action="Look what it does, and try again.",
            )
        way.go(note, Topology(warehouse).jobs())
    return RevisionResult(note.number, name, to, found, jobs)


@dataclass(frozen=True)
class _Undoing:
    """opened: the tables under barriers. barrier: 0 for from the beginning. before: the revision that counts as yet."""

    notes: RevisionNotes
    opened: Mapping[str, OpenTable]
    barrier: int
    before: int

    # What is known here of the tables is of the revision before (`before`), also while some have
    # gone back already: so each step gives the same whenever it is made.
    def targets(self, scope: _Scope, noted: RevisionNote | None) -> dict[str, int]:
        """Table to the barrier that it goes back to, 0 where it had nothing then; what is noted stays."""
        known = noted.tables if noted else {}
        found = {}
        for name in scope.tables:
            if name in known or name not in self.opened:
                found[name] = known.get(name, 0) if name in self.opened else 0
                continue
            try:
                found[name] = barrier_to_go_to(self.opened[name], self.barrier, self.before)
            except NotFoundError as error:
                raise self._not_there(error) from error
        if noted is None:
            self._check_sources(scope, found)
        return found

    def described(self, targets: Mapping[str, int]) -> tuple[RevisedTable, ...]:
        """What each table was, and what it loses."""
        found = []
        for name, barrier in targets.items():
            if name in self.opened:
                table = self.opened[name]
                frontier = barrier_views(table, self.before).newest().frontier
                lost = lost_commits(table, barrier, self.before)
                found.append(RevisedTable(name, frontier or None, barrier or None, *lost))
        return tuple(found)

    def hold(self, note: RevisionNote, scope: _Scope, leases: contextlib.ExitStack) -> None:
        """What comes back, and what jobs begin with then, stays until it has ended."""
        for name, barrier in note.tables.items():
            table = self.opened.get(name)
            if table is not None and barrier and newest_revision(table) < note.number:
                views = barrier_views(table, self.before)
                changes = barrier_changes(table, self.before)
                first_id = first_kept_for(changes, views, barrier)
                lease = hold(table._file_io, table._paths, first_id)
                leases.callback(lease.release)
        for _, table, first_id in self._begins(note.tables, scope, self.before):
            lease = hold(table._file_io, table._paths, first_id)
            leases.callback(lease.release)

    def go(self, note: RevisionNote, jobs: Sequence[Job]) -> None:
        """From the note to its end. What is made last goes back first. jobs: by now.

        Consumers and the common floor come before the revision is active: from that moment on
        jobs begin at the barrier, and expiry goes by what these say.
        """
        scope = _scope(note.table, jobs, note.tables)
        targets = self.targets(scope, note)
        for name, barrier in reversed(targets.items()):
            if name in self.opened:
                go_back(self.opened[name], note.number, barrier, self.before)
        for job, table, first_id in self._begins(targets, scope, note.number):
            if table._consumers.next_snapshot(job) is not None:
                table._consumers.record(job, first_id)
        components = JobGraph(jobs, self.opened).components()
        keep_common_barriers(self.opened, components, note.number)
        self.notes.activate(note.number, targets)

    def _begins(
        self, targets: Mapping[str, int], scope: _Scope, revision: int
    ) -> Iterable[tuple[str, OpenTable, int]]:
        """(job, source, first snapshot needed) of the jobs that go on at the barrier; of sources that are at it."""
        for job in self._going_on(scope, targets):
            for source in job.sources:
                table = self.opened.get(source)
                if table is not None and (source not in targets or revision > self.before):
                    changes = barrier_changes(table, revision)
                    yield job.name, table, changes.first_needed(self.barrier)

    def _going_on(self, scope: _Scope, targets: Mapping[str, int]) -> Iterable[Job]:
        """Jobs that had come to the barrier."""
        for job in scope.jobs:
            barrier, lead = targets.get(job.tables[0]), self.opened.get(job.tables[0])
            if barrier and lead and job.name in came_to(lead, barrier, self.before):
                yield job

    def _check_sources(self, scope: _Scope, targets: Mapping[str, int]) -> None:
        """Refuse where jobs could not go on at the barrier."""
        for job in self._going_on(scope, targets):
            for source in job.sources:
                if source not in targets and source in self.opened:
                    try:
                        barrier_changes(self.opened[source], self.before).check_start(self.barrier)
                    except NotFoundError as error:
                        raise self._not_there(error) from error

    def _not_there(self, error: NotFoundError) -> NotFoundError:
        return NotFoundError(
            error.subject,
            found=error.found,
            expected=error.expected,
            action=f"Go back to a barrier that all tables have, other than {self.barrier}, or with to=None to the "
            "beginning.",
        )


def _scope(table: str, jobs: Sequence[Job], noted: Iterable[str]) -> _Scope:
    """What goes back with a table: all that is made of what goes back, and all else that these jobs write.
    noted: tables that a note has said, which go back whatever the jobs are by now. Goes round
    until nothing is added.
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
            found=f"a table that no job makes of others; it is written by {writers or 'nobody'}",
            expected="one that is made of others, which can be made again",
            action="Revise what is made of it; rows from outside are put right by who writes them.",
        )
    if roots:
        raise InvalidError(
            f"revision of {table}",
            found=f"{roots[0].name}, whose rows from outside in {roots[0].tables[0]} would be lost",
            expected="tables that jobs make of others alone",
            action="Let it leave, if its rows after the barrier may go; it writes them again when it is back.",
        )
