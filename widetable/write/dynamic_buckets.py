"""Assigns keys to dynamic buckets: the bucket that has the key, or else one with room, or else a new one.

In: the hashes of each bucket of a partition. Out: buckets of rows, and the new hashes of each. Two keys with one hash
share a bucket. Not thread-safe. Source: Paimon `PartitionIndex`, `HashBucketAssigner`.

Raises InvalidError if 32,767 buckets are not enough.

A partition whose bucket 0 has the hashes 3 and 9, with room for 4 keys in a bucket:

    assign 9 50 60 50 70 80    ->    0 0 0 0 1 1        9 has a bucket; 50 and 60 fill bucket 0; then bucket 1
    new_hashes                 ->    0: 50 60    1: 70 80
    find 3 50                  ->    0 -1               50 is in no index yet

Memory: 8 bytes a key of the partition, for hash and bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import InvalidError
from widetable.format.bucket_hash import key_hashes
from widetable.format.bucket_id import MAX_DYNAMIC_BUCKETS, BucketId
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import rows_by_partition

Buckets: TypeAlias = npt.NDArray[np.int32]
_NO_HASHES: Final = np.empty(0, np.int32)


class PartitionBuckets:
    """The buckets of one partition. indexed: the ascending hashes of each bucket; missing: those of them that no index
    file has.

    There is one per partition and writer. It remembers the keys that it placed, so a key that comes
    again in the same commit gets its bucket. Keys that other writers place meanwhile are detected when
    the commit is made (docs/decisions/0032).
    """

    def __init__(
        self,
        indexed: Mapping[int, Hashes],
        missing: Mapping[int, Hashes],
        options: TableOptions,
    ) -> None:
        self._target_rows = options.get(opt.DYNAMIC_BUCKET_TARGET_ROWS)
        most = options.get(opt.DYNAMIC_BUCKET_MAX_BUCKETS)
        self._most = MAX_DYNAMIC_BUCKETS if most < 0 else most
        self._rows = {bucket: len(hashes) for bucket, hashes in sorted(indexed.items())}
        self._new = {bucket: [hashes] for bucket, hashes in missing.items() if len(hashes)}
        hashes = np.concatenate([_NO_HASHES, *indexed.values()])
        buckets = np.repeat(np.array(list(indexed), np.int32), [len(h) for h in indexed.values()])
        self._indexed = _Index(hashes, buckets)
        self._added = _Index(_NO_HASHES, _NO_HASHES)

    def assign(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each key; keys without a bucket are placed, in their order."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = self._indexed.find(distinct)
        buckets = np.where(buckets < 0, self._added.find(distinct), buckets)
        new = np.flatnonzero(buckets < 0)
        new = new[np.argsort(first[new])]
        buckets[new] = self._place(len(new))
        for bucket in np.unique(buckets[new]).tolist():
            self._new.setdefault(bucket, []).append(distinct[new[buckets[new] == bucket]])
        self._added = self._added.plus(distinct[new], buckets[new])
        assigned: Buckets = buckets[inverse.reshape(-1)].astype(np.int32)
        return assigned

    def find(self, hashes: Hashes) -> Buckets:
        """Return the bucket of each key without placing any: -1 for keys without a bucket."""
        return self._indexed.find(hashes)

    def new_hashes(self) -> dict[int, Hashes]:
        """Return, by bucket, the hashes that no index file has."""
        return {bucket: np.unique(np.concatenate(parts)) for bucket, parts in self._new.items()}

    def _place(self, count: int) -> Buckets:
        """Return buckets for a number of new keys: buckets with room are filled, in their order, then new ones.

        If `dynamic-bucket.max-buckets` are full, the rest is distributed over all of them in turn, whatever
        they hold; the next call continues with the next bucket. Paimon takes one at random. Without that
        option the limit is Paimon's largest bucket number; beyond it InvalidError is raised.
        """
        counts: dict[int, int] = {}
        left = count
        unused = (bucket for bucket in range(self._most) if bucket not in self._rows)
        for bucket in chain(self._rows, unused):
            if not left:
                break
            counts[bucket] = min(left, max(0, self._target_rows - self._rows.get(bucket, 0)))
            left -= counts[bucket]
        if left and self._most == MAX_DYNAMIC_BUCKETS:
            raise InvalidError(
                f"option {opt.DYNAMIC_BUCKET_TARGET_ROWS.key!r}",
                found=f"{counted(self._target_rows, 'key')} per bucket, and {self._most} full buckets",
                expected="room for all keys of a partition",
                action="Set it higher.",
            )
        buckets = np.array(list(counts), np.int32)
        placed = np.repeat(buckets, list(counts.values()))
        if left:
            keys_before = sum(self._rows.values()) + len(placed)
            placed = np.append(placed, np.resize(np.roll(buckets, -keys_before), left))
        for bucket, rows in zip(*np.unique(placed, return_counts=True), strict=True):
            self._rows[int(bucket)] = self._rows.get(int(bucket), 0) + int(rows)
        return placed


class _Index:
    """Hashes with their buckets.

    They are sorted by hash, so that one search finds many. `plus` sorts again: it is called once per
    batch with new keys, for the added ones only, while the index of the snapshot does not change.
    """

    def __init__(self, hashes: Hashes, buckets: Buckets) -> None:
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._buckets = hashes[order], buckets[order]

    def find(self, hashes: Hashes) -> Buckets:
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int32)
        at = np.searchsorted(self._hashes, hashes)
        at[at == len(self._hashes)] = 0
        return np.where(self._hashes[at] == hashes, self._buckets[at], np.int32(-1))

    def plus(self, hashes: Hashes, buckets: Buckets) -> _Index:
        if not len(hashes):
            return self
        return _Index(
            np.append(self._hashes, hashes), np.append(self._buckets, buckets).astype(np.int32)
        )


class DynamicBuckets:
    """The dynamic buckets of one writer or lookup. load: returns those of a partition at its first use.

    They take at least 8 bytes a key in memory, for each partition that is used.
    """

    def __init__(self, schema: TableSchema, load: Callable[[bytes], PartitionBuckets]) -> None:
        self._schema = schema
        self._load = load
        self._partitions: dict[bytes, PartitionBuckets] = {}

    def find(self, row_batch: pa.RecordBatch) -> Buckets:
        """Return the bucket of each row, int32[n]; -1 for keys that no index has."""
        return self._by_hash(row_batch, PartitionBuckets.find)

    def assign(self, row_batch: pa.RecordBatch) -> Buckets:
        """Return the bucket of each row, int32[n]."""
        return self._by_hash(row_batch, PartitionBuckets.assign)

    def _by_hash(
        self, row_batch: pa.RecordBatch, of_partition: Callable[[PartitionBuckets, Hashes], Buckets]
    ) -> Buckets:
        hashes = key_hashes(row_batch, self._schema)
        buckets = np.empty(len(hashes), np.int32)
        for partition, rows in rows_by_partition(row_batch, self._schema):
            if partition not in self._partitions:
                self._partitions[partition] = self._load(partition)
            buckets[rows] = of_partition(self._partitions[partition], hashes[rows])
        return buckets

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Yield the new hashes of all buckets that have some."""
        for partition, buckets in self._partitions.items():
            for bucket, hashes in buckets.new_hashes().items():
                yield BucketId(partition, bucket), hashes

    def total_buckets(self, partition: bytes) -> int:
        """Return -1: the buckets are dynamic."""
        return self._schema.num_buckets
