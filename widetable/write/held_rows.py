"""Rows that the caller holds in memory: sorted by their keys where they lie, and copied once, into the files.

    caller's batches      row numbers by bucket        sorted by key        gathered, piece by piece
    0 1 2   3 4
    k 7 2 9 | k 4 1   ->  bucket 0: 1 3            ->  bucket 0: 1 3    ->  k 2 4
                          bucket 1: 0 2 4              bucket 1: 4 0 2      k 1 7 9

A buffer would copy the rows, spill the copies and merge what it has spilled. Here a row takes 4 bytes beside the
caller's, for its number, and 4 for its width where widths differ. To sort a bucket takes 56 bytes a row and twice its
keys for a while.

A piece of a file has all rows of its keys. Where a key comes twice, the merge engine collapses the rows of each piece.

Three kinds of rows cannot be gathered from where they lie, and go through the buffer (`write_buffer`): those whose
columns had to be cast or cleared, so that the table's values are not the caller's; those of a bucket in which the rows
of one key fill a piece; and those whose numbers would exceed the budget. Raises what `take_rows` and the engine raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.row_batch import SYSTEM_FIELDS, row_batch_schema
from widetable.format.row_budget import MAX_ROWS, memory_bytes, row_bytes
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import ArrowArray, fixed_values
from widetable.kernels.gather import take_rows
from widetable.kernels.row_widths import Widths, row_widths, varies
from widetable.kernels.sort_order import group_starts, sort_order
from widetable.merge.engine import MergeEngine
from widetable.merge.key_order import lanes_of_keys
from widetable.merge.sorted_merge import collapse
from widetable.runtime.worker_thread import in_threads
from widetable.schema.row_kind import INSERT
from widetable.schema.table_schema import SEQUENCE_NUMBER, TableSchema

# Of 32 bits where they suffice.
RowNumbers: TypeAlias = npt.NDArray[np.signedinteger[Any]]

BucketSplit: TypeAlias = Callable[[pa.RecordBatch], Iterable[tuple[BucketId, Positions]]]

_NUMBER_BYTES: Final = 4
_WIDTH_BYTES: Final = 4
# Of the columns that rows get here: sequence number and row kind.
_SYSTEM_BYTES: Final = 9
_MAX_WIDTH: Final = (1 << 32) - 1
_SORTED_ROW_BYTES: Final = 56
# Gathered, and as lanes.
_KEY_COPIES: Final = 2
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


def _widths(rows: pa.RecordBatch) -> Widths:
    """Return the bytes of each row."""
    varying = [column for column in rows.columns if varies(column.type)]
    alike = sum((c.type.bit_width + 7) // 8 for c in rows.columns if not varies(c.type))
    alike += rows.num_columns // 8  # whether they are null
    return sum(map(row_widths, varying), np.full(rows.num_rows, alike, np.int64))


class _Pieces(NamedTuple):
    """The rows of a bucket in order, those of one key as they arrived. cuts: where pieces begin, and the end."""

    numbers: RowNumbers
    cuts: list[int]
    is_distinct: bool

    def piece(self, number: int) -> RowNumbers:
        return self.numbers[self.cuts[number] : self.cuts[number + 1]]

    def rows(self) -> Iterator[RowNumbers]:
        return map(self.piece, range(len(self.cuts) - 1))


# By the number of a piece: how many layers come behind its first one, and these, or none of them.
_LaterLayers: TypeAlias = dict[int, tuple[int, list[pa.RecordBatch]]]


class HeldRows:
    """The rows of some batches, all +I, split by bucket.

    batches: of the caller, with the columns `names`. piece_bytes: of the rows that are gathered at once. Add the rows
    in order, `split` them, `sort` each bucket, and `take` those that are sorted. Not thread-safe, except that threads
    may sort and take different buckets.
    """

    def __init__(
        self,
        schema: TableSchema,
        engine: MergeEngine,
        names: Sequence[str],
        batches: Sequence[pa.RecordBatch],
        piece_bytes: int,
    ) -> None:
        self._schema = schema
        self._engine = engine
        self._arrow = row_batch_schema(schema, names)
        columns = self._arrow.names[len(SYSTEM_FIELDS) :]
        self._batches = [batch.select(columns) for batch in batches]
        self._piece_bytes = piece_bytes
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
        is_short = self._starts[-1] < 1 << 31
        self._number_type: type[np.signedinteger[Any]] = np.int32 if is_short else np.int64
        has_widths = any(varies(field.type) for field in self._arrow)
        self._widths = np.empty(self._starts[-1], np.uint32) if has_widths else None
        self._row_bytes = _SYSTEM_BYTES + max(map(row_bytes, self._batches))
        self._first_number = 0
        self._added = 0
        self._slices: list[pa.RecordBatch] = []
        self._parts: dict[BucketId, list[RowNumbers]] = {}
        self._key_bytes: Counter[BucketId] = Counter()
        self._sorted: dict[BucketId, _Pieces] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows, in normal form, with the caller's own columns.

        One task writes all rows of these batches, so their sequence numbers are consecutive.
        """
        numbers = fixed_values(rows.column(SEQUENCE_NUMBER), np.int64)
        if not self._added:
            self._first_number = int(numbers[0])
        assert numbers[-1] == self._first_number + self._added + rows.num_rows - 1, "one task"
        columns = rows.select(self._arrow.names[len(SYSTEM_FIELDS) :])
        end = self._added + rows.num_rows
        if self._widths is not None:
            widths = _widths(columns) + _SYSTEM_BYTES
            self._widths[self._added : end] = np.minimum(widths, _MAX_WIDTH)
        self._slices.append(columns)
        self._added = end

    def split(self, split: BucketSplit, threads: int) -> None:
        """Split the rows by bucket. split: yields the places of a piece's rows by bucket, ascending."""
        starts = np.cumsum([0, *(piece.num_rows for piece in self._slices)])
        key = list(self._schema.trimmed_primary_key)

        def parts(number: int) -> list[tuple[BucketId, RowNumbers, int]]:
            start, piece = starts[number], self._slices[number]
            keys = piece.select(key)
            are_alike = not any(varies(column.type) for column in keys.columns)
            widths = _widths(keys.slice(0, 1) if are_alike else keys)
            return [
                (
                    bucket,
                    (rows + start).astype(self._number_type),
                    int(widths[0] * len(rows) if are_alike else widths[rows].sum()),
                )
                for bucket, rows in split(piece)
            ]

        for piece in in_threads(parts, range(len(self._slices)), threads, "split"):
            for bucket, numbers, key_bytes in piece:
                self._parts.setdefault(bucket, []).append(numbers)
                self._key_bytes[bucket] += key_bytes
        self._slices.clear()

    def sorting_threads(self, budget_bytes: int, most: int) -> int:
        """Return how many threads may sort at once within a budget; 0 if it is too small for one."""
        row_bytes = _NUMBER_BYTES if self._widths is None else _NUMBER_BYTES + _WIDTH_BYTES
        left_bytes = budget_bytes - row_bytes * self._added
        sizes = [
            _SORTED_ROW_BYTES * sum(map(len, parts)) + _KEY_COPIES * self._key_bytes[bucket]
            for bucket, parts in self._parts.items()
        ]
        sizes.sort(reverse=True)
        return sum(size <= left_bytes for size in accumulate(sizes[:most]))

    def buckets(self) -> list[BucketId]:
        """Return the buckets with rows, in the order of their ids."""
        return sorted(self._parts)

    def __contains__(self, bucket: BucketId) -> bool:
        return bucket in self._parts

    def sort(self, bucket: BucketId) -> bool:
        """Sort the rows of a bucket by their keys; return False, and leave them, if those of one key fill a piece."""
        numbers = np.concatenate(self._parts[bucket])
        rows = numbers.astype(np.int64)
        key = list(self._schema.trimmed_primary_key)
        keys = [take_rows(batch.select(key), places) for batch, places in self._places(rows)]
        lanes = lanes_of_keys(self._schema, keys)
        order = sort_order(lanes, rows)
        starts = group_starts(lanes, order)
        is_distinct = len(starts) > len(order)
        numbers = numbers[order]
        before = self._bytes_before(numbers)
        cuts = self._cuts(before)
        if not is_distinct:
            if np.diff(before[starts]).max() > self._piece_bytes:
                return False
            # A piece has all rows of its keys.
            cuts = np.unique(starts[np.searchsorted(starts, cuts)])
        self._sorted[bucket] = _Pieces(numbers, cuts.tolist(), is_distinct)
        self._parts[bucket].clear()
        return True

    def _bytes_before(self, numbers: RowNumbers) -> npt.NDArray[np.float64]:
        """Return the bytes before each row and behind the last one, float64[n + 1].

        A row takes a share of its piece at least, so that a piece has MAX_ROWS rows at most, however narrow they are.
        """
        share = self._piece_bytes / MAX_ROWS
        if self._widths is None:
            return np.arange(len(numbers) + 1, dtype=np.float64) * max(self._row_bytes, share)
        before = np.zeros(len(numbers) + 1)
        np.cumsum(np.maximum(self._widths[numbers], share), out=before[1:])
        return before

    def _cuts(self, before: npt.NDArray[np.float64]) -> Positions:
        """Return where pieces begin, and the end. A piece is longer than its bytes by less than its last row."""
        marks = np.arange(0, before[-1], self._piece_bytes)
        return np.unique([*np.searchsorted(before[:-1], marks).tolist(), len(before) - 1])

    def arrived(self, bucket: BucketId) -> Iterator[pa.RecordBatch]:
        """Remove a bucket that is not sorted, and yield its rows as they arrived."""
        numbers = np.concatenate(self._parts.pop(bucket))
        cuts = self._cuts(self._bytes_before(numbers)).tolist()
        return map(self._gathered, _Pieces(numbers, cuts, is_distinct=False).rows())

    def take(self, bucket: BucketId) -> Iterator[Iterator[pa.RecordBatch]]:
        """Remove a sorted bucket, and yield its runs, oldest first: one for each layer (docs/decisions/0003).

        Each has one row per key, in the order of keys, and must be consumed before the next is requested.
        """
        del self._parts[bucket]
        pieces = self._sorted.pop(bucket)
        if pieces.is_distinct:
            yield map(self._gathered, pieces.rows())
            return
        later: _LaterLayers = {}
        yield self._first_layer(pieces, later)
        for layer in range(max((layers for layers, _ in later.values()), default=0)):
            yield self._later_layer(pieces, layer, later)

    def _first_layer(self, pieces: _Pieces, later: _LaterLayers) -> Iterator[pa.RecordBatch]:
        """Yield the first layer. later: takes the others of each piece: how many, and them too while they are few."""
        left_bytes = self._piece_bytes
        for number, rows in enumerate(pieces.rows()):
            first, *others = collapse([self._gathered(rows)], self._schema, self._engine)
            left_bytes -= sum(map(memory_bytes, others))
            if others:
                later[number] = len(others), others if left_bytes >= 0 else []
            yield first

    def _later_layer(
        self, pieces: _Pieces, layer: int, later: _LaterLayers
    ) -> Iterator[pa.RecordBatch]:
        for number, (layers, kept) in later.items():
            if layer < layers:
                yield (kept or self._others(pieces.piece(number)))[layer]

    def _others(self, rows: RowNumbers) -> list[pa.RecordBatch]:
        return collapse([self._gathered(rows)], self._schema, self._engine)[1:]

    def _gathered(self, numbers: RowNumbers) -> pa.RecordBatch:
        rows = numbers.astype(np.int64)
        kinds = np.full(len(rows), INSERT, np.int8)
        system = [pa.array(rows + self._first_number), pa.array(kinds)]
        return pa.RecordBatch.from_arrays(
            [*system, *self._values(rows).columns], schema=self._arrow
        )

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
