"""Which bucket a key goes to where buckets are dynamic: the one that has it, else one with room, else a new one.

In: the hashes that each bucket of a partition has. Out: buckets of rows, and what is new in each. Two keys of one hash
share a bucket. Not thread-safe. Source: Paimon `PartitionIndex`, `HashBucketAssigner`.

Raises InvalidError where 32,767 buckets are not enough.

A partition whose bucket 0 has the hashes 3 and 9, with room for 4 keys in a bucket:

    assign 9 50 60 50 70 80    ->    0 0 0 0 1 1        known: 9; 50 and 60 fill bucket 0; then bucket 1
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
from widetable.format.bucket_id import MOST_DYNAMIC_BUCKETS, BucketId
from widetable.kernels.bucket_hash import Hashes
from widetable.messages.counted import counted
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import rows_by_partition

Buckets: TypeAlias = npt.NDArray[np.int32]
_NO_HASHES: Final = np.empty(0, np.int32)


class PartitionBuckets:
    """Of one partition. known: by bucket, its hashes, ascending; missing: those of them that no index file has.

    One per partition and writer: it remembers what it placed, so a key that comes again in the
    same commit finds its bucket. What other writers place meanwhile is found when the commit is
    made (docs/decisions/0032).
    """

    def __init__(
        self,
        known: Mapping[int, Hashes],
        missing: Mapping[int, Hashes],
        options: TableOptions,
    ) -> None:
        self._target_rows = options.get(opt.DYNAMIC_BUCKET_TARGET_ROWS)
        asked = options.get(opt.DYNAMIC_BUCKET_MAX_BUCKETS)
        self._most = MOST_DYNAMIC_BUCKETS if asked < 0 else asked
        self._rows = {bucket: len(hashes) for bucket, hashes in sorted(known.items())}
        self._new = {bucket: [hashes] for bucket, hashes in missing.items() if len(hashes)}
        hashes = np.concatenate([_NO_HASHES, *known.values()])
        buckets = np.repeat(np.array(list(known), np.int32), [len(h) for h in known.values()])
        self._known = _Index(hashes, buckets)
        self._added = _Index(_NO_HASHES, _NO_HASHES)

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each key; keys that no bucket has are added, in their order."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        buckets = self._known.find(distinct)
        buckets = np.where(buckets < 0, self._added.find(distinct), buckets)
        new = np.flatnonzero(buckets < 0)
        new = new[np.argsort(first[new])]
        buckets[new] = self._place(len(new))
        for bucket in np.unique(buckets[new]).tolist():
            self._new.setdefault(bucket, []).append(distinct[new[buckets[new] == bucket]])
        self._added = self._added.plus(distinct[new], buckets[new])
        found: Buckets = buckets[inverse.reshape(-1)].astype(np.int32)
        return found

    def find(self, hashes: Hashes) -> Buckets:
        """The same for keys that are only asked for: -1 where no bucket has them."""
        return self._known.find(hashes)

    def new_hashes(self) -> dict[int, Hashes]:
        """By bucket, those that no index file has."""
        return {bucket: np.unique(np.concatenate(parts)) for bucket, parts in self._new.items()}

    def _place(self, count: int) -> Buckets:
        """Buckets for so many new keys: the open ones are filled, in their order, then new ones.

        Where `dynamic-bucket.max-buckets` are full the rest is dealt out over all of them in turn, whatever
        they hold; the next call goes on with the next bucket. Paimon takes one at random. Without that
        option there is no such end but Paimon's largest number of a bucket, which raises.
        """
        found: dict[int, int] = {}
        left = count
        unused = (bucket for bucket in range(self._most) if bucket not in self._rows)
        for bucket in chain(self._rows, unused):
            if not left:
                break
            found[bucket] = min(left, max(0, self._target_rows - self._rows.get(bucket, 0)))
            left -= found[bucket]
        if left and self._most == MOST_DYNAMIC_BUCKETS:
            raise InvalidError(
                f"option {opt.DYNAMIC_BUCKET_TARGET_ROWS.key!r}",
                found=f"{counted(self._target_rows, 'key')} a bucket, of which {self._most} are full",
                expected="room for all keys of a partition",
                action="Set it higher.",
            )
        buckets = np.array(list(found), np.int32)
        placed = np.repeat(buckets, list(found.values()))
        if left:
            keys_before = sum(self._rows.values()) + len(placed)
            placed = np.append(placed, np.resize(np.roll(buckets, -keys_before), left))
        for bucket, rows in zip(*np.unique(placed, return_counts=True), strict=True):
            self._rows[int(bucket)] = self._rows.get(int(bucket), 0) + int(rows)
        return placed


class _Index:
    """Hashes with their buckets.

    Sorted by hash, so that many are found by one search. `plus` sorts anew: it is done once per
    batch that has new keys, of the added ones alone, while the index of the snapshot stays as
    it is.
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
    """Of one writer. load: what a partition has when it is first written to."""

    def __init__(self, schema: TableSchema, load: Callable[[bytes], PartitionBuckets]) -> None:
        self._schema = schema
        self._load = load
        self._partitions: dict[bytes, PartitionBuckets] = {}

    def assign(self, row_batch: pa.RecordBatch) -> Buckets:
        """int32[n]: the bucket of each row."""
        hashes = key_hashes(row_batch, self._schema)
        found = np.empty(len(hashes), np.int32)
        for partition, rows in rows_by_partition(row_batch, self._schema):
            if partition not in self._partitions:
                self._partitions[partition] = self._load(partition)
            found[rows] = self._partitions[partition].assign(hashes[rows])
        return found

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Of all buckets that got some."""
        for partition, buckets in self._partitions.items():
            for bucket, hashes in buckets.new_hashes().items():
                yield BucketId(partition, bucket), hashes

    def total_buckets(self, partition: bytes) -> int:
        """No number: they are dynamic."""
        return self._schema.num_buckets
