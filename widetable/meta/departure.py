"""Lets a job that has ended leave the tables that it wrote into, and forgets what it said of itself.

A root of several tables writes its lead first: where they have not come equally far, the last barriers of the lead hold
rows that the others lack, and only the job itself can finish them. Source: rule R15 of docs/consistency.md. Raises
ConflictError for that, and where the job came back meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.commit.barrier_state import ROOT
from widetable.errors import ConflictError
from widetable.meta.registered_jobs import JobsOfTable
from widetable.operations.barrier_writer import let_leave
from widetable.operations.open_table import OpenTable


def check_agreed(job: str, tables: Sequence[JobsOfTable], *, force: bool) -> None:
    """Refuse to let a root go that is further in some of its tables than in others."""
    if force:
        return
    found = {
        table.name: table.state.members[job].frontier
        for table in tables
        if job in table.state.members and table.state.members[job].kind == ROOT
    }
    is_one_query = any(len(n.job.sinks) > 1 for t in tables for n in t.notes if n.job.name == job)
    if is_one_query and len(set(found.values())) > 1:
        listed = ", ".join(f"{table} at {barrier}" for table, barrier in found.items())
        raise ConflictError(
            f"job {job!r}",
            found=f"tables that it has not brought equally far: {listed}",
            expected="one barrier up to which it has completed all of them",
            action="Start it again, so that it finishes; with force the others never get these rows.",
        )


def take_leave(job: str, table: OpenTable, found: JobsOfTable) -> None:
    """From one table. found: how it was."""
    if job in found.state.members:
        let_leave(table, job)
    table._file_io.delete(table._paths.writer_registration(job))
