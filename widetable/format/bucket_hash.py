"""Compute the bucket of each row of a batch, by the table's bucket key and bucket function.

Source: Paimon `KeyAndBucketExtractor`, `BucketFunction`; format.md section 6. In: a batch that has
the bucket key columns in their current Arrow types; out: int32 bucket ids in row
order. Raises UnsupportedError for a table or a file whose buckets are dynamic.

The bare BinaryRow of the key is hashed, so a bucket depends on the layout of the types
and on every bit: that is why keys come in their current types, and why all NaNs of keys get the
same bits (`write.safe_cast.key_cast`). The bucket of a key must never change: the same key in two
buckets counts as two keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from widetable.format.binary_row import encode_rows
from widetable.kernels.hashing.bucket_hash import Hashes, bucket_of, mod_bucket, murmur_hash
from widetable.schema import options as opt
from widetable.schema.schema_rules import check_fixed_buckets
from widetable.schema.table_schema import TableSchema


def bucket_ids(
    batch: pa.RecordBatch, schema: TableSchema, count: int | None = None
) -> NDArray[np.int32]:
    """Return int32[n]: each from 0 to below the number of buckets. count: that of a partition or file, from 1; None:
    the table's. Free rows of an append table are all in bucket 0.
    """
    if schema.has_free_rows:
        return np.zeros(batch.num_rows, np.int32)
    check_fixed_buckets(schema, count)
    count = schema.num_buckets if count is None else count
    if count == 1:
        return np.zeros(batch.num_rows, np.int32)
    return _FUNCTIONS[schema.typed_options.get(opt.BUCKET_FUNCTION)](batch, schema, count)


def key_hashes(batch: pa.RecordBatch, schema: TableSchema) -> Hashes:
    """Return int32[n]: the hash of each key without partition columns, which dynamic buckets use.

    Two keys may have equal hashes: code that uses hashes treats them as one. The whole trimmed key
    is hashed, whatever `bucket-key` says.
    """
    names = schema.trimmed_primary_key
    columns, types = [batch.column(n) for n in names], [schema.field(n).type for n in names]
    return murmur_hash(encode_rows(columns, types))


def _default(batch: pa.RecordBatch, schema: TableSchema, count: int) -> NDArray[np.int32]:
    columns = [batch.column(name) for name in schema.bucket_keys]
    types = [schema.field(name).type for name in schema.bucket_keys]
    return bucket_of(murmur_hash(encode_rows(columns, types)), count)


def _mod(batch: pa.RecordBatch, schema: TableSchema, count: int) -> NDArray[np.int32]:
    (name,) = schema.bucket_keys
    # Paimon reads the bits of the field of a BinaryRow, which are 0 for null.
    values = batch.column(name).cast(pa.int64()).fill_null(0).to_numpy()
    return mod_bucket(values, count)


_FUNCTIONS: Final[dict[str, Callable[[pa.RecordBatch, TableSchema, int], NDArray[np.int32]]]] = {
    "default": _default,
    "mod": _mod,
}
