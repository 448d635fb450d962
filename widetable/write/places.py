"""Determines the buckets of rows if the table's number of buckets alone does not: one rule for writers and lookups.

`Places` is the interface. There are two implementations: `dynamic_buckets`, and here `CountedBuckets` for a table that
was rescaled, whose partitions keep their number of buckets until they are rescaled themselves. `partition_buckets`
chooses one. Not thread-safe. Raises what bucket ids and BinaryRows raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_hash import bucket_ids
from widetable.format.bucket_id import BucketId
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.schema.table_schema import TableSchema
from widetable.write.partition_rows import rows_by_partition


class Places(Protocol):
    """The buckets of rows in one snapshot, or for one writer.

    A lookup calls `find`. A writer calls `assign`, which may change the state: it places new keys of dynamic buckets.
    The other methods are called when the rows are in files.
    """

    def find(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n]; -1 for keys that no bucket has."""

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n], in which it is written."""

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Yield the hashes of keys that are new in buckets with an index."""

    def total_buckets(self, partition: bytes) -> int:
        """Return the number of buckets of a partition that its files record."""


class CountedBuckets:
    """Assigns buckets by the number of buckets of each partition.

    count: returns the number of a partition, or None for one without files: a lookup finds nothing there, and a writer
    takes the table's. The number is cached, so that all files of a writer in a partition agree. If the partition is
    rescaled meanwhile, the commit detects it and moves the rows (docs/decisions/0039).
    """

    def __init__(self, schema: TableSchema, count: Callable[[bytes], int | None]) -> None:
        self._schema = schema
        self._count = count
        self._counts: dict[bytes, int | None] = {}

    def find(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n]; -1 in partitions without files."""
        return self._by_count(row_batch, self._counted)

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """Return the bucket of each row, int32[n], by the number of buckets of its partition."""
        return self._by_count(row_batch, self.total_buckets)

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Yield nothing: the hash determines the bucket, so there is no index."""
        return iter(())

    def total_buckets(self, partition: bytes) -> int:
        """Return the number of buckets of a partition, or the table's number for one without files."""
        return self._counted(partition) or self._schema.num_buckets

    def _counted(self, partition: bytes) -> int | None:
        if partition not in self._counts:
            self._counts[partition] = self._count(partition)
        return self._counts[partition]

    def _by_count(
        self, row_batch: pa.RecordBatch, count: Callable[[bytes], int | None]
    ) -> npt.NDArray[np.int32]:
        buckets = np.full(row_batch.num_rows, -1, np.int32)
        for partition, rows in rows_by_partition(row_batch, self._schema):
            number = count(partition)
            if number is not None:
                is_whole = len(rows) == row_batch.num_rows
                part = row_batch if is_whole else row_batch.take(pa.array(rows))
                buckets[rows] = bucket_ids(part, self._schema, number)
        return buckets
