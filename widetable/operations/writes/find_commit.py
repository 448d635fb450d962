"""Find the commit of a user and identifier. Raises what reading snapshots raises.

The newest snapshot names the last commit of each user (0005); for an earlier one, the kept snapshots are searched
backwards.
"""

from __future__ import annotations

from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable


def find_commit(table: OpenTable, commit_user: str, commit_identifier: int) -> Snapshot | None:
    """Find the snapshot that an append or overwrite has made.

    Parameters
    ----------
    commit_user : str
        The user of the commit.
    commit_identifier : int
        The identifier of the commit.

    Returns
    -------
    Snapshot or None
        The snapshot; None if there is no such commit, or its snapshot has expired.

    Raises
    ------
    InvalidError
        The user is not a name, or the identifier not a number from 0 to 2^63 - 2.
    """
    committer = table._committer
    commit = committer.replay_of(Identity.of(commit_user, commit_identifier, replay=True))
    if commit is None or commit.snapshot_id is None:
        return None
    try:
        return committer.snapshots.load(commit.snapshot_id)
    except NotFoundError:
        return None
