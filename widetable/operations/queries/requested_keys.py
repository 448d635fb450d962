"""Sorts the keys of a lookup by bucket and key, each once.

    given     7  3  null  7  5                  buckets: A has 3 and 7, B has 5
    keys      3  7 | 5                          A | B
    places    1  0   -1   1  2                  which of `keys` each given one is

One sort does all: by (number of the bucket, key), where keys without a bucket have -1, come first and are cut off.
Groups of equal lanes are the keys, changes of the number are the buckets. The keys above, with two buckets:

    numbers  1 1 1 0        of 7 3 7 5, the null left out         order     5 | 3 7 7
    keys     5 3 7          starts 0 1 3                          places    2 1 -1 2 0

In: key rows (lookup_keys), whole keys or leading columns with all of the bucket key. Out: see RequestedKeys. Pure,
except for `places`. Raises what bucket ids raise.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.kernels.key_lanes import key_lanes
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.schema.table_schema import TableSchema
from widetable.write.bucket_split import bucket_numbers, bucket_of
from widetable.write.places import Places

Numbers: TypeAlias = npt.NDArray[np.int64]


class RequestedKeys(NamedTuple):
    """The requested keys by bucket.

    keys: key batch (lsm.file_rows) of each bucket, one after the other. buckets[i] has keys starts[i] : starts[i +
    1]. places int64[n]: the place of each given key, -1 for one that no row can have.

    No row can have a key with a null, nor one of a partition or bucket that the snapshot lacks according to
    `places`. Keys of a bucket ascend and are distinct, as `BucketRows.find` wants them; they lack the partition
    columns, which the bucket has. starts has one entry more than buckets, and only 0 without keys.
    """

    keys: pa.RecordBatch
    buckets: tuple[BucketId, ...]
    starts: Numbers
    places: Numbers


def request_keys(
    given: pa.RecordBatch, schema: TableSchema, places: Places | None = None
) -> RequestedKeys:
    """Sort the given keys by bucket and key. places: finds buckets where the schema alone cannot.

    given: columns of the table's types in any order, partition columns among them; missing columns at the end of the
    key make prefixes, which must have all of the bucket key (`lookup_keys.prefix_rows` checks it).
    """
    numbers = _without_nulls(given)
    rows = given if len(numbers) == given.num_rows else given.take(pa.array(numbers))
    # -1 for keys without a bucket, else ordered by partition, in the order of this batch, then by bucket.
    bucketed = bucket_numbers(rows, schema, places.find if places else None)
    columns = given.schema.names
    names = [name for name in schema.trimmed_primary_key if name in columns]
    lanes = key_lanes([pa.array(bucketed), *(rows.column(name) for name in names)])
    order = sort_order(lanes, np.zeros(len(lanes), np.int64))
    order = order[bucketed[order].searchsorted(0) :]  # keys without a bucket come first
    starts = group_starts(lanes, order)
    firsts = order[starts[:-1]]
    which = np.arange(len(firsts))
    # Most calls have each key once, and nothing is repeated.
    if len(firsts) < len(order):
        which = which.repeat(np.diff(starts))
    positions = np.full(given.num_rows, -1, np.int64)
    positions[numbers[order]] = which
    # The places where the bucket changes along the keys; empty without keys, so that starts is [0].
    numbers_of_keys = bucketed[firsts]
    cuts = (
        np.append(0, (numbers_of_keys[1:] != numbers_of_keys[:-1]).nonzero()[0] + 1)
        if len(numbers_of_keys)
        else firsts
    )
    return RequestedKeys(
        rows.select(names).take(pa.array(firsts)),
        tuple(bucket_of(rows, row, bucketed, schema) for row in firsts[cuts].tolist()),
        np.append(cuts, len(firsts)),
        positions,
    )


def _without_nulls(given: pa.RecordBatch) -> Numbers:
    """Return the positions of the keys that have all columns."""
    present = np.ones(given.num_rows, np.bool_)
    for column in given.columns:
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    return present.nonzero()[0]
