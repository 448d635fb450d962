"""Assigns buckets to a writer's rows if the table's number of buckets alone does not determine them.

`Places` is the interface. There are two implementations: `dynamic_buckets`, and here `CountedBuckets` for a table that
was rescaled, whose partitions keep their number of buckets until they are rescaled themselves. Not thread-safe.
Raises what bucket ids and BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.kernels.bucket_hash import Hashes
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import rows_by_partition


class Places(Protocol):
    """The bucket assignment of one writer.

    `assign` may change the state: it places new keys of dynamic buckets. The other methods are
    called when the rows are in files.
    """

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n]."""

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Yield the hashes of keys that are new in buckets with an index."""

    def total_buckets(self, partition: bytes) -> int:
        """Return the number of buckets of a partition that its files record."""


class CountedBuckets:
    """Assigns buckets by the number of buckets of each partition.

    count: returns the number of a partition, or None for one without files, which gets the table's. The number is
    cached for the life of the writer, so that all its files of a partition agree. If the partition is rescaled
    meanwhile, the commit detects it and moves the rows (docs/decisions/0039).
    """

    def __init__(self, schema: TableSchema, count: Callable[[bytes], int | None]) -> None:
        self._schema = schema
        self._count = count
        self._counts: dict[bytes, int] = {}

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n], by the number of buckets of its partition."""
        buckets = np.empty(row_batch.num_rows, np.int32)
        for partition, rows in rows_by_partition(row_batch, self._schema):
            is_whole = len(rows) == row_batch.num_rows
            part = row_batch if is_whole else row_batch.take(pa.array(rows))
            counted = with_buckets(self._schema, self.total_buckets(partition))
            buckets[rows] = bucket_ids(part, counted)
        return buckets

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Yield nothing: the hash determines the bucket, so there is no index."""
        return iter(())

    def total_buckets(self, partition: bytes) -> int:
        """Return the number of buckets of a partition, or the table's number for one without files."""
        if partition not in self._counts:
            self._counts[partition] = self._count(partition) or self._schema.num_buckets
        return self._counts[partition]


def with_buckets(schema: TableSchema, count: int) -> TableSchema:
    """Return the schema with another number of buckets."""
    return replace(schema, options={**schema.options, opt.BUCKET.key: str(count)})
