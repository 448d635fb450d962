"""In which buckets of a partition keys are, at a snapshot: by the number of buckets that the partition was made with,
or by the indexes of dynamic buckets. The one place that knows all three ways.

    the table's schema, its history    the bucket of a key
    bucket = n, never rescaled         hash of the bucket key modulo n: None, nothing to look up
    bucket = n, rescaled once          modulo the number of its partition, as a live file says it
    bucket = -1 (dynamic)              what the partition's index has for the hash of the key

In: a chosen snapshot. Out: None where the table's own number holds everywhere, else a function (asked_keys). Raises
what reading manifests and indexes raises.
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
    """Of one snapshot; what was loaded of a partition is kept.

    So it is as good as its snapshot, and is made anew with the next one. Not thread-safe where
    buckets are dynamic. An index takes 8 bytes a key at least in memory, for each partition asked.
    """
    if chosen.state.schema.num_buckets < 1:
        return _dynamic(chosen, live_files)
    return _by_count(chosen, live_files) if chosen.is_rescaled else None


def _by_count(chosen: ChosenState, live_files: LiveFiles) -> BucketsIn:
    schema = chosen.state.schema

    def buckets_in(partition: bytes, keys: pa.RecordBatch) -> Numbers | None:
        count = live_files.bucket_count(chosen.snapshot, partition)
        # A partition without live files: no row has the key.
        if count is None:
            return None
        return bucket_ids(keys, with_buckets(schema, count)).astype(np.int64)

    return buckets_in


def _dynamic(chosen: ChosenState, live_files: LiveFiles) -> BucketsIn:
    state, known = chosen.state, dict[bytes, PartitionBuckets]()
    indexes = HashIndexes(state.file_io, state.paths)

    def buckets_in(partition: bytes, keys: pa.RecordBatch) -> Numbers | None:
        if partition not in known:
            found = partition_buckets(state, live_files, indexes, chosen.snapshot, partition)
            known[partition] = found
        return known[partition].find(key_hashes(keys, state.schema)).astype(np.int64)

    return buckets_in
