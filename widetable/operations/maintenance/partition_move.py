"""Move one partition to other buckets, while others write to it.

    first      all files of a snapshot                       the bulk, while commits continue
    then       level-0 files that were added meanwhile       several rounds, each with fewer files
    last       those of the last moment                      during the commit, so that this machine's writers wait

The files that were read must still be live and unchanged at the commit: a compaction, or another overwrite, makes the
move start again. In: an open table and snapshots of it, which the caller keeps from expiry. Out: the messages of one
overwrite. Raises ConflictError for such changes, and what reading manifests and moving rows raises. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.errors import ConflictError
from widetable.format.manifest_entry import Identity, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.lsm.moved_rows import moved
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.restored_files import removing
from widetable.operations.writes.table_commit import discard
from widetable.write.commit_message import CommitMessage


class PartitionMove:
    """Moves the rows of a partition to `count` buckets.

    Call `follow` as often as useful, `messages` in each attempt of the commit, and `discard` if no further attempt
    follows; after that the object cannot be used.
    """

    def __init__(self, table: OpenTable, partition: bytes, count: int) -> None:
        self._table = table
        self._partition = partition
        self._count = count
        # The files that were read so far, which the commit deletes; and the new files, which are stored already.
        self._read: dict[Identity, ManifestEntry] = {}
        self._made: list[CommitMessage] = []

    def follow(self, latest: Snapshot | None) -> None:
        """Move the files of the snapshot that were not moved yet."""
        live_files = self._table._committer.live_files
        live = live_files.live_entries(latest, frozenset([self._partition]))
        came = [entry for entry in live if entry.identity not in self._read]
        self._check(live, came)
        # The schema is read after the snapshot, so it has all columns of its files.
        state = self._table._state(self._table._committer.schemas.latest())
        self._made += moved(state, self._count, [(e.bucket_id, e.file) for e in came])
        self._read |= {entry.identity: entry for entry in came}

    def messages(self, latest: Snapshot | None) -> list[CommitMessage]:
        """Return the messages of a commit after the snapshot, which delete the files that were read and add new ones.

        Files that were added until then are moved first. So an attempt after a conflict continues where the last one
        ended, and nothing is moved twice.
        """
        self.follow(latest)
        return [*removing(self._read.values()), *self._made]

    def discard(self) -> None:
        """Delete the new files. Call it only if certainly no commit has them."""
        discard(self._table, self._made)
        self._made = []

    def _check(self, live: Iterable[ManifestEntry], came: Iterable[ManifestEntry]) -> None:
        """Raise ConflictError unless the files that were read are live, without more deleted rows, and only records
        were added.

        A new file above level 0 comes from a compaction of files that were read, or of others. Its rows would exist
        twice, or in the wrong order of levels. In the first snapshot any level is right.
        """
        if not self._read:
            return
        now = {entry.identity: entry.file.deleted for entry in live}
        lost = [
            entry.file.file_name
            for identity, entry in self._read.items()
            if identity not in now or now[identity] != entry.file.deleted
        ]
        lost += [entry.file.file_name for entry in came if entry.file.level > 0]
        if lost:
            raise ConflictError(
                self._table.path,
                found=f"files of a partition that was compacted or overwritten meanwhile: {', '.join(lost[:5])}",
                expected="a partition to which others only add records",
                action="Rescale again.",
            )
