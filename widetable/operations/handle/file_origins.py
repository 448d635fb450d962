"""Which commits wrote the rows of a data file, as far as snapshots are kept.

A file that a commit added has its rows; one that a compaction wrote has those of the bucket's files that went in the
same snapshot; one that a rollback brought back has those of the file that it is a copy of. Followed from the oldest
snapshot that is kept: what was live before it was written by commits that nobody knows any more. Raises StorageError; a
snapshot whose manifests cannot be read hides what came before it.

    1 APPEND a    2 APPEND b    3 COMPACT a b -> c    4 APPEND d    5 COMPACT c moves to level 5
    a: 1          b: 2          c: 1 2                d: 4          c: 1 2

    with snapshot 1 expired     c: 2, not complete
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from widetable.commit.transaction.committer import Committer
from widetable.errors import DamagedError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.human_units import time_text
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT, COMMIT_KIND_OVERWRITE, Snapshot


@dataclass(frozen=True)
class WritingCommit:
    """A commit: its snapshot, who made it, and when.

    Attributes
    ----------
    snapshot_id : int
        The snapshot of the commit.
    user : str
        The commit user.
    identifier : int
        The commit identifier.
    time_millis : int
        The time of the snapshot, in epoch milliseconds.
    """

    __module__ = "widetable"

    snapshot_id: int
    user: str
    identifier: int
    time_millis: int

    @staticmethod
    def of(snapshot: Snapshot) -> WritingCommit:
        """Return the commit that made a snapshot.

        Parameters
        ----------
        snapshot : Snapshot
            The snapshot.

        Returns
        -------
        WritingCommit
            The commit.
        """
        who = snapshot.commit_user, snapshot.commit_identifier
        return WritingCommit(snapshot.id, *who, snapshot.time_millis)

    def __str__(self) -> str:
        return f"commit {self.snapshot_id} by {self.user} at {time_text(self.time_millis)}"


@dataclass(frozen=True)
class Origin:
    """commits: that wrote rows of a file, ascending. is_complete: False when there are others, long expired.
    made_in: the snapshot that the file came with; None where it has expired.
    """

    commits: tuple[WritingCommit, ...] = ()
    is_complete: bool = False
    made_in: int | None = None


def origins(committer: Committer) -> Mapping[str, Origin]:
    """File name to origin, of all files that a kept snapshot added."""
    found: dict[str, Origin] = {}
    copied: dict[_Content, Origin] = {}
    for id in committer.snapshots.ids():
        with contextlib.suppress(DamagedError, NotFoundError):
            snapshot = committer.snapshots.load(id)
            _follow(found, copied, snapshot, committer.live_files.delta_entries(snapshot))
    return found


class _Content(NamedTuple):
    """What a copy has in common with its file, and two others have not: an overwrite of Java's may begin anew with
    sequence numbers, but not in the past.
    """

    bucket: BucketId
    sequence_numbers: tuple[int, int]
    keys: tuple[bytes, bytes]
    created_millis: int | None
    rows: int
    bytes: int

    @staticmethod
    def of(entry: ManifestEntry) -> _Content:
        file = entry.file
        numbers = file.min_sequence_number, file.max_sequence_number
        keys = file.min_key, file.max_key
        created = file.creation_time_millis
        return _Content(entry.bucket_id, numbers, keys, created, file.row_count, file.file_size)


def _follow(
    found: dict[str, Origin],
    copied: dict[_Content, Origin],
    snapshot: Snapshot,
    delta: list[ManifestEntry],
) -> None:
    own = WritingCommit.of(snapshot)
    gone: dict[BucketId, set[str]] = defaultdict(set)
    for entry in delta:
        if entry.kind != ADD:
            gone[entry.bucket_id].add(entry.file.file_name)
    for entry in delta:
        name, inputs = entry.file.file_name, gone[entry.bucket_id]
        if entry.kind != ADD or name in inputs:  # moved
            continue
        content = _Content.of(entry)
        if snapshot.commit_kind == COMMIT_KIND_OVERWRITE and content in copied:
            found[name] = copied[content]  # a rollback brings it back under a new name
            continue
        if snapshot.commit_kind != COMMIT_KIND_COMPACT:
            is_own = entry.file.level == 0  # else it is a copy of a file that nobody knows any more
            found[name] = Origin((own,) if is_own else (), is_own, snapshot.id)
            copied[content] = found[name]
            continue
        of_inputs = [found.get(input, Origin()) for input in inputs]
        commits = {commit for origin in of_inputs for commit in origin.commits}
        ordered = sorted(commits, key=lambda commit: commit.snapshot_id)
        is_complete = all(origin.is_complete for origin in of_inputs)
        found[name] = copied[content] = Origin(tuple(ordered), is_complete, snapshot.id)
