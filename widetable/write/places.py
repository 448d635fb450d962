"""Where the rows of a writer go, where the table's number of buckets alone does not say it.

`Places` is what a writer asks. Two kinds are there: `dynamic_buckets`, and here the partitions of a table that was
rescaled: each keeps the number of buckets that it was made with, until it is rescaled itself. Not thread-safe.
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
    """Of one writer.

    `assign` may remember what it is asked: keys of dynamic buckets are placed by it. The others are
    asked when the rows are in files.
    """

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """int32[n]: the bucket of each row."""

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """Of keys that are new in buckets with an index."""

    def total_buckets(self, partition: bytes) -> int:
        """The number of buckets of a partition, as its files say it."""


class CountedBuckets:
    """count: the number of buckets of a partition, None for one without files, which gets the table's.

    A number once found is kept for the life of the writer, so all its files of a partition
    agree. If the partition is rescaled meanwhile the commit finds that out and moves them
    (docs/decisions/0039).
    """

    def __init__(self, schema: TableSchema, count: Callable[[bytes], int | None]) -> None:
        self._schema = schema
        self._count = count
        self._counts: dict[bytes, int] = {}

    def assign(self, row_batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """int32[n]: the bucket of each row, by the number of its partition."""
        found = np.empty(row_batch.num_rows, np.int32)
        for partition, rows in rows_by_partition(row_batch, self._schema):
            is_whole = len(rows) == row_batch.num_rows
            part = row_batch if is_whole else row_batch.take(pa.array(rows))
            counted = with_buckets(self._schema, self.total_buckets(partition))
            found[rows] = bucket_ids(part, counted)
        return found

    def new_hashes(self) -> Iterator[tuple[BucketId, Hashes]]:
        """None: a hash says the bucket."""
        return iter(())

    def total_buckets(self, partition: bytes) -> int:
        """As the partition was made, else the table's."""
        if partition not in self._counts:
            self._counts[partition] = self._count(partition) or self._schema.num_buckets
        return self._counts[partition]


def with_buckets(schema: TableSchema, count: int) -> TableSchema:
    """The schema as if its table had so many buckets."""
    return replace(schema, options={**schema.options, opt.BUCKET.key: str(count)})
