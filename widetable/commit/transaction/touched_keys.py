"""Which keys a range of snapshots wrote, by the files that its appends and overwrites added or took away.

In: the snapshots after one up to another one, both kept. Out: files by bucket, and the keys in them. Compactions touch
nothing: they only bring rows together; but one that let rows go because they are too old, or may have, touches all keys
that it read. Nor does a rescaling of ours, which only moves rows to other buckets; then one key may be in files of two.
That needs no changelog, and knows what stands at level 0 too. Keys that were written with the values that they had
count as touched.

    a snapshot of the range                             files whose keys it touches
    append or overwrite, whoever made it                those that it added and took away
    rescaling of ours                                   none
    compaction of ours                                  none; all that it read where rows were too old
    compaction of others                                none; all where the table's rows can be too old

Raises NotFoundError for a snapshot of the range that has expired, and what reading manifests and
data files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.commit.snapshots.committed import EXPIRED_ROWS, RESCALED, ROWS
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.errors import ConflictError, InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.snapshot import COMMIT_KIND_ANALYZE, COMMIT_KIND_COMPACT, Snapshot
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.key_match import match_keys
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.lsm.key_bounds import bounds_of_files
from widetable.merge.record_expiry import expires_records
from widetable.messages.counted import counted
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND
from widetable.write.table_state import TableState

TouchedFiles: TypeAlias = Mapping[BucketId, Sequence[DataFileMeta]]


def touched_files(
    state: TableState,
    live_files: LiveFiles,
    after_id: int,
    until_id: int,
    but_user: str | None = None,
) -> TouchedFiles:
    """The data files whose keys were written by snapshots after one up to another one, each once; without the commits
    of one user.
    """
    snapshots = SnapshotStore(state.file_io, state.paths)
    found: dict[BucketId, dict[str, DataFileMeta]] = {}
    for id in range(after_id + 1, until_id + 1):
        snapshot = snapshots.load(id)
        if snapshot.commit_user == but_user or not touches_rows(snapshot, state):
            continue
        for entry in live_files.delta_entries(snapshot):
            found.setdefault(entry.bucket_id, {})[entry.file.file_name] = entry.file
    return {bucket: tuple(files.values()) for bucket, files in found.items()}


def touches_rows(snapshot: Snapshot, state: TableState) -> bool:
    """Whether the rows of the table may be others behind it. Of a compaction: whether rows went. Only ours say so."""
    if RESCALED in snapshot.properties or snapshot.commit_kind == COMMIT_KIND_ANALYZE:
        return False
    if snapshot.commit_kind != COMMIT_KIND_COMPACT:
        return True
    if ROWS in snapshot.properties:
        return EXPIRED_ROWS in snapshot.properties
    return expires_records(state.schema_of(snapshot.schema_id))


def touched_groups(state: TableState, touched: TouchedFiles) -> list[TouchedFiles]:
    """Touched files so that no two groups share a key: by bucket, and by partition where one may have been rescaled."""
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
    """The keys in files of one partition, as a key batch. retracted: those of retractions alone.

    All keys of the files are in memory, so callers give one group at a time.
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
    """A key batch (lsm.file_rows) of these keys: ascending, each once."""
    keys = keys.combine_chunks()
    lanes = key_lanes(keys.columns)
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    firsts = order[group_starts(lanes, order)[:-1]]
    columns = [column.combine_chunks() for column in keys.take(pa.array(firsts)).columns]
    return pa.RecordBatch.from_arrays(columns, schema=keys.schema)


def touched_near(state: TableState, touched: TouchedFiles, bucket: BucketId) -> TouchedFiles:
    """Those that may have keys of one bucket: its own, and where it may have been rescaled those of its partition."""
    if touched and _is_ever_rescaled(state):
        return {one: each for one, each in touched.items() if one.partition == bucket.partition}
    return {bucket: touched[bucket]} if bucket in touched else {}


def _retractions(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = batch.column(VALUE_KIND).to_numpy(zero_copy_only=False)
    return batch.filter(pa.array(is_retraction(kinds)))


def touched_among(
    state: TableState, keys: pa.RecordBatch, files: TouchedFiles, *, retracted: bool = False
) -> npt.NDArray[np.int64]:
    """Which keys of a key batch are in files of their partition; retracted: in retractions. Only files that may hold
    one of them are read.
    """
    found = [np.empty(0, np.int64)]
    for bucket, members in files.items():
        if not (keys.num_rows and members):
            continue
        bounds = bounds_of_files(members, state.schema)
        near = [members[share.place] for share in bounds.shares(keys)]
        if retracted:
            near = [file for file in near if file.delete_row_count != 0]
        if near:
            there = distinct_keys(state, {bucket: near}, retracted=retracted)
            found.append(match_keys(keys.columns, there.columns)[0])
    return np.unique(np.concatenate(found))


class Untouched:
    """That nobody else wrote the keys of a commit since the snapshot that its rows were made from; asked again on every
    attempt, each time only about what is new. Of rows that are those of a barrier only what takes rows away counts, as
    records of later ones are no news for them.
    """

    def __init__(self, asked: CommitRequest) -> None:
        self._messages = [message for message in asked.messages if message.new_files]
        self._user = asked.by.user
        self._retracted = asked.barrier is not None
        self._read_id = self._known_id = asked.read_snapshot_id or 0

    def check(self, state: TableState, live_files: LiveFiles, latest_id: int) -> None:
        """Raises ConflictError, and InvalidError for a snapshot that is yet to come."""
        if latest_id < self._read_id:
            raise InvalidError(
                "read_snapshot",
                found=f"{self._read_id}",
                expected=f"a snapshot that is there, up to {latest_id}",
                action="Give the snapshot that the rows were made from.",
            )
        files = touched_files(state, live_files, self._known_id, latest_id, self._user)
        count = 0
        for message in self._messages:
            near = touched_near(state, files, message.bucket_id)
            if near:
                ours = distinct_keys(state, {message.bucket_id: message.new_files})
                count += len(touched_among(state, ours, near, retracted=self._retracted))
        if count:
            raise ConflictError(
                state.paths.root,
                found=f"{counted(count, 'key of this commit that was', 'keys of this commit that were')} written after "
                f"snapshot {self._read_id}",
                expected="keys that nobody wrote since",
                action="Read them again at the newest snapshot, and commit what follows from that.",
            )
        self._known_id = latest_id


def key_batches(
    state: TableState, bucket: BucketId, file: DataFileMeta
) -> Iterator[pa.RecordBatch]:
    """The keys of a file, as it has them."""
    with state.opened(bucket, file, ()) as data:
        yield from data.batches()
