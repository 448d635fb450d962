"""Rows of a batch by partition and bucket, column-wise.

In: a row batch; out: one part per bucket that occurs, rows in their order, each with memory of its own (so that a
bucket that is spilled frees what it held). Raises what bucket ids and BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.binary_row import EMPTY_ROW, encode_rows, with_arity
from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.kernels.key_lanes import key_lanes
from widetable.schema import TableSchema


def split_by_bucket(
    row_batch: pa.RecordBatch, schema: TableSchema
) -> Iterator[tuple[BucketId, pa.RecordBatch]]:
    """(bucket, its rows) for each bucket of the batch. A batch of one bucket is handed on as it is."""
    if not row_batch.num_rows:
        return
    groups = bucket_numbers(row_batch, schema)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ends = [*starts[1:].tolist(), len(order)]
    for start, end in zip(starts.tolist(), ends, strict=True):
        bucket = bucket_of(row_batch, int(order[start]), groups, schema)
        whole = len(starts) == 1
        yield bucket, row_batch if whole else row_batch.take(pa.array(order[start:end]))


def bucket_numbers(row_batch: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Equal numbers, from 0, for rows of one bucket of one partition; comparable in this batch only."""
    groups = bucket_ids(row_batch, schema).astype(np.int64)
    if schema.partition_keys:
        groups += _partition_numbers(row_batch, schema) * schema.num_buckets
    return groups


def bucket_of(
    row_batch: pa.RecordBatch, row: int, numbers: npt.NDArray[np.int64], schema: TableSchema
) -> BucketId:
    """The bucket of one row. numbers: of the batch, by `bucket_numbers`."""
    partition = _partition(row_batch.slice(row, 1), schema)
    return BucketId(partition, int(numbers[row] % schema.num_buckets))


def _partition_numbers(row_batch: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Equal numbers for rows of equal partition, int64[n] from 0."""
    lanes = key_lanes([row_batch.column(name) for name in schema.partition_keys])
    # One lane is the rule, and much faster to sort than rows of several.
    values, axis = (lanes[:, 0], None) if lanes.shape[1] == 1 else (lanes, 0)
    _, numbers = np.unique(values, axis=axis, return_inverse=True)
    return np.asarray(numbers.reshape(-1), np.int64)


def _partition(row: pa.RecordBatch, schema: TableSchema) -> bytes:
    """BinaryRow of the partition of a batch of one row."""
    if not schema.partition_keys:
        return EMPTY_ROW
    columns = [row.column(name) for name in schema.partition_keys]
    types = [schema.field(name).type for name in schema.partition_keys]
    return with_arity(encode_rows(columns, types).row(0), len(types))
