"""The result of a commit: whether and in which snapshot it was made, and its cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitResult:
    """The result of a commit. committed: False for a no-op and for a replay, for which snapshot_id is that of the first
    commit, or None if it is not known. rows, files: number of added ones. retries: lost races.
    """

    __module__ = "widetable"

    committed: bool
    snapshot_id: int | None
    kind: str
    rows: int = 0
    files: int = 0
    retries: int = 0
    duration_millis: int = 0
