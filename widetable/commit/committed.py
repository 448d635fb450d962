"""What a snapshot's properties remember: the highest sequence number, and the last identifier of each commit
user.

On disk: never change (docs/decisions/0004-sequence-numbers.md, 0005-commits-remembered-in-snapshots.md):

    sequence.generation.max-sequence-number = decimal text
    widetable.commits                       = JSON object: commit user -> [last identifier of an append or
                                              overwrite, its snapshot id]; the user that committed last at the end,
                                              at most 1,024 users

In: snapshots, and a function that loads one by id. These two properties are copied from snapshot to snapshot;
no other is, whoever wrote it: a property that we do not know may be about its own snapshot only. Raises
DamagedError for a property that is not of this form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    COMMIT_KIND_APPEND,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)

MAX_SEQUENCE_NUMBER: Final = "sequence.generation.max-sequence-number"
COMMITS: Final = "widetable.commits"
ROWS: Final = "widetable.rows"
FILES: Final = "widetable.files"
RETRIES: Final = "widetable.retries"
OWN_PROPERTIES: Final = frozenset({MAX_SEQUENCE_NUMBER, COMMITS, ROWS, FILES, RETRIES})
MAX_USERS: Final = 1024

Load: TypeAlias = Callable[[int], Snapshot]
Commits: TypeAlias = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Committed:
    """A commit that is already in. snapshot_id: None when only a later one of the same user is remembered."""

    snapshot_id: int | None


def highest_sequence_number(snapshot: Snapshot) -> int | None:
    """The highest sequence number that the table had at `snapshot`; None when whoever committed it did not say."""
    text = snapshot.properties.get(MAX_SEQUENCE_NUMBER)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as cause:
        raise _damaged(snapshot, MAX_SEQUENCE_NUMBER, text, "a decimal number") from cause


class CommitHistory:
    """Whether one user's commit is in; asked again on every attempt, each time only about what is new."""

    def __init__(self, load: Load, user: str, identifier: int) -> None:
        self._load = load
        self._user = user
        self._identifier = identifier
        self._absent_up_to = 0

    def find(self, latest: Snapshot | None) -> Committed | None:
        """The commit of (user, identifier) as of `latest`, None when it is not in.

        Identifiers of a user only grow: a lower one is in.
        """
        if latest is None or self._identifier == BATCH_COMMIT_IDENTIFIER:
            return None
        known = commits_of(latest, self._load)
        last = known.get(self._user)
        if last is None and len(known) >= MAX_USERS:
            last = self._walk(latest)
        if last is None or self._identifier > last[0]:
            return None
        return Committed(last[1] if last[0] == self._identifier else None)

    def _walk(self, latest: Snapshot) -> tuple[int, int] | None:
        """As Paimon does: back to the newest snapshot of that user. Only for a user that a full list does not name."""
        snapshot: Snapshot | None = latest
        while snapshot is not None and snapshot.id > self._absent_up_to:
            if snapshot.commit_user == self._user and _counts(snapshot):
                return snapshot.commit_identifier, snapshot.id
            snapshot = _before(snapshot, self._load)
        self._absent_up_to = latest.id
        return None


def commits_of(snapshot: Snapshot | None, load: Load) -> Commits:
    """User -> (last identifier, snapshot id) as of `snapshot`, the longest silent user first.

    Snapshots of other clients lack the property: they are passed, back to one that has it, and their users are added.
    """
    passed: list[Snapshot] = []
    while snapshot is not None and COMMITS not in snapshot.properties:
        passed.append(snapshot)
        snapshot = _before(snapshot, load)
    commits = {} if snapshot is None else _parse(snapshot)
    for each in reversed(passed):
        if _counts(each):
            _note(commits, each.commit_user, each.commit_identifier, each.id)
    return commits


def next_properties(
    commits: Mapping[str, tuple[int, int]],
    max_sequence_number: int,
    committed: tuple[str, int, int] | None,
) -> dict[str, str]:
    """The two remembered properties of the next snapshot.

    committed: (user, identifier, snapshot id) of the commit that it holds.
    """
    after = dict(commits)
    if committed is not None and committed[1] != BATCH_COMMIT_IDENTIFIER:
        _note(after, *committed)
    return {
        MAX_SEQUENCE_NUMBER: str(max_sequence_number),
        COMMITS: json.dumps(after, separators=(",", ":"), ensure_ascii=False),
    }


def _note(commits: Commits, user: str, identifier: int, snapshot_id: int) -> None:
    """The user moves to the end; when there are too many, the first leave."""
    before = commits.pop(user, None)
    if before is not None and before[0] > identifier:
        commits[user] = before
        return
    commits[user] = (identifier, snapshot_id)
    while len(commits) > MAX_USERS:
        del commits[next(iter(commits))]


def _counts(snapshot: Snapshot) -> bool:
    streamed = snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER
    return streamed and snapshot.commit_kind in (COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE)


def _before(snapshot: Snapshot, load: Load) -> Snapshot | None:
    try:
        return load(snapshot.id - 1) if snapshot.id > 1 else None
    except NotFoundError:  # expired
        return None


def _parse(snapshot: Snapshot) -> Commits:
    text = snapshot.properties[COMMITS]
    try:
        body = json.loads(text)
        commits = {user: (identifier, id) for user, (identifier, id) in body.items()}
    except (ValueError, TypeError, AttributeError) as cause:
        raise _damaged(snapshot, COMMITS, text, "user -> [identifier, snapshot id]") from cause
    if not all(type(part) is int for pair in commits.values() for part in pair):
        raise _damaged(snapshot, COMMITS, text, "user -> [identifier, snapshot id]")
    return commits


def _damaged(snapshot: Snapshot, key: str, text: str, expected: str) -> DamagedError:
    return DamagedError(
        f"property {key!r} of snapshot {snapshot.id}",
        found=repr(text[:100]),
        expected=expected,
        action="Restore the snapshot file, or go back to an older snapshot.",
    )
