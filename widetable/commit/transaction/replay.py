"""Decides whether a commit is a replay, which requires proof (docs/decisions/0015-replays-are-proven.md).

    identifier          digests                                   verdict
    above the last one                                            NEW
    the last one        equal, or one is not known                REPLAY
    the last one        differ                                    COLLISION
    below               equal to that of the kept snapshot        REPLAY
    below               differ, or not known                      COLLISION
    not above           the caller passes `replay`                REPLAY

A NEW commit is made, a REPLAY commits nothing, a COLLISION raises InvalidError. Raises the errors of reading snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widetable.commit.snapshots.committed import (
    MAX_USERS,
    LastCommit,
    Load,
    backwards_from,
    before,
    commit_of,
    last_of,
    users_of,
)
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode


@dataclass(frozen=True)
class Replay:
    """A commit that was made before. snapshot_id: None if its snapshot has expired."""

    snapshot_id: int | None


def is_proven(by: Identity, last: LastCommit, same: LastCommit | None) -> bool:
    """Return whether a commit with an identifier not above `last`, the last one of its user, was made before.

    False if it is another commit with the same identifier, or may be one. same: the commit of this identifier, None if
    it is not known. Pure.
    """
    if by.replay:
        return True
    recorded = None if same is None else same.digest
    if None in (by.digest, recorded):
        return by.identifier == last.identifier
    return by.digest == recorded


class CommitHistory:
    """The commits of one user; every attempt of a commit reads only the snapshots since the last attempt."""

    def __init__(self, load: Load, by: Identity, path: str) -> None:
        """Begin without reading. path: of the table, for messages."""
        self._load = load
        self._by = by
        self._path = path
        self._absent_up_to = 0

    def replay(self, latest: Snapshot | None) -> Replay | None:
        """Return the replayed commit as of `latest`; None for a new commit. Raises InvalidError for a collision."""
        if latest is None or not self._by.counts:
            return None
        last = self._last(latest)
        if last is None or self._by.identifier > last.identifier:
            return None
        same: LastCommit | None = last
        if self._by.identifier < last.identifier:
            snapshot = find_snapshot(self._load, self._by, last.snapshot_id)
            same = None if snapshot is None else commit_of(snapshot)
        if not is_proven(self._by, last, same):
            raise self._collision(last)
        return Replay(None if same is None else same.snapshot_id)

    def _last(self, latest: Snapshot) -> LastCommit | None:
        users = users_of(latest, self._load)
        last = last_of(users, self._by.user)
        if last is None and len(users) >= MAX_USERS:
            return self._walk(latest)
        return last

    def _walk(self, latest: Snapshot) -> LastCommit | None:
        """Go back to the newest snapshot of the user, as Paimon does; only for a user that a full list does not name.

        The next attempt reads only newer snapshots.
        """
        snapshot: Snapshot | None = latest
        while snapshot is not None and snapshot.id > self._absent_up_to:
            commit = commit_of(snapshot)
            if snapshot.commit_user == self._by.user and commit is not None:
                return commit
            snapshot = before(snapshot, self._load)
        self._absent_up_to = latest.id
        return None

    def _collision(self, last: LastCommit) -> InvalidError:
        at = np.datetime64(last.time_millis, "ms")
        digest = "no digest" if last.digest is None else f"the digest {last.digest}"
        ours = "no digest" if self._by.digest is None else f"the digest {self._by.digest}"
        return InvalidError(
            f"commit {self._by.identifier} of the user {self._by.user!r} to {self._path}",
            found=f"commit {last.identifier} of that user, made in snapshot {last.snapshot_id} of {at} UTC with "
            f"{digest}, and {ours} here",
            expected="an identifier above it, or proof that this commit was made: the digest that it was made with",
            action="Continue above it, or use another commit user. A new checkpoint requires a new user or an empty "
            "table; if functions such as sum would count its rows twice, only an empty table is right. Pass "
            "replay=True, from Python, if you know that this commit was made.",
            code=ErrorCode.IDENTIFIER_OF_ANOTHER_COMMIT,
        )


def find_snapshot(load: Load, by: Identity, newest_id: int) -> Snapshot | None:
    """Return the snapshot of a user's identifier, at `newest_id` or before; None if it has expired.

    Reads snapshots one by one, back to the first lower identifier of the user, as identifiers only grow.
    """
    for snapshot in backwards_from(newest_id, load):
        commit = commit_of(snapshot)
        if snapshot.commit_user == by.user and commit is not None:
            if commit.identifier == by.identifier:
                return snapshot
            if commit.identifier < by.identifier:
                return None
    return None
