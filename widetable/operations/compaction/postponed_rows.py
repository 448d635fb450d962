"""Brings rows whose bucket was postponed (`bucket` = -2) into buckets: each partition in one commit.

    bucket-postpone    files of writers, in the order of commits  ─┐
                                                                   ├─► COMPACT: they go, files of level 0 come
    bucket-0, -1, ..   the buckets of the partition               ─┘

A partition keeps the number of buckets that it has. Its first rows decide on it: by `postpone.default-bucket-num`, or
by the number or size of these rows. Records get their numbers here, in the order of their commits, so it does not
matter when a compaction runs. The compaction after this one moves them up, and makes the changelog.

If another compactor was faster, its commit has taken the files: the new files are deleted, and what is left is tried
again. A process that dies leaves orphans. Raises what reading and writing data files raises, but for the damage of a
partition, which is reported, so that others go on. Source: Paimon `PostponeUtils`, `PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

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
_log = logging.getLogger("widetable")


@dataclass
class PlacedRows:
    """What was brought into buckets. commits: one for each partition. damage: why partitions were left out."""

    commits: list[CommitResult] = field(default_factory=list)
    damage: list[BucketError] = field(default_factory=list)


def placed_rows(state: TableState, committer: Committer) -> PlacedRows:
    """Bring all postponed rows of the newest snapshot into buckets. The caller holds the lease of compactions."""
    done = PlacedRows()
    if not state.schema.postpones_buckets:
        return done
    _, entries = newest_files(committer)
    for partition in dict.fromkeys(e.partition for e in entries if e.bucket == POSTPONED):
        bucket = BucketId(partition, POSTPONED)
        names = [each.file.file_name for each in entries if each.bucket_id == bucket]
        quarantined = QUARANTINED_BUCKETS.find(state, bucket, names)
        if quarantined is not None:
            done.damage.append(quarantined.error)
            continue
        try:
            commit = _placed_partition(state, committer, partition)
        except (DamagedError, InvalidError) as error:
            if not is_of_bucket(state, error):
                raise
            done.damage.append(QUARANTINED_BUCKETS.note(state, bucket, names, error).error)
            continue
        if commit is not None:
            done.commits.append(commit)
    return done


def _placed_partition(
    state: TableState, committer: Committer, partition: bytes
) -> CommitResult | None:
    """Commit the postponed rows of a partition; None if it has none any more."""
    missed: set[str] = set()
    for attempt in range(_MAX_TRIES):
        _, entries = newest_files(committer, frozenset([partition]))
        waiting = [entry for entry in entries if entry.bucket == POSTPONED]
        if not waiting:
            return None
        files = [(entry.bucket_id, entry.file) for entry in waiting]
        numbers = SequenceAllocator(committer.sequence_base())
        try:
            written = placed_at_last(state, _bucket_count(entries, state.options), files, numbers)
        except NotFoundError as gone:
            if not is_of_bucket(state, gone):
                raise
            if gone.subject in missed:
                raise missing_file(state.paths, gone.subject, "the newest snapshot") from gone
            missed.add(gone.subject)  # else a faster compactor took the file, and it expired
            continue
        try:
            return committer.compact(_messages(waiting, written))
        except ConflictError as lost:
            discard(state, written)
            if attempt == _MAX_TRIES - 1:
                raise
            _log.info("retrying to place postponed rows of %s: %s", state.paths.root, lost)
    return None


def _messages(
    waiting: Sequence[ManifestEntry], written: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Return the messages of a compaction that takes the files of a partition and adds those with the placed rows."""
    before = tuple(entry.file for entry in waiting)
    taken = CommitMessage(*waiting[0].bucket_id, POSTPONED, compact_before=before)
    return [
        taken,
        *(replace(each, new_files=(), compact_after=each.new_files) for each in written),
    ]


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
