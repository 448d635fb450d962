"""Let a job that has ended leave the tables that it wrote, and delete its registration.

A job whose process still renews its registration has not ended: only that process may drop it. A root of several tables
writes its lead first. If its tables have not reached the same barrier, the last barriers of the lead have rows that the
others lack, and only the job itself can finish them. Source: rule R15 of docs/consistency.md. Raises ConflictError for
both, and if the job came back meanwhile.

    1  it leaves the snapshots        tables no longer wait; its registration reserves its columns until it expires
    2  its plans are deleted
    3  its registration is deleted    its columns are free; after a drop that was killed before, the next drop does it

In this order, a reader in between sees a registration without a writer, which reserves the columns while it is in
force, and never a writer of unknown columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from widetable.commit.barriers.barrier_plan import BarrierPlans
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import RUNNING
from widetable.commit.notes.lease_term import LeaseState
from widetable.errors import ConflictError
from widetable.operations.barriers.departed_writer import let_leave, unknown_writer
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.job_names import registration_name
from widetable.topology.registered_jobs import JobsOfTable


def check_waited_for(writer: str, table: JobsOfTable) -> None:
    """Raise NotFoundError for a writer that has left already, or never joined."""
    if writer not in table.state.members:
        raise unknown_writer(writer, table.name, table.state.members)


def check_ended(job: str, tables: Sequence[JobsOfTable]) -> None:
    """Raise ConflictError for a job that runs in another process, and for a widener."""
    for table in tables:
        if any(widener.name == job for widener in table.wideners):
            raise ConflictError(
                f"job {job!r}",
                found=f"the widener of {table.name}, whose options name it",
                expected="a job that has ended",
                action="Remove the table's option, with which it leaves. With force, barriers are complete without its "
                "columns until the next round of a maintainer brings it back.",
            )
        for note in table.notes:
            is_renewed = note.lease_state is LeaseState.ACTIVE and note.job.state == RUNNING
            if note.job.name == job and is_renewed and not note.is_own:
                raise ConflictError(
                    f"job {job!r}",
                    found=f"a process that renews its registration in {table.name}",
                    expected="a job that has ended",
                    action="End it, and try again after a minute, when its registration has expired. With force it "
                    "leaves at once, but is back with its next commit.",
                )


def forgotten(tables: Sequence[JobsOfTable]) -> Iterator[tuple[JobsOfTable, str]]:
    """Yield obsolete registrations: those that are not in force, of jobs for which no table waits."""
    waited_for = {name for table in tables for name in table.state.members}
    for table in tables:
        for note in table.notes:
            if note.lease_state is not LeaseState.ACTIVE and note.job.name not in waited_for:
                yield table, note.job.name


def check_agreed(job: str, tables: Sequence[JobsOfTable]) -> None:
    """Raise ConflictError for a root that is further in some of its tables than in others. Writers of one name are one
    job, however they are registered. Tables of different intervals are not compared: they have no common barriers.
    """
    of_interval: dict[int, dict[str, int]] = {}
    for table in tables:
        member = table.state.members.get(job)
        if member is not None and member.kind == ROOT:
            of_interval.setdefault(table.state.interval, {})[table.name] = member.frontier
    for frontiers in of_interval.values():
        if len(set(frontiers.values())) < 2:
            continue
        listed = ", ".join(f"{table} at {barrier}" for table, barrier in frontiers.items())
        raise ConflictError(
            f"job {job!r}",
            found=f"different barriers in its tables: {listed}",
            expected="one barrier up to which it has completed all of them",
            action="Start it again, so that it finishes. With force, the other tables never get these rows.",
        )


def take_leave(job: str, table: OpenTable, jobs: JobsOfTable) -> None:
    """Let a job leave one table. jobs: the table's jobs, as read before. Raises ConflictError if another process has
    taken the name since, NotFoundError if somebody else was faster. A caller with several tables may call it again
    after an error.
    """
    if job in jobs.state.members:
        let_leave(table, job)
    BarrierPlans(table._file_io, table._paths, job).forget()
    table._file_io.delete(table._paths.job_file(registration_name(job)))
