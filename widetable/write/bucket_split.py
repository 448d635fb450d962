"""Splits the rows of a batch by partition and bucket, column-wise.

In: a row batch; out: one part per bucket that occurs, rows in their order, each with its own memory (so that spilling a
bucket frees it). Raises what bucket ids and BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.binary_row import EMPTY_ROW
from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.kernels.array_types import Positions
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import POSTPONED
from widetable.write.partition_rows import partition_numbers, partition_of, rows_by_partition
from widetable.write.places import Places

# More than a partition can have.
_MAX_BUCKETS: Final = 1 << 31


def split_by_bucket(
    row_batch: pa.RecordBatch, schema: TableSchema, places: Places | None = None
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """Yield (bucket, its rows) for each bucket of the batch. places: assigns the buckets if the table's number of
    buckets does not determine them.

    Rows of a bucket stay in arrival order. Each part is a copy, unless the batch has only one bucket: then it is the
    batch itself.
    """
    if places is None and not schema.partition_keys and schema.has_free_rows:
        yield BucketId(EMPTY_ROW, 0), row_batch
        return
    for bucket, rows in rows_by_bucket(row_batch, schema, places):
        is_whole = len(rows) == row_batch.num_rows
        yield bucket, row_batch if is_whole else row_batch.take(pa.array(rows))


def rows_by_bucket(
    row_batch: pa.RecordBatch, schema: TableSchema, places: Places | None = None
) -> Iterator[tuple[BucketId, Positions]]:
    """Yield (bucket, the numbers of its rows, ascending) for each bucket of the batch. places: as in `split_by_bucket`.
    Without them, rows whose bucket is postponed are all in one.

    Partitions and buckets are sorted as one number, partition * 2^31 + bucket.
    """
    if not row_batch.num_rows:
        return
    if places is None and schema.postpones_buckets:
        for partition, rows in rows_by_partition(row_batch, schema):
            yield BucketId(partition, POSTPONED), rows
        return
    groups = bucket_numbers(row_batch, schema, places.assign if places else None)
    # numpy sorts numbers of 16 bits by radix.
    is_small = groups.max() < 1 << 15
    order = np.argsort(groups.astype(np.int16) if is_small else groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        yield bucket_of(row_batch, int(rows[0]), groups, schema), rows


def bucket_numbers(
    row_batch: pa.RecordBatch,
    schema: TableSchema,
    assign: Callable[[pa.RecordBatch], npt.NDArray[np.int32]] | None = None,
) -> npt.NDArray[np.int64]:
    """Number the buckets of the rows from 0, equally for one bucket of one partition; valid in this batch only.

    assign: `Places.assign` or `Places.find`, whose -1 remains. None: the table's number of buckets determines them.
    """
    buckets = bucket_ids(row_batch, schema) if assign is None else assign(row_batch)
    groups = buckets.astype(np.int64)
    if schema.partition_keys:
        groups += partition_numbers(row_batch, schema) * _MAX_BUCKETS
    return groups if assign is None else np.where(buckets < 0, -1, groups)


def bucket_of(
    row_batch: pa.RecordBatch, row: int, numbers: npt.NDArray[np.int64], schema: TableSchema
) -> BucketId:
    """Return the bucket of one row. numbers: the result of `bucket_numbers` for the batch."""
    partition = partition_of(row_batch, row, schema)
    return BucketId(partition, int(numbers[row] % _MAX_BUCKETS))
