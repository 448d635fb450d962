"""The keys of a lookup, each once, by bucket and in key order.

    given     7  3  null  7  5                  buckets: A has 3 and 7, B has 5
    keys      3  7 | 5                          A | B
    places    1  0   -1   1  2                  which of `keys` each given one is

One sort does it all: by (number of the bucket, key), where those of no bucket have -1 and come
first, to be cut off. Groups of equal lanes are the keys, changes of the number are the buckets.
Of the keys above, with two buckets:

    numbers  1 1 1 0        of 7 3 7 5, the null left out         order     5 | 3 7 7
    keys     5 3 7          starts 0 1 3                          places    2 1 -1 2 0

In: key rows (lookup_keys), whole keys or leading columns with all of the bucket key. Out: values, see AskedKeys. Pure,
but for `buckets_in`. Raises what bucket ids raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.schema.table_schema import TableSchema
from widetable.write.bucket_split import MOST_BUCKETS, bucket_numbers, bucket_of
from widetable.write.partition_rows import partition_numbers, partition_of

Numbers: TypeAlias = npt.NDArray[np.int64]
# Of keys in a partition, int64[n] the bucket of each, -1 for none; None: the partition has none.
BucketsIn: TypeAlias = Callable[[bytes, pa.RecordBatch], Numbers | None]


class AskedKeys(NamedTuple):
    """keys: key batch (lsm.file_rows) of each bucket, one after the other. buckets[i] has keys starts[i] :
    starts[i + 1]. places int64[n]: of each given key, -1 for one that no row can have.

    No row can have a key with a null; where `buckets_in` says it, nor one of a partition or
    bucket that the snapshot does not have. Keys of a bucket ascend and are distinct, as
    `BucketRows.find` wants them; the partition columns are left out, for they are the bucket's.
    starts has one entry more than buckets, 0 alone where nothing is asked.
    """

    keys: pa.RecordBatch
    buckets: tuple[BucketId, ...]
    starts: Numbers
    places: Numbers


class _Bucketed(NamedTuple):
    """numbers int64[n]: equal for keys of one bucket, -1 for none; bucket: of the key in a row."""

    numbers: Numbers
    bucket: Callable[[int], BucketId]


def asked_keys(
    given: pa.RecordBatch, schema: TableSchema, buckets_in: BucketsIn | None = None
) -> AskedKeys:
    """buckets_in: where the table's own number of buckets does not say it (bucket_choice).

    given: columns of the table's types in any order, partition columns among them; those that
    are missing at the end of the key make prefixes, which the bucket key must not reach beyond
    (`lookup_keys.prefix_rows` sees to it).
    """
    numbers = _without_nulls(given)
    rows = given if len(numbers) == given.num_rows else given.take(pa.array(numbers))
    bucketed = _bucketed(rows, schema, buckets_in)
    asked = given.schema.names
    names = [name for name in schema.trimmed_primary_key if name in asked]
    lanes = key_lanes([pa.array(bucketed.numbers), *(rows.column(name) for name in names)])
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    order = order[bucketed.numbers[order].searchsorted(0) :]  # those of no bucket come before
    starts = group_starts(lanes, order)
    firsts = order[starts[:-1]]
    which = np.arange(len(firsts))
    # Most calls ask for each key once: nothing to repeat then.
    if len(firsts) < len(order):
        which = which.repeat(np.diff(starts))
    places = np.full(given.num_rows, -1, np.int64)
    places[numbers[order]] = which
    # Where the bucket changes along the keys; none without a key, so that starts is [0] then.
    held = bucketed.numbers[firsts]
    cuts = np.append(0, (held[1:] != held[:-1]).nonzero()[0] + 1) if len(held) else firsts
    return AskedKeys(
        rows.select(names).take(pa.array(firsts)),
        tuple(bucketed.bucket(row) for row in firsts[cuts].tolist()),
        np.append(cuts, len(firsts)),
        places,
    )


def _without_nulls(given: pa.RecordBatch) -> Numbers:
    """Which keys have all columns."""
    present = np.ones(given.num_rows, np.bool_)
    for column in given.columns:
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    return present.nonzero()[0]


def _bucketed(rows: pa.RecordBatch, schema: TableSchema, buckets_in: BucketsIn | None) -> _Bucketed:
    # Each way numbers buckets across partitions: partition * MOST_BUCKETS + bucket. That orders
    # keys by partition as it comes in this batch, then by bucket; the numbers mean nothing
    # outside of this call.
    if buckets_in is None:
        numbers = bucket_numbers(rows, schema)
        return _Bucketed(numbers, lambda row: bucket_of(rows, row, numbers, schema))
    partitions = partition_numbers(rows, schema) if schema.partition_keys else None
    if partitions is None:
        partitions = np.zeros(rows.num_rows, np.int64)
    numbers = np.full(rows.num_rows, -1, np.int64)
    ids: dict[int, bytes] = {}
    for partition in np.unique(partitions).tolist():
        members = np.flatnonzero(partitions == partition)
        ids[partition] = partition_of(rows, int(members[0]), schema)
        found = buckets_in(ids[partition], rows.take(pa.array(members)))
        if found is not None:
            numbers[members] = np.where(found < 0, -1, partition * MOST_BUCKETS + found)

    def bucket(row: int) -> BucketId:
        partition, number = divmod(int(numbers[row]), MOST_BUCKETS)
        return BucketId(ids[partition], number)

    return _Bucketed(numbers, bucket)
