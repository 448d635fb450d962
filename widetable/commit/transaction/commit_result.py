"""What a commit answers: whether it is in, in which snapshot, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommitResult:
    """committed:

    False when there was nothing to do, or the commit was in already; then snapshot_id is the one that holds it,
    None when it is not known. rows, files: added. retries: lost races.
    """

    __module__ = "widetable"

    committed: bool
    snapshot_id: int | None
    kind: str
    rows: int = 0
    files: int = 0
    retries: int = 0
    duration_millis: int = 0
