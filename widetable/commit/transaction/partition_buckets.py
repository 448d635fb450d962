"""Finds the buckets of rows by what a snapshot says about their partitions: one table for writers and for lookups.

    buckets of the table     ever rescaled     the bucket of a row                          reads
    fixed                    no                hash modulo the number of the schema: None   nothing
    fixed                    yes               hash modulo the number of its partition      a live file says the number
    dynamic                  -                 the one that has the hash of its key         the partition's indexes
    postponed                -                 hash modulo the number of its partition      a live file in a bucket

A lookup reads its snapshot. A writer reads the newest one when a partition is first written to, and places keys that
no index has. The commit detects that a partition was rescaled later (`rebucketed_commit`). If another writer gave a
bucket to the same new key, the later commit is a conflict (0032).

The hashes of a dynamic bucket come from its index file, or from its data files without any; the commit of a writer
then writes the missing index. Raises UnsupportedError for a partition with a fixed number of buckets where buckets are
dynamic, and the errors of reading files.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from widetable.commit.snapshots.hash_indexes import HashIndexes
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.touched_keys import key_batches
from widetable.errors import UnsupportedError
from widetable.format.bucket_hash import key_hashes
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.schema import options as opt
from widetable.write.dynamic_buckets import DynamicBuckets, PartitionBuckets
from widetable.write.places import CountedBuckets, Places
from widetable.write.table_state import TableState

_DYNAMIC = -1


def places_of(
    state: TableState,
    live_files: LiveFiles,
    indexes: HashIndexes,
    snapshot: Callable[[], Snapshot | None],
    is_rescaled: Callable[[], bool],
) -> Places | None:
    """Return how the buckets of rows are determined; None if the schema's number of buckets suffices.

    snapshot: returns the snapshot to read, None for an empty table.
    """

    def count(partition: bytes) -> int | None:
        return live_files.bucket_count(snapshot(), partition)

    def load(partition: bytes) -> PartitionBuckets:
        return _partition_buckets(state, live_files, indexes, snapshot(), partition)

    if state.schema.num_buckets == _DYNAMIC:
        return DynamicBuckets(state.schema, load)
    if state.schema.postpones_buckets or is_rescaled():
        return CountedBuckets(state.schema, count)
    return None


def _partition_buckets(
    state: TableState,
    live_files: LiveFiles,
    indexes: HashIndexes,
    snapshot: Snapshot | None,
    partition: bytes,
) -> PartitionBuckets:
    """Return the dynamic buckets of a partition.

    Reads each index file, 4 bytes a key, and for buckets without one the keys of all data files.
    """
    indexed = indexes.of_partition(live_files.index(snapshot), partition)
    live = by_bucket(live_files.live_entries(snapshot, frozenset([partition])))
    missing: dict[int, Hashes] = {}
    for bucket, entries in live.items():
        _check_dynamic(entries[0])
        if bucket.number not in indexed:
            missing[bucket.number] = hashes_of_files(state, bucket, entries)
    return PartitionBuckets({**indexed, **missing}, missing, state.options)


def hashes_of_files(state: TableState, bucket: BucketId, entries: list[ManifestEntry]) -> Hashes:
    """Return the hashes of all keys in data files of a bucket, distinct and ascending; also of deleted keys."""
    hashes = [
        np.unique(key_hashes(batch, state.schema))
        for entry in entries
        for batch in key_batches(state, bucket, entry.file)
    ]
    return np.unique(np.concatenate(hashes)) if hashes else np.empty(0, np.int32)


def _check_dynamic(entry: ManifestEntry) -> None:
    """Refuse files of a fixed number of buckets. A table that we wrote before the option was stored has one bucket,
    whatever its schema says.
    """
    if entry.total_buckets != _DYNAMIC:
        raise UnsupportedError(
            f"option {opt.BUCKET.key!r}",
            found=f"dynamic buckets, and files of a partition with {entry.total_buckets}",
            expected="files of dynamic buckets",
            action="If widetable alone wrote the table, before it noted this option: "
            "Catalog.alter_table(name, set_options={'bucket': '1'}). Else write with another client.",
        )
