"""Rows of a batch by partition and bucket, column-wise.

In: a row batch; out: one part per bucket that occurs, rows in their order, each with memory of its own (so that a
bucket that is spilled frees what it held). Raises what bucket ids and BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import partition_numbers, partition_of
from widetable.write.places import Places

# More than a partition can have.
MOST_BUCKETS: Final = 1 << 31


def split_by_bucket(
    row_batch: pa.RecordBatch, schema: TableSchema, places: Places | None = None
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """(bucket, its rows) for each bucket of the batch. A batch of one bucket is handed on as it is. places: where the
    table's number of buckets does not say it alone.

    Partitions and buckets are sorted as one number, partition * 2^31 + bucket, with a stable
    sort: rows of a bucket stay in order of arrival. Each part is a copy, unless the batch has
    one bucket.
    """
    if not row_batch.num_rows:
        return
    groups = bucket_numbers(row_batch, schema, places)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ends = [*starts[1:].tolist(), len(order)]
    for start, end in zip(starts.tolist(), ends, strict=True):
        bucket = bucket_of(row_batch, int(order[start]), groups, schema)
        whole = len(starts) == 1
        yield bucket, row_batch if whole else row_batch.take(pa.array(order[start:end]))


def bucket_numbers(
    row_batch: pa.RecordBatch, schema: TableSchema, places: Places | None = None
) -> npt.NDArray[np.int64]:
    """Equal numbers, from 0, for rows of one bucket of one partition; comparable in this batch only."""
    found = bucket_ids(row_batch, schema) if places is None else places.assign(row_batch)
    groups = found.astype(np.int64)
    if schema.partition_keys:
        groups += partition_numbers(row_batch, schema) * MOST_BUCKETS
    return groups


def bucket_of(
    row_batch: pa.RecordBatch, row: int, numbers: npt.NDArray[np.int64], schema: TableSchema
) -> BucketId:
    """The bucket of one row. numbers: of the batch, by `bucket_numbers`."""
    partition = partition_of(row_batch, row, schema)
    return BucketId(partition, int(numbers[row] % MOST_BUCKETS))
