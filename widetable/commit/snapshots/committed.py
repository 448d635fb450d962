"""The properties of a snapshot: the highest sequence number, and the last commit of each commit user.

On disk: never change (docs/decisions/0004-sequence-numbers.md, 0005-commits-remembered-in-snapshots.md):

    sequence.generation.max-sequence-number = decimal text
    widetable.commit-users = JSON object: commit user -> [last identifier of an append or overwrite, its snapshot id,
                             its time in epoch millis, its digest or null]; the user that committed last at the end
    widetable.digest       = the digest of this snapshot's own commit; absent without one
    widetable.columns      = which columns were written (`committed_columns`)
    widetable.placed-rows  = in a compaction that brought rows whose buckets were postponed into buckets: how many
    widetable.rescaled     = in an overwrite that moved rows to other buckets and changed none: how many buckets
    widetable.went-back-to = in an overwrite that restored the rows of an older snapshot: the id of that snapshot
    widetable.sorted       = in a compaction that sorted a partition of an append table: by what (`sort_compact`)
    widetable.commit-millis = how long this commit took until it was published, lost races included
    widetable.uncompacted  = how many commits wait for a compaction, and since when (`uncompacted`)
    widetable.watermarks   = the watermark of each writer (`writer_watermarks`); absent without any
    widetable.commits      = written by older versions instead of widetable.commit-users: commit user ->
                             [identifier, snapshot id], at most 1,024 of them

In: snapshots, and a function that loads one by id. The first two properties are copied from snapshot to snapshot,
`uncompacted` and `watermarks` are updated. No other property is copied, whichever client wrote it: a property that we
do not know may concern only its own snapshot.

    users before              {"a": [6, 3, 1000, null], "b": [1, 4, 2000, null]}
    snapshot 5, time 3000     is commit 7 of the user "a", with the digest "d1"
    users after               {"b": [1, 4, 2000, null], "a": [7, 5, 3000, "d1"]}

Raises DamagedError for a property of another form; the entry of a user is checked only when it is requested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    COMMIT_KIND_APPEND,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)

# Paimon's own name: its meaning there fits (0004).
MAX_SEQUENCE_NUMBER: Final = "sequence.generation.max-sequence-number"
COMMIT_USERS: Final = "widetable.commit-users"
DIGEST: Final = "widetable.digest"
OLD_COMMITS: Final = "widetable.commits"
ROWS: Final = "widetable.rows"
FILES: Final = "widetable.files"
RETRIES: Final = "widetable.retries"
COMMIT_MILLIS: Final = "widetable.commit-millis"
EXPIRED_ROWS: Final = "widetable.expired-rows"
PLACED_ROWS: Final = "widetable.placed-rows"
RESCALED: Final = "widetable.rescaled"
RESTORED_FROM: Final = "widetable.went-back-to"
COLUMNS: Final = "widetable.columns"
SORTED: Final = "widetable.sorted"
UNCOMPACTED: Final = "widetable.uncompacted"
WATERMARKS: Final = "widetable.watermarks"
OWN_PROPERTIES: Final = frozenset(
    {
        MAX_SEQUENCE_NUMBER,
        COMMIT_USERS,
        DIGEST,
        OLD_COMMITS,
        ROWS,
        FILES,
        RETRIES,
        COMMIT_MILLIS,
        UNCOMPACTED,
        EXPIRED_ROWS,
        PLACED_ROWS,
        RESCALED,
        RESTORED_FROM,
        COLUMNS,
        WATERMARKS,
    }
)
# Measured in decision 0005.
MAX_USERS: Final = 10_000
# From this number on a warning is logged.
MANY_USERS: Final = MAX_USERS * 8 // 10
_OLD_MAX_USERS: Final = 1024
_FORMS: Final = {
    COMMIT_USERS: "user -> [identifier, snapshot id, time, digest or null]",
    OLD_COMMITS: "user -> [identifier, snapshot id]",
}

Load: TypeAlias = Callable[[int], Snapshot]


class LastCommit(NamedTuple):
    """The last append or overwrite of a commit user. snapshot_id: of its snapshot, which may have expired.
    time_millis: of that snapshot, epoch. digest: None if the writer gave none.
    """

    identifier: int
    snapshot_id: int
    time_millis: int
    digest: str | None = None


# The parsed value of `widetable.commit-users`: only the requested entry becomes a LastCommit (`last_of`).
Users: TypeAlias = Mapping[str, Sequence[Any]]


def highest_sequence_number(snapshot: Snapshot) -> int | None:
    """Return the highest sequence number that the table had at `snapshot`; None if the snapshot does not record it."""
    text = snapshot.properties.get(MAX_SEQUENCE_NUMBER)
    return None if text is None else decimal(text, snapshot.id, MAX_SEQUENCE_NUMBER)


def remembers(snapshot: Snapshot) -> bool:
    """Return whether a snapshot records the last commit of each user."""
    return COMMIT_USERS in snapshot.properties or OLD_COMMITS in snapshot.properties


def commit_millis(snapshot: Snapshot) -> int | None:
    """Return how long a commit took until it was published; None if another client made it and did not record it."""
    text = snapshot.properties.get(COMMIT_MILLIS)
    return None if text is None else decimal(text, snapshot.id, COMMIT_MILLIS)


def commit_of(snapshot: Snapshot) -> LastCommit | None:
    """Return the snapshot's own commit; None for a compaction, and for a commit without an identifier."""
    counts = snapshot.commit_kind in (COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE)
    if not counts or snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
        return None
    digest = snapshot.properties.get(DIGEST)
    return LastCommit(snapshot.commit_identifier, snapshot.id, snapshot.time_millis, digest)


