"""Whether a commit comes again: believed only when it is proven (docs/decisions/0015-replays-are-proven.md).

    identifier          digests                                   verdict
    above the last one                                            NEW
    the last one        equal, or one is not known                REPLAY
    the last one        differ                                    COLLISION
    below               equal to that of the kept snapshot        REPLAY
    below               differ, or not known                      COLLISION
    not above           the caller says `replay`                  REPLAY

A NEW commit is made, a REPLAY commits nothing, a COLLISION is an InvalidError. Raises what reading snapshots raises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widetable.commit.snapshots.committed import (
    MAX_USERS,
    LastCommit,
    Load,
    back_from,
    before,
    commit_of,
    last_of,
    users_of,
)
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot


@dataclass(frozen=True)
class Replay:
    """A commit that is in. snapshot_id: None when its snapshot is not there any more."""

    snapshot_id: int | None


def is_proven(by: Identity, last: LastCommit, same: LastCommit | None) -> bool:
    """Whether a commit that is not above `last`, the last one of its user, is in; else it is another one with the same
    identifier, or cannot be told from such a one. same: the commit of this identifier, None when it is not known. Pure.
    """
    if by.replay:
        return True
    known = None if same is None else same.digest
    if None in (by.digest, known):
        return by.identifier == last.identifier
    return by.digest == known


class CommitHistory:
    """What is in of one user; asked again on every attempt of a commit, each time only about what is new."""

    def __init__(self, load: Load, by: Identity, path: str) -> None:
        """path: of the table, for messages."""
        self._load = load
        self._by = by
        self._path = path
        self._absent_up_to = 0

    def replay(self, latest: Snapshot | None) -> Replay | None:
        """The commit as of `latest`, when it comes again; None for a new one. Raises InvalidError for a collision."""
        if latest is None or not self._by.counts:
            return None
        last = self._last(latest)
        if last is None or self._by.identifier > last.identifier:
            return None
        same: LastCommit | None = last
        if self._by.identifier < last.identifier:
            found = find_snapshot(self._load, self._by, last.snapshot_id)
            same = None if found is None else commit_of(found)
        if not is_proven(self._by, last, same):
            raise self._collision(last)
        return Replay(None if same is None else same.snapshot_id)

    def _last(self, latest: Snapshot) -> LastCommit | None:
        known = users_of(latest, self._load)
        last = last_of(known, self._by.user)
        if last is None and len(known) >= MAX_USERS:
            return self._walk(latest)
        return last

    def _walk(self, latest: Snapshot) -> LastCommit | None:
        """As Paimon does: back to the newest snapshot of that user. Only for a user that a full list does not name.

        What was walked once is not walked again by the next attempt, which has a few newer
        snapshots.
        """
        snapshot: Snapshot | None = latest
        while snapshot is not None and snapshot.id > self._absent_up_to:
            found = commit_of(snapshot)
            if snapshot.commit_user == self._by.user and found is not None:
                return found
            snapshot = before(snapshot, self._load)
        self._absent_up_to = latest.id
        return None

    def _collision(self, last: LastCommit) -> InvalidError:
        at = np.datetime64(last.time_millis, "ms")
        digest = "no digest" if last.digest is None else f"the digest {last.digest}"
        ours = "no digest" if self._by.digest is None else f"the digest {self._by.digest}"
        return InvalidError(
            f"commit {self._by.identifier} of the user {self._by.user!r} to {self._path}",
            found=f"commit {last.identifier} of that user, in since snapshot {last.snapshot_id} of {at} UTC with "
            f"{digest}, and {ours} here",
            expected="an identifier above it, or proof that this commit is in: the digest that it was made with",
            action="Go on above it, or use another commit user. A new checkpoint needs a new one, or an empty table; "
            "where functions such as sum would count its rows twice, only an empty table is right. Give replay=True, "
            "from Python, if you know that this commit is in.",
        )


def find_snapshot(load: Load, by: Identity, newest_id: int) -> Snapshot | None:
    """The snapshot of a user's identifier, at `newest_id` or before; None when it is not there any more.

    Reads snapshots one by one, back to the first lower identifier of the user: they only grow.
    """
    for snapshot in back_from(newest_id, load):
        found = commit_of(snapshot)
        if snapshot.commit_user == by.user and found is not None:
            if found.identifier == by.identifier:
                return snapshot
            if found.identifier < by.identifier:
                return None
    return None
