"""Repeats a change that was computed from a snapshot until no other commit comes between. One loop for all changes.

    the change is made from snapshot 7 ─► commit, after 9 by now     it fits: committed
                                                                      it does not: made again from 9, at most ten times

Raises ConflictError when other commits came first each time, NotFoundError for a file of the newest snapshot, and what
the attempt raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError, NotFoundError
from widetable.operations.handle.open_table import OpenTable

_MAX_TRIES: Final = 10


def retried(
    table: OpenTable,
    attempt: Callable[[int], CommitResult],
    by: Identity,
    kind: str,
    *,
    dry_run: bool,
) -> CommitResult:
    """Return the result of the first attempt that fits.

    attempt: makes the change from a snapshot, and commits it. by: if it has committed before, nothing is done; a dry
    run is never a repeat. kind: of the commit.
    """
    replay = None if dry_run else table._committer.replay_of(by)
    snapshot_id = table._committer.snapshots.latest_id()
    if replay is not None or snapshot_id is None:
        replayed_id = None if replay is None else replay.snapshot_id
        return CommitResult(committed=False, snapshot_id=replayed_id, kind=kind)
    for tries_left in reversed(range(_MAX_TRIES)):
        try:
            return attempt(snapshot_id)
        except (ConflictError, NotFoundError) as error:
            newest_id = table._committer.snapshots.latest_id() or snapshot_id
            # A missing file may have expired with its snapshot, unless this is still the newest one.
            is_gone = isinstance(error, NotFoundError) and newest_id == snapshot_id
            if not tries_left or is_gone:
                raise
            snapshot_id = newest_id
    raise AssertionError("the last try returns or raises")
