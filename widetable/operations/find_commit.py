"""Looking up the commit of a user and identifier. Raises what reading snapshots raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from widetable.commit.committed import CommitHistory
from widetable.commit.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE, Snapshot

_KINDS: Final = (COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE)


@dataclass(frozen=True)
class FoundCommit:
    """A commit that is in. snapshot: None when it has expired."""

    snapshot: Snapshot | None

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.id


def find_commit(committer: Committer, user: str, identifier: int) -> FoundCommit | None:
    """The append or overwrite of that user and identifier, None when it is not in."""
    latest = committer.snapshots.latest()
    found = CommitHistory(committer.last_commits.load, user, identifier).find(latest)
    if found is None:
        return None
    if found.snapshot_id is None:
        return FoundCommit(_walk(committer, latest, user, identifier))
    return FoundCommit(_load(committer, found.snapshot_id))


def _walk(
    committer: Committer, latest: Snapshot | None, user: str, identifier: int
) -> Snapshot | None:
    """Back from the newest snapshot: the user has committed again since."""
    snapshot = latest
    while snapshot is not None:
        theirs = snapshot.commit_user == user and snapshot.commit_kind in _KINDS
        if theirs and snapshot.commit_identifier <= identifier:
            return snapshot if snapshot.commit_identifier == identifier else None
        snapshot = _load(committer, snapshot.id - 1)
    return None


def _load(committer: Committer, id: int) -> Snapshot | None:
    try:
        return committer.snapshots.load(id) if id > 0 else None
    except NotFoundError:
        return None
