"""Commits the replacement or marking of files that was computed from a held snapshot. One rule for who keeps the files.

    committed, or the outcome is unknown    the commit owns the new files
    refused, or it was a repeat             they are removed

Raises what `Committer.rewrite` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, InvalidError, NotFoundError, UnsupportedError
from widetable.format.snapshot import Snapshot
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState


def commit_rewrite(
    committer: Committer,
    state: TableState,
    messages: list[CommitMessage],
    by: Identity,
    rows: int,
    behind: Callable[[Snapshot | None], list[CommitMessage]] | None = None,
) -> CommitResult:
    """Commit the messages. rows: of the result. behind: returns the messages, or raises if they do not fit behind a
    snapshot.
    """
    try:
        result = committer.rewrite(behind or (lambda _: messages), by)
    except (ConflictError, InvalidError, NotFoundError, UnsupportedError):
        discard(state, messages)
        raise
    if not result.committed:
        discard(state, messages)
        return result
    return replace(result, rows=rows)
