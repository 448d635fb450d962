"""Looking up the commit of a user and identifier. Raises what reading snapshots raises."""

from __future__ import annotations

from widetable.commit.commit_identity import Identity
from widetable.commit.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot


def find_commit(committer: Committer, user: str, identifier: int) -> Snapshot | None:
    """The snapshot of that append or overwrite; None when it is not in, or has expired."""
    known = Identity.of(user, identifier, replay=True)
    found = committer.replay_of(known)
    if found is None or found.snapshot_id is None:
        return None
    try:
        return committer.snapshots.load(found.snapshot_id)
    except NotFoundError:
        return None
