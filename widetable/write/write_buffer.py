"""Buffers the rows of all buckets of one writer, under one memory budget.

In: row batches per bucket, in arrival order; out: per bucket the sorted runs for its level-0 files. When
the rows in memory exceed a third of the budget (the rest is for sorting: joined columns and the sorted copy), the
largest buckets are collapsed and spilled until half of that is left. Raises StorageError when spilling fails; `release`
removes spilled runs.

Layers (docs/decisions/0003) stay separate in the runs. Spilled runs of one bucket are merged again only if a merge
without older rows is harmless (docs/decisions/0002); otherwise each becomes a separate file, with the same rows for
readers.

The rows of one bucket, and the runs that `take` makes of them, one layer each unless stated:

    in memory   batches in arrival order          collapse -> layers, oldest first
    spills      layers of each spill, oldest first, each a sorted run on disk

    may merge   (one layer each)  spill 1 + spill 2 + memory -> one run, or one for each 16 at most
    may not                       spill 1, spill 2, memory: a run and level-0 files for each

If rows carry different columns (`cuts`), each layer is a run for each set of columns that its keys carry
(`column_cut`), and the runs of several spills are not merged: a merged run would have all columns, with nulls.

Older rows always come first, so the sequence numbers of runs ascend and readers merge them
correctly. A spilled run is collapsed, so a key that is written often takes one row per spill.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.row_batch import SYSTEM_FIELDS
from widetable.format.row_budget import MIN_BYTES, check_row, row_bytes, rows_within
from widetable.kernels.arrow_buffers import fixed_values
from widetable.merge.engine import MergeEngine, PartialMerge
from widetable.merge.sorted_merge import collapse, merge_runs
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema
from widetable.write.spill_space import SpilledRun, SpillFile, SpillSpace

_PARTS_OF_BUDGET: Final = 3
# The fraction of the budget for the batches of merged runs, and again for the resulting batch.
_MERGE_PARTS_OF_BUDGET: Final = 8
# The most runs that are merged at once: more would keep many files open, with memory for a few rows each.
_MAX_MERGED_RUNS: Final = 16
# So many small batches of a bucket are joined: an Arrow batch takes memory in addition to its rows.
_MAX_SMALL_BATCHES: Final = 64
_SMALL_BATCH_ROWS: Final = 64 << 10
_OVERHEAD_BYTES_PER_COLUMN: Final = 200
# As many are encoded in some ten milliseconds.
FEW_BYTES: Final = 4 << 20


Run: TypeAlias = Iterator[pa.RecordBatch]


class BufferedRun(NamedTuple):
    """A sorted run of one bucket, and the table columns of its files."""

    columns: tuple[str, ...]
    rows: Run


class _Spill(NamedTuple):
    """One run of a spill. columns: those of its batches."""

    columns: tuple[str, ...]
    run: SpilledRun


class _BufferedBucket:
    """Rows of one bucket: batches in memory in arrival order, and the layers of each spill, oldest first.

    cuts: the batches of each set of columns are listed apart, so that small ones can be joined; their rows are sorted
    by their numbers later. bytes: the size of the rows in memory. row_bytes: the size of a row in the batch with the
    widest rows so far.

    has_deletes: whether any row is a retraction, spilled rows included; it decides which runs may be merged.
    """

    def __init__(self, *, cuts: bool) -> None:
        self._batches: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        self._cuts = cuts
        self.column_sets: set[tuple[str, ...]] = set()
        self.bytes = 0
        self.row_bytes = 1.0
        self.has_deletes = False
        self.spills: list[list[_Spill]] = []

    def add(self, batch: pa.RecordBatch) -> int:
        """Add a batch and return the bytes that it takes."""
        columns = tuple(batch.schema.names) if self._cuts else ()
        self.column_sets.add(columns)
        batches = self._batches.setdefault(columns, [])
        batches.append(batch)
        size = int(batch.nbytes)
        self.row_bytes = max(self.row_bytes, row_bytes(batch))
        if not self.has_deletes:
            kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
            self.has_deletes = bool(is_retraction(kinds).any())
        added: int = size + _OVERHEAD_BYTES_PER_COLUMN * batch.num_columns
        self.bytes += added
        if len(batches) % _MAX_SMALL_BATCHES == 0:
            _join_small(batches)
        return added

    def take(self) -> list[pa.RecordBatch]:
        """Remove the batches in memory, and return them."""
        batches = list(chain.from_iterable(self._batches.values()))
        self._batches = {}
        self.bytes = 0
        return batches


def _join_small(batches: list[pa.RecordBatch]) -> None:
    """Join neighbours with equal columns: rows that are moved may come from several writers."""
    joined = batches[-_MAX_SMALL_BATCHES:]
    if sum(batch.num_rows for batch in joined) <= _SMALL_BATCH_ROWS:
        alike = groupby(joined, key=lambda batch: batch.schema)
        batches[-_MAX_SMALL_BATCHES:] = [pa.concat_batches(each) for _, each in alike]


class WriteBuffer:
    """The buffer of one writer; not thread-safe, except that `threads` may `take` different buckets.

    budget_bytes: `write-buffer-size`, with the memory that Arrow and sorting need. columns: table
    columns of the runs. cuts: batches carry different columns, and so do the runs (see the module).
    The buffer owns its spill files until `release`.
    """

    def __init__(
        self,
        schema: TableSchema,
        engine: MergeEngine,
        columns: Sequence[str],
        budget_bytes: int,
        *,
        cuts: bool = False,
        threads: int = 1,
    ) -> None:
        self._schema = schema
        self._cuts = cuts
        self._engine = engine
        self._columns = tuple(columns)
        self._budget_bytes = budget_bytes
        self._limit_bytes = budget_bytes // _PARTS_OF_BUDGET
        self._merge_bytes = max(MIN_BYTES, budget_bytes // _MERGE_PARTS_OF_BUDGET // threads)
        self._most_threads = threads
        self._buckets: dict[BucketId, _BufferedBucket] = {}
        self._space = SpillSpace()
        self._bytes = 0

    def add(self, bucket: BucketId, row_batch: pa.RecordBatch) -> None:
        """Add rows of one bucket, after all earlier ones. Raises InvalidError if a single row exceeds the budget."""
        self.add_all([(bucket, row_batch)])

    def add_all(self, parts: Iterable[tuple[BucketId, pa.RecordBatch]]) -> None:
        """Add parts whose rows come in turns, after all earlier ones, and spill behind them only.

        The rows of a key may be in several parts. A spill between two of them would collapse rows past a row that is
        still to come.
        """
        for bucket, row_batch in parts:
            check_row(row_bytes(row_batch), self._budget_bytes, "a row that is written")
            if bucket not in self._buckets:
                self._buckets[bucket] = _BufferedBucket(cuts=self._cuts)
            self._bytes += self._buckets[bucket].add(row_batch)
        if self._bytes > self._limit_bytes:
            self._spill()

    @property
    def threads(self) -> int:
        """The number of threads that may take buckets at once: one for few rows, to which threads bring nothing.

        The rows in memory are sorted in copies, bucket by bucket, which together are no larger than those of one
        bucket with all rows. Merges of spilled runs share their part of the budget.
        """
        has_many = self._bytes > FEW_BYTES or any(each.spills for each in self._buckets.values())
        return self._most_threads if has_many else 1

    def buckets(self) -> list[BucketId]:
        """Return the buckets with rows, in the order of their ids."""
        return sorted(self._buckets)

    def take(self, bucket: BucketId) -> Iterator[BufferedRun]:
        """Remove a bucket and yield its runs; each is sorted, has one row per key and becomes separate files.

        A run must be consumed before the next is requested. Later runs hold later layers or later rows, or the same
        layer's keys that carry other columns. Raises KeyError for a bucket without rows.
        """
        rows = self._buckets.pop(bucket)
        layers = self._collapse(rows)
        if rows.spills and self._may_merge(rows, layers):
            columns = next(chain.from_iterable(rows.spills)).columns
            for run in self._merged(rows, layers):
                yield BufferedRun(self._columns_of(columns), run)
            return
        for spill in chain.from_iterable(rows.spills):
            yield BufferedRun(self._columns_of(spill.columns), spill.run.batches())
        while layers:
            layer = layers.pop(0)
            yield BufferedRun(self._columns_of(_columns(layer)), iter([layer]))

    def _columns_of(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of the files of a run. columns: those of its rows."""
        return columns if self._cuts else self._columns

    def release(self) -> None:
        """Remove all rows and spill files."""
        self._buckets.clear()
        self._bytes = 0
        self._space.remove()

    def _collapse(self, bucket: _BufferedBucket) -> list[pa.RecordBatch]:
        """Return the layers of a bucket's rows in memory, cut by their columns, and release the rows."""
        self._bytes -= bucket.bytes
        return collapse(bucket.take(), self._schema, self._engine, by_columns=self._cuts)

    def _may_merge(self, bucket: _BufferedBucket, layers: Sequence[pa.RecordBatch]) -> bool:
        """Return whether all runs of a bucket may be merged. Layers of one commit must not be merged into one row
        (docs/decisions/0003), so each spill may have only one. Rows of different columns stay in
        files of their own. A merge without the base must also be harmless (docs/decisions/0002).
        """
        if len(bucket.column_sets) > 1 and self._cuts:
            return False
        if len(layers) > 1 or any(len(spill) > 1 for spill in bucket.spills):
            return False
        allowed = self._engine.partial_merge(self._schema, has_deletes=bucket.has_deletes)
        return allowed is PartialMerge.ALWAYS

    def _merged(self, bucket: _BufferedBucket, layers: Sequence[pa.RecordBatch]) -> Iterator[Run]:
        rows = self._chunk_rows(bucket)
        runs = [spill.run.batches() for spill in chain.from_iterable(bucket.spills)]
        runs += [_pieces(layer, rows) for layer in layers]
        # Each run has at least one row in memory.
        at_once = max(2, rows_within(self._limit_bytes, bucket.row_bytes, _MAX_MERGED_RUNS))
        for first in range(0, len(runs), at_once):
            yield merge_runs(
                runs[first : first + at_once],
                self._schema,
                self._engine,
                self._columns,
                keep_deletes=True,
                batch_bytes=self._merge_bytes,
            )

    def _spill(self) -> None:
        """Write the largest buckets to disk until half of the limit is free. Rows with other columns, which occur when
        rows of several writers are moved, are written to another file.

        The largest buckets are spilled first, so that there are few and long runs. Half of the limit is
        freed, because each spill sorts, and makes a run that must be merged later.
        """
        files: dict[pa.Schema, SpillFile] = {}
        with contextlib.ExitStack() as stack:
            for bucket in sorted(self._buckets.values(), key=lambda each: each.bytes, reverse=True):
                if self._bytes <= self._limit_bytes // 2 or not bucket.bytes:
                    return
                rows = self._chunk_rows(bucket)
                layers = self._collapse(bucket)
                for layer in layers:
                    if layer.schema not in files:
                        files[layer.schema] = stack.enter_context(self._space.new_file())
                bucket.spills.append(
                    [
                        _Spill(_columns(layer), files[layer.schema].write(_pieces(layer, rows)))
                        for layer in layers
                    ]
                )

    def _chunk_rows(self, bucket: _BufferedBucket) -> int:
        """Return the rows of a batch for which the batches of all merged runs take an eighth of the budget."""
        return rows_within(self._merge_bytes // _MAX_MERGED_RUNS, bucket.row_bytes)


def _columns(rows: pa.RecordBatch) -> tuple[str, ...]:
    return tuple(rows.schema.names[len(SYSTEM_FIELDS) :])


def _pieces(batch: pa.RecordBatch, rows: int) -> Run:
    return (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))
