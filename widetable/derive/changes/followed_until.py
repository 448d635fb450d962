"""How far a table that follows another one, snapshot by snapshot, has come. Its own commits say it.

    commit of the user <user>     identifier: the last snapshot of the base that it has
                                  digest: the mark of that snapshot (`snapshot_mark`)

So a snapshot that got the id of one which another client took back is told from it. In: the base, the table that
follows it, and a snapshot of that. Out: the id of a snapshot of the base. Raises InvalidError where the base does not
have that snapshot any more, though nothing has expired.
"""

from __future__ import annotations

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.snapshots.snapshot_mark import mark_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable


def followed_until(
    base: OpenTable,
    follower: OpenTable,
    latest: Snapshot | None,
    user: str,
    *,
    what: str,
    renew: str,
) -> int:
    """Return the base's snapshot up to which a snapshot of the follower has all; 0 before the first commit.

    what: the kind of table, and renew: what its owner does to begin anew, for the error.
    """
    last = last_of(users_of(latest, follower._committer.last_commits.load), user)
    if last is None:
        return 0
    store = base._committer.snapshots
    snapshot = or_none(store.load, last.identifier)
    is_other = snapshot is not None and mark_of(snapshot) != last.digest
    if is_other or (store.latest_id() or 0) < last.identifier:
        raise InvalidError(
            f"{what} {name_of(follower)!r} of {name_of(base)!r}",
            found=f"all up to a snapshot {last.identifier} that the table does not have any more",
            expected="snapshots that stay until they expire; another client rolled the table back, or they were lost",
            action=renew,
        )
    return last.identifier


def following(user: str, snapshot: Snapshot) -> Identity:
    """Return the identity of the commit that brings a follower up to a snapshot of the base."""
    return Identity(user, snapshot.id, mark_of(snapshot))
