"""Lets a writer that has ended leave its table, for whoever finds it: the table no longer waits for it."""

from __future__ import annotations

from collections.abc import Iterable

from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages


def let_leave(table: OpenTable, name: str) -> CommitResult:
    """Let a writer that has ended leave the table. Raises NotFoundError if the table does not wait for it,
    ConflictError if it came back meanwhile.
    """
    members = barrier_views(table).newest().members
    member = members.get(name)
    if member is None:
        raise unknown_writer(name, table.path, members)
    step = BarrierStep(Act.LEAVE, name, member.run)
    return append_messages(table, [], Identity.unnamed(name), barrier=step)


def unknown_writer(name: str, table: str, members: Iterable[str]) -> NotFoundError:
    """Return the error for a writer that is not among those for which the table waits."""
    return NotFoundError(
        f"writer {name!a}",
        found=f"no such writer among those for which {table} waits",
        expected=f"one of {', '.join(sorted(members)) or 'none'}",
        action="Correct the name, or do nothing: it has left.",
        code=ErrorCode.JOB_NOT_FOUND,
    )
