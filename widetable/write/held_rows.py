"""Rows that the caller holds in memory: sorted by their keys where they lie, and copied once, into the files.

    caller's batches      row numbers by bucket        sorted by key        gathered, piece by piece
    0 1 2   3 4
    k 7 2 9 | k 4 1   ->  bucket 0: 1 3            ->  bucket 0: 1 3    ->  k 2 4
                          bucket 1: 0 2 4              bucket 1: 4 0 2      k 1 7 9

A buffer would copy the rows, spill the copies and merge what it has spilled. Here a row takes 4 bytes beside the
caller's, for its number. To sort a bucket takes 64 bytes a row for a while.

Three kinds of rows cannot be gathered from where they lie, and go through the buffer (`write_buffer`): those whose
columns had to be cast or cleared, so that the table's values are not the caller's; those of a bucket in which a key
comes twice, which need a merge; and those whose numbers would exceed the budget. Raises what `take_rows` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.row_batch import SYSTEM_FIELDS, row_batch_schema
from widetable.format.row_budget import row_bytes, rows_within
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import ArrowArray, fixed_values
from widetable.kernels.gather import take_rows
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.merge.key_order import lanes_of_keys
from widetable.runtime.worker_thread import in_threads
from widetable.schema.row_kind import INSERT
from widetable.schema.table_schema import SEQUENCE_NUMBER, TableSchema

# Of 32 bits where they suffice.
RowNumbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]

BucketSplit: TypeAlias = Callable[[pa.RecordBatch], Iterable[tuple[BucketId, Positions]]]

_ROW_BYTES: Final = 4
_SORTED_ROW_BYTES: Final = 64
# Each piece of a file is gathered from all of them.
MOST_BATCHES: Final = 64


def has_values_of(rows: pa.RecordBatch, given: pa.RecordBatch) -> bool:
    """Return whether the columns of a row batch are the memory of a caller's batch."""
    names = rows.schema.names[len(SYSTEM_FIELDS) :]
    return rows.num_rows == given.num_rows and all(
        _is_same(rows.column(name), given.column(name)) for name in names
    )


def _is_same(array: ArrowArray, other: ArrowArray) -> bool:
    return array.type == other.type and _memory(array) == _memory(other)


def _memory(array: ArrowArray) -> list[object]:
    return [array.offset, *(buffer and buffer.address for buffer in array.buffers())]


