"""Looking up the commit of a user and identifier. Raises what reading snapshots raises.

The newest snapshot says which is the last commit of a user (0005); for one before that the kept
snapshots are searched backwards.
"""

from __future__ import annotations

from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable


def find_commit(table: OpenTable, commit_user: str, commit_identifier: int) -> Snapshot | None:
    """Find the snapshot that an append or overwrite made.

    Parameters
    ----------
    commit_user : str
        The user of the commit.
    commit_identifier : int
        The identifier of the commit.

    Returns
    -------
    Snapshot or None
        The snapshot; None when the commit is not in, or its snapshot has expired.

    Raises
    ------
    InvalidError
        The user is no name, or the identifier no number from 0 to 2^63 - 2.
    """
    committer = table._committer
    known = Identity.of(commit_user, commit_identifier, replay=True)
    found = committer.replay_of(known)
    if found is None or found.snapshot_id is None:
        return None
    try:
        return committer.snapshots.load(found.snapshot_id)
    except NotFoundError:
        return None
