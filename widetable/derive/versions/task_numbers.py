"""Which task reads the past of a row's key: rows are divided by bucket, so that each bucket is read by one task.

    buckets fixed, no partitions     as many tasks as buckets; a row goes to the task of its bucket
    buckets fixed, partitions        hash of the partition + bucket, modulo the number of tasks
    buckets dynamic                  hash of the partition + hash of the key, modulo the number of tasks

The first columns of a key (an entity, of which a table has many rows) say the bucket if the bucket key is among them;
else their hash takes its place. A key with a null goes to task 0. The number depends on the row alone, so a repeated
task gives the same numbers. In: keys in the types of the table. Pure; raises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.binary_row import encode_rows
from widetable.format.bucket_hash import bucket_ids
from widetable.kernels.array_types import Positions
from widetable.kernels.hashing.bucket_hash import bucket_of, murmur_hash
from widetable.operations.queries.tile_pieces import present_keys
from widetable.schema.table_schema import TableSchema


def task_count(schema: TableSchema, key: Sequence[str], tasks: int) -> int:
    """Return how many tasks share the rows of these key columns. tasks: where buckets do not say."""
    is_by_bucket = _says_bucket(schema, key) and not schema.partition_keys
    return max(schema.num_buckets if is_by_bucket else tasks, 1)


def task_numbers(keys: pa.RecordBatch, schema: TableSchema, tasks: int) -> npt.NDArray[np.int32]:
    """Return int32[n]: the task of each key. keys: the columns of the primary key, or some of them."""
    numbers = np.zeros(keys.num_rows, np.int32)
    places = present_keys(keys)
    numbers[places] = _numbers(keys.take(pa.array(places)), schema, tasks)
    return numbers


def _says_bucket(schema: TableSchema, key: Sequence[str]) -> bool:
    return schema.num_buckets > 0 and set(schema.bucket_keys) <= set(key)


def _numbers(keys: pa.RecordBatch, schema: TableSchema, tasks: int) -> Positions:
    """Return the task of each key; no key has a null."""
    partition = list(schema.partition_keys)
    if _says_bucket(schema, keys.schema.names):
        numbers = bucket_ids(keys, schema).astype(np.int64)
    else:
        names = [name for name in keys.schema.names if name not in partition]
        numbers = _hashes(keys, schema, names, tasks)
    if partition:
        numbers += _hashes(keys, schema, partition, tasks)
    return numbers % tasks


def _hashes(
    keys: pa.RecordBatch, schema: TableSchema, names: Sequence[str], tasks: int
) -> Positions:
    columns, types = [keys.column(name) for name in names], [schema.field(n).type for n in names]
    return bucket_of(murmur_hash(encode_rows(columns, types)), tasks).astype(np.int64)