def last_of(users: Users, user: str) -> LastCommit | None:
    """Return the last commit of a user, None if it is not known."""
    entry = users.get(user)
    if entry is None:
        return None
    if not _is_entry(entry):
        raise DamagedError(
            f"the user {user!r} in property {COMMIT_USERS!r}",
            found=repr(entry)[:100],
            expected="[identifier, snapshot id, time, digest or null]",
            action="Restore the newest snapshot file, or use another commit user.",
        )
    return LastCommit(*entry)


def users_of(snapshot: Snapshot | None, load: Load) -> Users:
    """Return the last commit of each user as of `snapshot`, the longest silent user first.

    Snapshots of other clients lack the property: this goes back to a snapshot that has it, and adds their users.
    """
    foreign: list[Snapshot] = []
    while snapshot is not None and not remembers(snapshot):
        foreign.append(snapshot)
        snapshot = before(snapshot, load)
    users = {} if snapshot is None else _remembered(snapshot, load)
    return _with_commits(users, foreign) if foreign else users


def next_properties(
    users: Users,
    max_sequence_number: int,
    user: str,
    commit: LastCommit | None,
    retention_millis: int,
) -> dict[str, str]:
    """Return the properties of the next snapshot. commit: its own commit by `user`, None if it is not recorded.

    retention_millis: a user whose last commit is younger is kept, however many users there are.
    """
    after = dict(users)
    properties = {}
    if commit is not None:
        _note(after, user, commit)
        _forget(after, commit.time_millis - retention_millis)
        if commit.digest is not None:
            properties[DIGEST] = commit.digest
    return {
        MAX_SEQUENCE_NUMBER: str(max_sequence_number),
        COMMIT_USERS: json.dumps(after, separators=(",", ":"), ensure_ascii=False),
        **properties,
    }


def backwards_from(id: int, load: Load) -> Iterator[Snapshot]:
    """Yield the snapshot of that id and those before it, until one has expired or there is none."""
    while id > 0:
        try:
            snapshot = load(id)
        except NotFoundError:  # expired
            return
        yield snapshot
        id = snapshot.id - 1


