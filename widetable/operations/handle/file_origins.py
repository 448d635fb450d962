"""Finds the commits that wrote the rows of a data file, as far as snapshots are kept.

A file that a commit added has the rows of that commit. A file that a compaction wrote has the rows of the bucket's
files that the same snapshot removed, and of those that waited for a bucket in its partition. A file that a rollback
restored has the rows of the file that it is a copy of. The search begins at the oldest kept snapshot: the commits of
files that were live before it are unknown. Raises StorageError; a snapshot whose manifests cannot be read hides the
commits before it.

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
from widetable.storage.paths import POSTPONED


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
    """The commits that wrote rows of a file.

    commits: in ascending order. is_complete: False when there are others that have expired. made_in: the snapshot
    that added the file; None where that has expired.
    """

    commits: tuple[WritingCommit, ...] = ()
    is_complete: bool = False
    made_in: int | None = None


def origins(committer: Committer) -> Mapping[str, Origin]:
    """Return the origin of each file, by name, that a kept snapshot added."""
    by_name: dict[str, Origin] = {}
    copied: dict[_Content, Origin] = {}
    for id in committer.snapshots.ids():
        with contextlib.suppress(DamagedError, NotFoundError):
            snapshot = committer.snapshots.load(id)
            _follow(by_name, copied, snapshot, committer.live_files.delta_entries(snapshot))
    return by_name


class _Content(NamedTuple):
    """Properties that a copy shares with its original file, and that two other files never share.

    An overwrite by Java may restart sequence numbers, but never with an earlier creation time.
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
    by_name: dict[str, Origin],
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
            by_name[name] = copied[content]  # a rollback restored it under a new name
            continue
        if snapshot.commit_kind != COMMIT_KIND_COMPACT:
            is_own = entry.file.level == 0  # else it is a copy of an unknown file
            by_name[name] = Origin((own,) if is_own else (), is_own, snapshot.id)
            copied[content] = by_name[name]
            continue
        # Rows whose bucket was postponed come from files without a bucket.
        waited = gone[BucketId(entry.partition, POSTPONED)]
        of_inputs = [by_name.get(input, Origin()) for input in inputs | waited]
        commits = {commit for origin in of_inputs for commit in origin.commits}
        ordered = sorted(commits, key=lambda commit: commit.snapshot_id)
        is_complete = all(origin.is_complete for origin in of_inputs)
        by_name[name] = copied[content] = Origin(tuple(ordered), is_complete, snapshot.id)
