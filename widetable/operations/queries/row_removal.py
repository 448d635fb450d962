"""Removes rows from the data files themselves: every record of their keys, whatever its kind and level.

    live files of a snapshot     those with such a key     ─► the same file without it     ┐
                                 others                    ─► stay as they are             ┴─► one OVERWRITE

It works with every merge engine, as no record has to delete the row. The remaining records keep their levels, kinds and
numbers, so they are merged as before. Nothing of the keys is remembered: any later record, even a late one, begins a
new row. Readers of changes do not see it, as with any overwrite. If one of the keys is written or a file is compacted
meanwhile, the commit is a conflict; its files are removed then, and nothing is changed.

In: the keys, and the snapshot at which they were found. Out: the result of the commit. Raises ConflictError,
NotFoundError for a snapshot that has expired, and what reading and writing data files raises. Memory: the keys, and a
batch of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.touched_keys import (
    key_batches,
    sorted_keys,
    touched_among,
    touched_files,
)
from widetable.errors import ConflictError
from widetable.format.bucket_id import by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE, Snapshot
from widetable.kernels.key_match import match_keys
from widetable.lsm.key_bounds import bounds_of_files
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.rewrite_commit import commit_rewrite
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.partition_rows import rows_by_partition
from widetable.write.rolling_writer import RollingWriter
from widetable.write.table_state import TableState

# The keys of each partition, as key batches (lsm.file_rows).
_Keys = Mapping[bytes, pa.RecordBatch]


def remove_rows(
    table: OpenTable, batches: Iterable[pa.RecordBatch], by: Identity, snapshot_id: int
) -> CommitResult:
    """Remove the keys of these rows from the table.

    batches: have the primary key, as of the snapshot; `rows` of the result is their number.
    """
    committer, state = table._committer, table._state()
    with held(state, snapshot_id):
        keys = _by_partition(state.schema, batches)
        if not keys:
            return CommitResult(committed=False, snapshot_id=None, kind=COMMIT_KIND_OVERWRITE)
        live = committer.live_files.live_entries(
            committer.snapshots.load(snapshot_id), frozenset(keys)
        )
        messages = _messages(state, live, keys)
        commit = _Removal(state, committer.live_files, keys, messages, snapshot_id)
        rows = sum(each.num_rows for each in keys.values())
        return commit_rewrite(committer, state, messages, by, rows, commit.behind)


@dataclass
class _Removal:
    """The messages of one commit, valid while no one writes its keys. known_id: the last snapshot that was checked."""

    state: TableState
    live_files: LiveFiles
    keys: _Keys
    messages: list[CommitMessage]
    known_id: int

    def behind(self, latest: Snapshot | None) -> list[CommitMessage]:
        """Return the messages. Raises ConflictError when a snapshot since then has one of the keys."""
        latest_id = self.known_id if latest is None else latest.id
        written = touched_files(self.state, self.live_files, self.known_id, latest_id)
        for bucket, files in written.items():
            keys = self.keys.get(bucket.partition)
            if keys is not None and len(touched_among(self.state, keys, {bucket: files})):
                raise ConflictError(
                    self.state.paths.root,
                    found="rows to be removed that others wrote meanwhile",
                    expected="rows that no one else writes meanwhile",
                    action="Delete them again.",
                )
        self.known_id = latest_id
        return self.messages


def _by_partition(schema: TableSchema, batches: Iterable[pa.RecordBatch]) -> _Keys:
    names = list(schema.trimmed_primary_key)
    parts: dict[bytes, list[pa.RecordBatch]] = {}
    for batch in batches:
        if batch.num_rows:
            for partition, rows in rows_by_partition(batch, schema):
                parts.setdefault(partition, []).append(batch.select(names).take(pa.array(rows)))
    return {
        partition: sorted_keys(pa.Table.from_batches(part)) for partition, part in parts.items()
    }


def _messages(state: TableState, live: Iterable[ManifestEntry], keys: _Keys) -> list[CommitMessage]:
    """Return a message for each file that has any of the keys."""
    made: list[CommitMessage] = []
    # Rows that wait for a bucket come later: they are in no row that was read.
    placed = (entry for entry in live if entry.bucket != POSTPONED)
    try:
        for bucket, entries in by_bucket(placed).items():
            files = [entry.file for entry in entries]
            for share in bounds_of_files(files, state.schema).shares(keys[bucket.partition]):
                entry = entries[share.place]
                if _has_any(state, entry, share.keys):
                    made.append(_without(state, entry, share.keys))
    except BaseException:
        discard(state, made)
        raise
    return made


def _has_any(state: TableState, entry: ManifestEntry, keys: pa.RecordBatch) -> bool:
    names = keys.schema.names
    return any(
        len(match_keys(keys.columns, batch.select(names).columns)[0])
        for batch in key_batches(state, entry.bucket_id, entry.file)
    )


def _without(state: TableState, entry: ManifestEntry, keys: pa.RecordBatch) -> CommitMessage:
    with state.opened(entry.bucket_id, entry.file) as data:
        writer = RollingWriter.in_place_of(state, entry.bucket_id, entry.file, data.columns)
        new: tuple[DataFileMeta, ...] = writer.write_all(_others(data.batches(), keys))
    return CommitMessage(
        *entry.bucket_id, entry.total_buckets, new_files=new, deleted_files=(entry.file,)
    )


def _others(batches: Iterable[pa.RecordBatch], keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        stays = np.ones(batch.num_rows, np.bool_)
        stays[match_keys(keys.columns, batch.select(keys.schema.names).columns)[1]] = False
        yield batch.filter(pa.array(stays))
