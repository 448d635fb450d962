"""Lets a job that has ended leave the tables that it wrote into, and forgets what it said of itself.

A job whose process goes on to renew its registration has not ended: that process alone may say so. A root of several
tables writes its lead first: where they have not come equally far, the last barriers of the lead hold rows that the
others lack, and only the job itself can finish them. Source: rule R15 of docs/consistency.md. Raises ConflictError for
both, and where the job came back meanwhile.

    1  it leaves the snapshots      nobody waits for it; its registration holds its columns until that runs out
    2  its plans go
    3  its registration goes        its columns are free; a drop that was killed before leaves it to the next one

In this order: who looks at a table in between finds a registration without a writer, which holds
the columns for as long as it is in force, and never a writer whose columns nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from widetable.commit.barriers.barrier_plan import BarrierPlans
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import RUNNING
from widetable.commit.notes.lease_term import LeaseState
from widetable.errors import ConflictError
from widetable.operations.barriers.barrier_writer import let_leave, nobody_waits_for
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.job_names import registration_name
from widetable.topology.registered_jobs import JobsOfTable


def check_waited_for(writer: str, table: JobsOfTable) -> None:
    """Refuse one that has left already, or never was there."""
    if writer not in table.state.members:
        raise nobody_waits_for(writer, table.name, table.state.members)


def check_ended(job: str, tables: Sequence[JobsOfTable]) -> None:
    """Refuse to let a job go that runs in another process than this one, and a widener."""
    for table in tables:
        if any(widener.name == job for widener in table.wideners):
            raise ConflictError(
                f"job {job!r}",
                found=f"the widener of {table.name}, whose options name it",
                expected="a job that has ended",
                action="Remove the table's option: it leaves with that. With force barriers are complete without its "
                "columns until the next round of a maintainer brings it back.",
            )
        for note in table.notes:
            is_renewed = note.lease_state is LeaseState.ACTIVE and note.job.state == RUNNING
            if note.job.name == job and is_renewed and not note.is_own:
                raise ConflictError(
                    f"job {job!r}",
                    found=f"a process that renews its registration in {table.name}",
                    expected="a job that has ended",
                    action="End it, and try again when its registration has run out, after a minute; with force it "
                    "leaves all the same, and is back with its next commit.",
                )


def forgotten(tables: Sequence[JobsOfTable]) -> Iterator[tuple[JobsOfTable, str]]:
    """Registrations that say nothing any more: not in force, of jobs that no table waits for."""
    waited_for = {name for table in tables for name in table.state.members}
    for table in tables:
        for note in table.notes:
            if note.lease_state is not LeaseState.ACTIVE and note.job.name not in waited_for:
                yield table, note.job.name


def check_agreed(job: str, tables: Sequence[JobsOfTable]) -> None:
    """Refuse to let a root go that is further in some of its tables than in others: writers of one name are one job,
    however they are registered. Tables of different intervals have no barrier in common that could be held together.
    """
    of_interval: dict[int, dict[str, int]] = {}
    for table in tables:
        member = table.state.members.get(job)
        if member is not None and member.kind == ROOT:
            of_interval.setdefault(table.state.interval, {})[table.name] = member.frontier
    for found in of_interval.values():
        if len(set(found.values())) < 2:
            continue
        listed = ", ".join(f"{table} at {barrier}" for table, barrier in found.items())
        raise ConflictError(
            f"job {job!r}",
            found=f"tables that it has not brought equally far: {listed}",
            expected="one barrier up to which it has completed all of them",
            action="Start it again, so that it finishes; with force the others never get these rows.",
        )


def take_leave(job: str, table: OpenTable, found: JobsOfTable) -> None:
    """From one table. found: how it was. Raises ConflictError where another process has the name
    since, NotFoundError where somebody else was faster; the tables before it in a row have been
    left by then, so it may be called again.
    """
    if job in found.state.members:
        let_leave(table, job)
    BarrierPlans(table._file_io, table._paths, job).forget()
    table._file_io.delete(table._paths.job_file(registration_name(job)))
