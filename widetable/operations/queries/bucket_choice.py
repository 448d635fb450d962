"""Finds the buckets of keys in a partition at a snapshot: by the number of buckets that the partition was made with,
or by the indexes of dynamic buckets. Only this module knows all three ways.

    the table's schema, its history    the bucket of a key
    bucket = n, never rescaled         hash of the bucket key modulo n: None, nothing to look up
    bucket = n, rescaled once          modulo the number of its partition, as a live file says it
    bucket = -1 (dynamic)              what the partition's index has for the hash of the key

In: a chosen snapshot. Out: None where the table's own number is valid everywhere, else a function (requested_keys).
Raises what reading manifests and indexes raises.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from widetable.commit.snapshots.hash_indexes import HashIndexes
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.partition_buckets import partition_buckets
from widetable.format.bucket_hash import bucket_ids, key_hashes
from widetable.operations.handle.chosen_state import ChosenState
from widetable.operations.queries.requested_keys import BucketsIn, Numbers
from widetable.write.dynamic_buckets import PartitionBuckets
from widetable.write.places import with_buckets


def bucket_choice(chosen: ChosenState, live_files: LiveFiles) -> BucketsIn | None:
    """Return how to find the buckets of keys in one snapshot; what was loaded of a partition is cached.

    It is valid for this snapshot only. It is not thread-safe where buckets are dynamic. An index takes at least 8
    bytes a key in memory, for each partition with requested keys.
    """
    if chosen.state.schema.num_buckets < 1:
        return _dynamic(chosen, live_files)
    return _by_count(chosen, live_files) if chosen.is_rescaled else None


def _by_count(chosen: ChosenState, live_files: LiveFiles) -> BucketsIn:
    schema = chosen.state.schema

    def buckets_in(partition: bytes, keys: pa.RecordBatch) -> Numbers | None:
        count = live_files.bucket_count(chosen.snapshot, partition)
        # The partition has no live files, so no row has the key.
        if count is None:
            return None
        return bucket_ids(keys, with_buckets(schema, count)).astype(np.int64)

    return buckets_in


def _dynamic(chosen: ChosenState, live_files: LiveFiles) -> BucketsIn:
    state, by_partition = chosen.state, dict[bytes, PartitionBuckets]()
    indexes = HashIndexes(state.file_io, state.paths)

    def buckets_in(partition: bytes, keys: pa.RecordBatch) -> Numbers | None:
        if partition not in by_partition:
            buckets = partition_buckets(state, live_files, indexes, chosen.snapshot, partition)
            by_partition[partition] = buckets
        return by_partition[partition].find(key_hashes(keys, state.schema)).astype(np.int64)

    return buckets_in
