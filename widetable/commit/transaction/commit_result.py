"""The result of a commit: whether and in which snapshot it was made, and its cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitResult:
    """What a commit did.

    Attributes
    ----------
    committed : bool
        False: there was nothing to do, or an earlier call has made this commit.
    snapshot_id : int or None
        The snapshot of the commit, also of an earlier call. None: there is none, or it is unknown.
    kind : str
        The kind of the snapshot: `APPEND`, `COMPACT` or `OVERWRITE`.
    rows, files : int
        How many rows and files the commit added.
    retries : int
        How often another commit came first.
    duration_millis : int
        How long the commit took, in milliseconds.
    """

    __module__ = "widetable"

    committed: bool
    snapshot_id: int | None
    kind: str
    rows: int = 0
    files: int = 0
    retries: int = 0
    duration_millis: int = 0
