"""The keys that a range of snapshots wrote, by the files that its appends and overwrites added or deleted.

In: the snapshots after one up to another one, both kept. Out: files by bucket, and the keys in them. A compaction
touches no key, as it only merges rows; but one that dropped expired rows, or may have, touches all keys that it read.
Our rescaling touches none either: it only moves rows to other buckets, and then a key may be in files of two. This
needs no changelog, and includes the rows at level 0. A key that was written with unchanged values counts as touched.

    a snapshot of the range                             files whose keys it touches
    append or overwrite of any client                   those that it added and deleted; of an overwrite also those in
                                                        which it marks other rows as deleted, as a rollback does
    our rescaling                                       none
    our compaction                                      none; all that it read or wrote if rows had expired, or if it
                                                        brought postponed rows into buckets
    compaction of another client                        none; all if the table's rows can expire, or are postponed

Rows that wait for a bucket are in no row that is read, so the compaction that places them touches their keys, and the
append does not. A commit that was computed from a snapshot is another case (`waiting`): the rows that wait there are
older than its own, and are placed before them.

Raises NotFoundError for a snapshot of the range that has expired, and the errors of reading manifests and data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.snapshots.committed import EXPIRED_ROWS, PLACED_ROWS, RESCALED, ROWS
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction.commit_request import Append
from widetable.errors import ConflictError, InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.snapshot import (
    COMMIT_KIND_ANALYZE,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
)
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.key_match import match_keys
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.lsm.key_bounds import bounds_of_files
from widetable.merge.record_expiry import expires_records
from widetable.messages.counted import counted
from widetable.messages.error_code import ErrorCode
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND
from widetable.storage.paths import POSTPONED
from widetable.write.table_state import TableState

_ROWS_CHANGED: Final = frozenset([EXPIRED_ROWS, PLACED_ROWS])
_POSTPONED: Final = frozenset([POSTPONED])
_SHOW_ALL: Final = "Compact the table, which brings all rows into buckets. "

TouchedFiles: TypeAlias = Mapping[BucketId, Sequence[DataFileMeta]]


def touched_files(
    state: TableState,
    live_files: LiveFiles,
    after_id: int,
    until_id: int,
    but_user: str | None = None,
    *,
    waiting: bool = False,
) -> TouchedFiles:
    """Return the distinct data files whose keys were written by snapshots after `after_id` up to `until_id`.

    but_user: a commit user whose commits are left out. waiting: files of rows that wait for a bucket count, also those
    that waited at `after_id`.
    """
    snapshots = SnapshotStore(state.file_io, state.paths)
    by_bucket: dict[BucketId, dict[str, DataFileMeta]] = {}
    if waiting and state.schema.postpones_buckets and after_id > 0:
        for entry in live_files.live_entries(snapshots.load(after_id), None, _POSTPONED):
            by_bucket.setdefault(entry.bucket_id, {})[entry.file.file_name] = entry.file
    for id in range(after_id + 1, until_id + 1):
        snapshot = snapshots.load(id)
        if snapshot.commit_user == but_user or not touches_rows(snapshot, state):
            continue
        entries = live_files.delta_entries(snapshot)
        if snapshot.commit_kind == COMMIT_KIND_OVERWRITE and id > 1:
            entries = [*entries, *live_files.remarked_entries(snapshots.load(id - 1), snapshot)]
        for entry in entries:
            if waiting or entry.bucket != POSTPONED:
                by_bucket.setdefault(entry.bucket_id, {})[entry.file.file_name] = entry.file
    return {bucket: tuple(files.values()) for bucket, files in by_bucket.items()}


def touches_rows(snapshot: Snapshot, state: TableState) -> bool:
    """Return whether a snapshot may change rows of the table. A compaction does if rows expired or were brought into
    buckets, which ours record.
    """
    if RESCALED in snapshot.properties or snapshot.commit_kind == COMMIT_KIND_ANALYZE:
        return False
    if snapshot.commit_kind != COMMIT_KIND_COMPACT:
        return True
    if ROWS in snapshot.properties:
        return not _ROWS_CHANGED.isdisjoint(snapshot.properties)
    schema = state.schema_of(snapshot.schema_id)
    return expires_records(schema) or schema.postpones_buckets


def touched_groups(state: TableState, touched: TouchedFiles) -> list[TouchedFiles]:
    """Group touched files so that no two groups share a key: by bucket, or by partition if any may be rescaled."""
    if not _is_ever_rescaled(state):
        return [{bucket: files} for bucket, files in touched.items()]
    groups: dict[bytes, dict[BucketId, Sequence[DataFileMeta]]] = {}
    for bucket, files in touched.items():
        groups.setdefault(bucket.partition, {})[bucket] = files
    return list(groups.values())


def _is_ever_rescaled(state: TableState) -> bool:
    return SchemaStore(state.file_io, state.paths).is_rescaled()


def distinct_keys(
    state: TableState, files: TouchedFiles, *, retracted: bool = False
) -> pa.RecordBatch:
    """Return the keys in files of one partition, as a key batch. retracted: only the keys of retractions.

    All keys of the files are in memory at once, so callers pass one group at a time.
    """
    names = list(state.schema.trimmed_primary_key)
    batches = [
        (_retractions(batch) if retracted else batch).select(names)
        for bucket, members in files.items()
        for file in members
        for batch in key_batches(state, bucket, file)
    ]
    return sorted_keys(pa.Table.from_batches(batches, state.schema.arrow_schema(names)))


def sorted_keys(keys: pa.Table) -> pa.RecordBatch:
    """Return a key batch (lsm.file_rows) of these keys: ascending and distinct."""
    keys = keys.combine_chunks()
    lanes = key_lanes(keys.columns)
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    firsts = order[group_starts(lanes, order)[:-1]]
    columns = [column.combine_chunks() for column in keys.take(pa.array(firsts)).columns]
    return pa.RecordBatch.from_arrays(columns, schema=keys.schema)


def touched_near(state: TableState, touched: TouchedFiles, bucket: BucketId) -> TouchedFiles:
    """Return the files that may have keys of a bucket: its own, and its partition's if it may have been rescaled, or if
    its rows may wait for it.
    """
    if touched and (state.schema.postpones_buckets or _is_ever_rescaled(state)):
        return {one: each for one, each in touched.items() if one.partition == bucket.partition}
    return {bucket: touched[bucket]} if bucket in touched else {}


def _retractions(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = batch.column(VALUE_KIND).to_numpy(zero_copy_only=False)
    return batch.filter(pa.array(is_retraction(kinds)))


def touched_among(
    state: TableState, keys: pa.RecordBatch, files: TouchedFiles, *, retracted: bool = False
) -> npt.NDArray[np.int64]:
    """Return the positions of the keys of a key batch that are in files of their partition; retracted: in retractions.

    Only files that may hold one of the keys are read.
    """
    positions = [np.empty(0, np.int64)]
    for bucket, members in files.items():
        if not (keys.num_rows and members):
            continue
        near = list(members)
        if (
            bucket.number != POSTPONED
        ):  # other clients write those unsorted, so the bounds may be wrong
            near = [
                members[share.place]
                for share in bounds_of_files(members, state.schema).shares(keys)
            ]
        if retracted:
            near = [file for file in near if file.delete_row_count != 0]
        if near:
            stored = distinct_keys(state, {bucket: near}, retracted=retracted)
            positions.append(match_keys(keys.columns, stored.columns)[0])
    return np.unique(np.concatenate(positions))


class Untouched:
    """Checks that no other commit wrote the keys of a commit since the snapshot that its rows were computed from.

    Every attempt checks only the snapshots since the last one. For a commit with a barrier only retractions count, as
    its rows do not depend on records of later barriers.
    """

    _checked_id = 0

    def check(
        self, append: Append, state: TableState, live_files: LiveFiles, latest_id: int
    ) -> None:
        """Raise ConflictError if another commit wrote one of the keys, InvalidError if the snapshot does not exist."""
        read_id = append.read_snapshot_id
        if read_id is None:
            return
        if latest_id < read_id:
            raise InvalidError(
                "read_snapshot",
                found=f"{read_id}",
                expected=f"an existing snapshot, up to {latest_id}",
                action="Pass the snapshot that the rows were computed from.",
            )
        after_id = max(read_id, self._checked_id)
        user = append.header.by.user
        files = touched_files(state, live_files, after_id, latest_id, user, waiting=True)
        count, retracted = 0, append.barrier is not None
        for message in append.changes.messages:
            near = touched_near(state, files, message.bucket_id)
            if near and message.new_files:
                ours = distinct_keys(state, {message.bucket_id: message.new_files})
                count += len(touched_among(state, ours, near, retracted=retracted))
        if count:
            waits = state.schema.postpones_buckets
            raise ConflictError(
                state.paths.root,
                found=f"{counted(count, 'key of this commit that was', 'keys of this commit that were')} written after "
                f"snapshot {read_id}{' or waited for a bucket in it' if waits else ''}",
                expected="keys that no other commit wrote since",
                action=f"{_SHOW_ALL if waits else ''}Read the rows again at the newest snapshot, and commit the new "
                "result.",
                code=ErrorCode.KEYS_CHANGED,
            )
        self._checked_id = latest_id


def key_batches(
    state: TableState, bucket: BucketId, file: DataFileMeta
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a file, in file order."""
    with state.opened(bucket, file, ()) as data:
        yield from data.batches()