class HeldRows:
    """The rows of some batches, all +I, split by bucket.

    batches: of the caller, with the columns `names`. Add their rows in order, `split` them, `sort` each bucket, and
    `take` those that are sorted. Not thread-safe, except that threads may sort and take different buckets.
    """

    def __init__(
        self, schema: TableSchema, names: Sequence[str], batches: Sequence[pa.RecordBatch]
    ) -> None:
        self._schema = schema
        self._arrow = row_batch_schema(schema, names)
        columns = self._arrow.names[len(SYSTEM_FIELDS) :]
        self._batches = [batch.select(columns) for batch in batches]
        self._row_bytes = max(map(row_bytes, self._batches))
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        is_short = self._starts[-1] < 1 << 31
        self._number_type: type[np.signedinteger[Any]] = np.int32 if is_short else np.int64
        self._first_number = 0
        self._added = 0
        self._pieces: list[pa.RecordBatch] = []
        self._parts: dict[BucketId, list[RowNumbers]] = {}
        self._sorted: dict[BucketId, RowNumbers] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows, in normal form, with the caller's own columns.

        One task writes all rows of these batches, so their sequence numbers are consecutive.
        """
        numbers = fixed_values(rows.column(SEQUENCE_NUMBER), np.int64)
        if not self._added:
            self._first_number = int(numbers[0])
        assert numbers[-1] == self._first_number + self._added + rows.num_rows - 1, "one task"
        self._pieces.append(rows.select(self._arrow.names[len(SYSTEM_FIELDS) :]))
        self._added += rows.num_rows

    def split(self, split: BucketSplit, threads: int) -> None:
        """Split the rows by bucket. split: yields the places of a piece's rows by bucket, ascending."""
        starts = np.cumsum([0, *(piece.num_rows for piece in self._pieces)])

        def parts(number: int) -> list[tuple[BucketId, RowNumbers]]:
            start, piece = starts[number], self._pieces[number]
            return [
                (bucket, (rows + start).astype(self._number_type)) for bucket, rows in split(piece)
            ]

        for piece in in_threads(parts, range(len(self._pieces)), threads, "split"):
            for bucket, numbers in piece:
                self._parts.setdefault(bucket, []).append(numbers)
        self._pieces.clear()

    def sorting_threads(self, budget_bytes: int, most: int) -> int:
        """Return how many threads may sort at once within a budget; 0 if it is too small for one."""
        sizes = sorted((sum(map(len, parts)) for parts in self._parts.values()), reverse=True)
        left_bytes = budget_bytes - _ROW_BYTES * self._added
        return sum(_SORTED_ROW_BYTES * size <= left_bytes for size in accumulate(sizes[:most]))

    def buckets(self) -> list[BucketId]:
        """Return the buckets with rows, in the order of their ids."""
        return sorted(self._parts)

    def __contains__(self, bucket: BucketId) -> bool:
        return bucket in self._parts

    def sort(self, bucket: BucketId) -> bool:
        """Sort the rows of a bucket by their keys; return False, and leave them, if a key comes twice."""
        numbers = np.concatenate(self._parts[bucket])
        rows = numbers.astype(np.int64)
        key = list(self._schema.trimmed_primary_key)
        keys = [take_rows(batch.select(key), places) for batch, places in self._places(rows)]
        lanes = lanes_of_keys(self._schema, keys)
        order = sort_order(lanes, rows)
        is_distinct = len(group_starts(lanes, order)) > len(order)
        if is_distinct:
            self._sorted[bucket] = numbers[order]
            self._parts[bucket].clear()
        return is_distinct

    def arrived(self, bucket: BucketId, piece_bytes: int) -> Iterator[pa.RecordBatch]:
        """Remove a bucket that is not sorted, and yield its rows as they arrived."""
        return self._gathered(np.concatenate(self._parts.pop(bucket)), piece_bytes)

    def take(self, bucket: BucketId, piece_bytes: int) -> Iterator[pa.RecordBatch]:
        """Remove a sorted bucket, and yield its rows in the order of their keys."""
        del self._parts[bucket]
        return self._gathered(self._sorted.pop(bucket), piece_bytes)

    def _gathered(self, rows: RowNumbers, piece_bytes: int) -> Iterator[pa.RecordBatch]:
        count = rows_within(piece_bytes, self._row_bytes)
        for first in range(0, len(rows), count):
            piece = rows[first : first + count].astype(np.int64)
            kinds = np.full(len(piece), INSERT, np.int8)
            system = [pa.array(piece + self._first_number), pa.array(kinds)]
            columns = self._values(piece).columns
            yield pa.RecordBatch.from_arrays([*system, *columns], schema=self._arrow)

    def _values(self, rows: Positions) -> pa.RecordBatch:
        """Return rows of any batches in this order: taken batch by batch, then put in order."""
        if len(self._batches) == 1:
            return take_rows(self._batches[0], rows)
        batch_of_row = np.searchsorted(self._starts, rows, side="right") - 1
        by_batch = np.argsort(batch_of_row.astype(np.int16), kind="stable")
        taken = [take_rows(batch, places) for batch, places in self._places(rows[by_batch])]
        order = np.empty_like(by_batch)
        order[by_batch] = np.arange(len(rows))
        return take_rows(pa.concat_batches(taken), order)

    def _places(self, rows: Positions) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """Yield the batches of rows, which are given batch by batch, with the places of their rows."""
        batch_of_row = np.searchsorted(self._starts, rows, side="right") - 1
        ends = np.searchsorted(batch_of_row, np.arange(len(self._batches) + 1))
        for number, (start, end) in enumerate(pairwise(ends.tolist())):
            if end > start:
                yield self._batches[number], rows[start:end] - self._starts[number]
