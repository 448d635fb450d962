"""One partition on its way to other buckets, while others write to it.

    first      all files of a snapshot                       the bulk, while commits go on
    then       level-0 files that came meanwhile             again and again, each time fewer
    last       those of the very last moment                 in the commit's turn, so that this machine's writers wait

What was moved must be there in the end as it was read: a compaction, or another overwrite, makes it begin anew. In: an
open table and snapshots of it, held by the caller. Out: the messages of one overwrite. Raises ConflictError for that,
and what reading manifests and moving rows raises. Not thread-safe.
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
    """count: of its buckets from now on.
    Call `follow` as often as it pays, `messages` in each attempt of the commit, and `discard`
    when there will be no other; after that the object is spent.
    """

    def __init__(self, table: OpenTable, partition: bytes, count: int) -> None:
        self._table = table
        self._partition = partition
        self._count = count
        # What was read so far, which the commit deletes; and what was made of it, on the storage already.
        self._read: dict[Identity, ManifestEntry] = {}
        self._made: list[CommitMessage] = []

    def follow(self, latest: Snapshot | None) -> None:
        """Move what the snapshot has and was not moved yet."""
        live_files = self._table._committer.live_files
        live = live_files.live_entries(latest, frozenset([self._partition]))
        came = [entry for entry in live if entry.identity not in self._read]
        self._check(live, came)
        # Taken after the snapshot: it knows all columns there.
        state = self._table._state(self._table._committer.schemas.latest())
        self._made += moved(state, self._count, [(e.bucket_id, e.file) for e in came])
        self._read |= {entry.identity: entry for entry in came}

    def messages(self, latest: Snapshot | None) -> list[CommitMessage]:
        """Of a commit behind the snapshot: what was read goes, what was made comes.
        Moves what came until then first, so an attempt that lost the race goes on where it was;
        nothing is moved twice.
        """
        self.follow(latest)
        return [*removing(self._read.values()), *self._made]

    def discard(self) -> None:
        """Delete what was made. Only while no commit of it may be in."""
        discard(self._table, self._made)
        self._made = []

    def _check(self, live: Iterable[ManifestEntry], came: Iterable[ManifestEntry]) -> None:
        """What was read is there, without more deleted rows; and only records came.

        A file above level 0 that is new is what a compaction made, of files that were read, or of
        others: its rows would be there twice, or in the wrong order of levels. In the first
        snapshot any level is right.
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
                expected="only records that are added",
                action="Rescale again.",
            )