def before(snapshot: Snapshot, load: Load) -> Snapshot | None:
    """Return the snapshot before; None if it has expired, or there is none."""
    return next(backwards_from(snapshot.id - 1, load), None)


def _note(users: dict[str, Sequence[Any]], user: str, commit: LastCommit) -> None:
    """Move the user to the end with this commit, or with its last one if that has a higher identifier.

    Our identifiers only grow; another client may have committed a lower one.
    """
    last = last_of(users, user)
    users.pop(user, None)
    users[user] = commit if last is None or last.identifier <= commit.identifier else last


def _forget(users: dict[str, Sequence[Any]], before_millis: int) -> None:
    """Remove surplus users whose last commit is before that time, the longest silent ones first.

    The mapping is in the order of last commits. More than MAX_USERS may remain if all of them are young.
    """
    surplus = len(users) - MAX_USERS
    if surplus > 0:
        silent = (
            user for user, entry in users.items() if _is_entry(entry) and entry[2] < before_millis
        )
        for user in list(islice(silent, surplus)):
            del users[user]


def _with_commits(users: Users, newest_first: Iterable[Snapshot]) -> Users:
    """Return the users after snapshots without the property, whose commits are added oldest first."""
    after = dict(users)
    for snapshot in reversed(list(newest_first)):
        commit = commit_of(snapshot)
        if commit is not None:
            _note(after, snapshot.commit_user, commit)
    return after


def _remembered(snapshot: Snapshot, load: Load) -> Users:
    text = snapshot.properties.get(COMMIT_USERS)
    if text is not None:
        return _parsed(text, COMMIT_USERS, snapshot.id)
    old = _parsed_old(snapshot)
    if len(old) < _OLD_MAX_USERS:
        return old
    # A full list may have dropped users: those that kept snapshots still name are added again, once.
    return {**_with_commits({}, backwards_from(snapshot.id - 1, load)), **old}


@lru_cache(maxsize=2)
def _parsed(text: str, key: str, snapshot_id: int) -> Users:
    """Parse a property; cached because a write reads it before it writes, and again when it commits."""
    try:
        body = json.loads(text)
        if not isinstance(body, dict):
            raise ValueError(text)
    except ValueError as cause:
        raise damaged_property(snapshot_id, key, text, _FORMS[key]) from cause
    return body


def _parsed_old(snapshot: Snapshot) -> Users:
    """Parse `widetable.commits`; its users get the time of this snapshot, as no older time is known."""
    text = snapshot.properties[OLD_COMMITS]
    users = {
        user: LastCommit(entry[0], entry[1], snapshot.time_millis)
        for user, entry in _parsed(text, OLD_COMMITS, snapshot.id).items()
        if isinstance(entry, list) and len(entry) == 2
    }
    if len(users) < len(_parsed(text, OLD_COMMITS, snapshot.id)):
        raise damaged_property(snapshot.id, OLD_COMMITS, text, _FORMS[OLD_COMMITS])
    return users


def _is_entry(entry: Any) -> bool:
    """Return whether this is a valid entry: a JSON list, or a LastCommit, which is a tuple. Booleans are no numbers."""
    if not isinstance(entry, list | tuple) or len(entry) != 4:
        return False
    numbers, digest = entry[:3], entry[3]
    return all(type(number) is int for number in numbers) and isinstance(digest, str | None)


def decimal(text: str, snapshot_id: int, key: str) -> int:
    """Parse the decimal number in a property of a snapshot."""
    try:
        return int(text)
    except ValueError as cause:
        raise damaged_property(snapshot_id, key, text, "a decimal number") from cause


def damaged_property(snapshot_id: int, key: str, text: str, expected: str) -> DamagedError:
    """Return the error for a property of a snapshot that has another form than expected."""
    return DamagedError(
        f"property {key!r} of snapshot {snapshot_id}",
        found=repr(text[:100]),
        expected=expected,
        action="Restore the snapshot file, or go back to an older snapshot.",
    )
