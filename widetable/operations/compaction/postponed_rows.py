"""Brings rows whose bucket was postponed (`bucket` = -2) into buckets.

    bucket-postpone    files of writers, in the order of commits  ─┐
                                                                   ├─► COMPACT: they go, files of level 0 come
    bucket-0, -1, ..   the buckets of the partition               ─┘

A partition keeps the number of buckets that it has. Its first rows decide on it: by `postpone.default-bucket-num`, or
by the number or size of these rows. Records get their numbers here, in the order of their commits, so it does not
matter when a compaction runs. The compaction after this one moves them up, and makes the changelog.

Partitions are committed in groups. If another compactor was faster in one of them, its commit has taken the files: the
new files of the group are deleted, and its partitions are tried again, each by itself. A process that dies leaves
orphans. Raises what reading and writing data files raises, but for the damage of a partition, which is reported, so
that others go on. Source: Paimon `PostponeUtils`, `PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.damaged_file import missing_file
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.moved_rows import placed_at_last
from widetable.operations.compaction.quarantined_buckets import (
    QUARANTINED_BUCKETS,
    BucketError,
    is_of_bucket,
)
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState

_MAX_TRIES: Final = 10
# A group is committed when it has so many partitions, or its partitions had files of so many bytes.
_GROUP_PARTITIONS: Final = 256
_GROUP_BYTES: Final = 1 << 30
_log = logging.getLogger("widetable")


@dataclass
class PlacedRows:
    """What was brought into buckets. commits: one for each group of partitions. damage: why some were left out."""

    commits: list[CommitResult] = field(default_factory=list)
    damage: list[BucketError] = field(default_factory=list)


def placed_rows(state: TableState, committer: Committer) -> PlacedRows:
    """Bring all postponed rows of the newest snapshot into buckets. The caller holds the lease of compactions."""
    placing = _Placing(state, committer)
    if state.schema.postpones_buckets:
        for each in _partitions(newest_files(committer)[1]):
            placing.place(each)
        placing.commit_group()
    return placing.done


class _Partition(NamedTuple):
    """A partition with waiting rows. live: all of its files. waiting: those of rows that wait."""

    live: tuple[ManifestEntry, ...]
    waiting: tuple[ManifestEntry, ...]

    @property
    def bucket(self) -> BucketId:
        return self.waiting[0].bucket_id

    @property
    def waiting_bytes(self) -> int:
        return sum(entry.file.file_size for entry in self.waiting)


def _partitions(live: Sequence[ManifestEntry]) -> list[_Partition]:
    members: dict[bytes, list[ManifestEntry]] = {}
    for entry in live:
        members.setdefault(entry.partition, []).append(entry)
    found = (
        _Partition(tuple(each), tuple(entry for entry in each if entry.bucket == POSTPONED))
        for each in members.values()
    )
    return [each for each in found if each.waiting]


@dataclass
class _Placing:
    """Places partitions one after the other. group: partitions whose new files are not committed yet, with these."""

    state: TableState
    committer: Committer
    done: PlacedRows = field(default_factory=PlacedRows)
    group: list[tuple[_Partition, list[CommitMessage]]] = field(default_factory=list)

    def place(self, partition: _Partition) -> None:
        """Write the rows of a partition into its buckets, and commit the group if it is large."""
        names = [entry.file.file_name for entry in partition.waiting]
        quarantined = QUARANTINED_BUCKETS.find(self.state, partition.bucket, names)
        if quarantined is not None:
            self.done.damage.append(quarantined.error)
            return
        with self._without_damage(partition):
            self._write(partition)
        waiting_bytes = sum(each.waiting_bytes for each, _ in self.group)
        if len(self.group) >= _GROUP_PARTITIONS or waiting_bytes >= _GROUP_BYTES:
            self.commit_group()

    def commit_group(self) -> None:
        """Commit what is written. If another compactor was faster, place each partition by itself."""
        # Taken first: after an unknown outcome of the commit no one may delete the files.
        group, self.group = self.group, []
        if not group:
            return
        messages = [each for partition, written in group for each in _messages(partition, written)]
        try:
            self.done.commits.append(self.committer.compact(messages))
        except ConflictError as lost:
            discard(self.state, [each for _, written in group for each in written])
            _log.info("retrying to place postponed rows of %s: %s", self.state.paths.root, lost)
            for partition, _ in group:
                with self._without_damage(partition):
                    self._place_alone(partition.bucket.partition)

    @contextlib.contextmanager
    def _without_damage(self, partition: _Partition) -> Iterator[None]:
        """Note damage of the partition, and go on. After another error the files of the group are deleted."""
        names = [entry.file.file_name for entry in partition.waiting]
        try:
            yield
        except (DamagedError, InvalidError) as error:
            if not is_of_bucket(self.state, error):
                self._discard_group()
                raise
            noted = QUARANTINED_BUCKETS.note(self.state, partition.bucket, names, error)
            self.done.damage.append(noted.error)
        except BaseException:
            self._discard_group()
            raise

    def _write(self, partition: _Partition) -> None:
        try:
            self.group.append((partition, _written(self.state, self.committer, partition)))
        except NotFoundError as gone:
            if not is_of_bucket(self.state, gone):
                raise
            # A faster compactor took the file, and it expired; or it is missing.
            self._place_alone(partition.bucket.partition)

    def _place_alone(self, partition: bytes) -> None:
        """Commit the rows of a partition by itself, if it has any."""
        missed: set[str] = set()
        for tries_left in reversed(range(_MAX_TRIES)):
            waiting = _partitions(newest_files(self.committer, frozenset([partition]))[1])
            if not waiting:
                return
            try:
                written = _written(self.state, self.committer, waiting[0])
            except NotFoundError as gone:
                if gone.subject in missed or not tries_left:
                    named_by = "the newest snapshot"
                    raise missing_file(self.state.paths, gone.subject, named_by) from gone
                missed.add(gone.subject)
                continue
            try:
                self.done.commits.append(self.committer.compact(_messages(waiting[0], written)))
                return
            except ConflictError:
                discard(self.state, written)
                if not tries_left:
                    raise

    def _discard_group(self) -> None:
        group, self.group = self.group, []
        discard(self.state, [each for _, written in group for each in written])


def _written(state: TableState, committer: Committer, partition: _Partition) -> list[CommitMessage]:
    """Write the waiting rows of a partition into files of its buckets."""
    count = _bucket_count(partition.live, state.options)
    files = [(entry.bucket_id, entry.file) for entry in partition.waiting]
    return placed_at_last(state, count, files, SequenceAllocator(committer.sequence_base()))


def _messages(partition: _Partition, written: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Return the messages of a compaction that takes the waiting files and adds those with the placed rows."""
    before = tuple(entry.file for entry in partition.waiting)
    taken = CommitMessage(*partition.bucket, POSTPONED, compact_before=before)
    placed = (replace(each, new_files=(), compact_after=each.new_files) for each in written)
    return [taken, *placed]


def _bucket_count(entries: Sequence[ManifestEntry], options: TableOptions) -> int:
    """Return the number of buckets of a partition, by its live files."""
    present = next((e.total_buckets for e in entries if e.bucket != POSTPONED), None)
    count = present or options.get(opt.POSTPONE_DEFAULT_BUCKET_NUM)
    if count is not None:
        return count
    target_rows = options.get(opt.POSTPONE_TARGET_ROWS)
    if target_rows is not None:
        return max(1, -(-sum(entry.file.row_count for entry in entries) // target_rows))
    size = sum(entry.file.file_size for entry in entries)
    return max(1, -(-size // options.get(opt.POSTPONE_TARGET_SIZE)))
