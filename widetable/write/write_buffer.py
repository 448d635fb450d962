"""Rows of all buckets of one writer, under one budget of memory.

In: row batches per bucket, in arrival order; out: per bucket the sorted runs that its level-0 files are made of. When
the rows in memory pass a third of the budget (the rest is for sorting: joined columns and the sorted copy), the largest
buckets are collapsed and spilled until half of that is left. Raises StorageError when spilling fails; `release` removes
what was spilled.

Layers (docs/decisions/0003) stay apart in the runs. Spilled runs of one bucket are merged again only where merging
without older rows is harmless (docs/decisions/0002); elsewhere each becomes a file of its own, with the same rows for
readers.

What one bucket holds, and the runs that `take` makes of it, one layer each unless stated:

    in memory   batches in arrival order          collapse -> layers, oldest first
    spills      layers of each spill, oldest first, each a sorted run on disk

    may merge   (one layer each)  spill 1 + spill 2 + memory -> one run, or one for each 16 at most
    may not                       spill 1, spill 2, memory: a run and level-0 files for each

Older rows always come first, so the sequence numbers of runs ascend and readers merge them
right. A spilled run is collapsed, so a key that is written often takes one row per spill.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.row_budget import LEAST_BYTES, check_row, row_bytes, rows_within
from widetable.kernels.arrow_buffers import fixed_values
from widetable.merge.engine import MergeEngine, PartialMerge
from widetable.merge.sorted_merge import collapse, merge_runs
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema
from widetable.write.spill_space import SpilledRun, SpillFile, SpillSpace

_PARTS_OF_BUDGET: Final = 3
# For batches of runs that are merged, and again for the batch that comes out.
_MERGE_PARTS_OF_BUDGET: Final = 8
# Runs that are merged at once at most: more would need many files open and leave each but a few rows of memory.
_MAX_MERGED_RUNS: Final = 16
# Small batches of a bucket are joined when there are so many: an Arrow batch costs memory beside its rows.
_MAX_SMALL_BATCHES: Final = 64
_SMALL_BATCH_ROWS: Final = 64 << 10
_OVERHEAD_BYTES_PER_COLUMN: Final = 200


Run: TypeAlias = Iterator[pa.RecordBatch]


class _BufferedBucket:
    """Rows of one bucket: batches in memory in arrival order, and per spill its layers, oldest first.

    bytes: of the rows in memory. row_bytes: of the widest rows so far, on average over a batch.

    has_deletes: of all rows ever given, spilled ones too, for it decides what may be merged.
    """

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.bytes = 0
        self.row_bytes = 1.0
        self.has_deletes = False
        self.spills: list[list[SpilledRun]] = []

    def add(self, batch: pa.RecordBatch) -> int:
        """Keep the batch; the bytes that it takes."""
        self.batches.append(batch)
        size = int(batch.nbytes)
        self.row_bytes = max(self.row_bytes, row_bytes(batch))
        if not self.has_deletes:
            kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
            self.has_deletes = bool(is_retraction(kinds).any())
        added: int = size + _OVERHEAD_BYTES_PER_COLUMN * batch.num_columns
        self.bytes += added
        if len(self.batches) % _MAX_SMALL_BATCHES == 0:
            self._join_small()
        return added

    def _join_small(self) -> None:
        """Neighbours of the same columns: what is moved may be of several writers."""
        joined = self.batches[-_MAX_SMALL_BATCHES:]
        if sum(batch.num_rows for batch in joined) <= _SMALL_BATCH_ROWS:
            alike = groupby(joined, key=lambda batch: batch.schema)
            self.batches[-_MAX_SMALL_BATCHES:] = [pa.concat_batches(each) for _, each in alike]


class WriteBuffer:
    """Not thread-safe: one writer owns it.

    budget_bytes: `write-buffer-size`; what Arrow and the sorting need is in it. columns: table
    columns of the runs. Owns its spill files until `release`.
    """

    def __init__(
        self,
        schema: TableSchema,
        engine: MergeEngine,
        columns: Sequence[str],
        budget_bytes: int,
    ) -> None:
        self._schema = schema
        self._engine = engine
        self._columns = tuple(columns)
        self._budget_bytes = budget_bytes
        self._limit_bytes = budget_bytes // _PARTS_OF_BUDGET
        self._merge_bytes = max(LEAST_BYTES, budget_bytes // _MERGE_PARTS_OF_BUDGET)
        self._buckets: dict[BucketId, _BufferedBucket] = {}
        self._space = SpillSpace()
        self._bytes = 0

    def add(self, bucket: BucketId, row_batch: pa.RecordBatch) -> None:
        """Rows of one bucket, after all that it was given. Raises InvalidError for rows of which not one fits."""
        check_row(row_bytes(row_batch), self._budget_bytes, "a row that is written")
        self._bytes += self._buckets.setdefault(bucket, _BufferedBucket()).add(row_batch)
        if self._bytes > self._limit_bytes:
            self._spill()

    def buckets(self) -> list[BucketId]:
        """The buckets that were given rows, in the order of their names."""
        return sorted(self._buckets)

    def take(self, bucket: BucketId) -> Iterator[Run]:
        """Hand out a bucket's runs, one after the other; each is sorted, has one row per key and makes its own files.

        A run must be used up before the next is asked for. Later runs hold later layers or later rows.

        The bucket is forgotten at once. Raises KeyError for one without rows.
        """
        held = self._buckets.pop(bucket)
        layers = self._collapse(held)
        if held.spills and self._may_merge(held, layers):
            yield from self._merged(held, layers)
            return
        for spill in held.spills:
            yield from (run.batches() for run in spill)
        while layers:
            yield iter([layers.pop(0)])

    def release(self) -> None:
        """Forget all rows and remove what was spilled."""
        self._buckets.clear()
        self._bytes = 0
        self._space.remove()

    def _collapse(self, held: _BufferedBucket) -> list[pa.RecordBatch]:
        """The layers of a bucket's rows in memory, which are let go."""
        self._bytes -= held.bytes
        held.bytes = 0
        if not held.batches:
            return []
        layers = collapse(held.batches, self._schema, self._engine)
        held.batches = []
        return layers

    def _may_merge(self, held: _BufferedBucket, layers: Sequence[pa.RecordBatch]) -> bool:
        """Layers of one commit must not meet in one row (docs/decisions/0003), so more than one
        anywhere forbids it. Merging without the base must be harmless as well
        (docs/decisions/0002).
        """
        if len(layers) > 1 or any(len(spill) > 1 for spill in held.spills):
            return False
        allowed = self._engine.partial_merge(self._schema, has_deletes=held.has_deletes)
        return allowed is PartialMerge.ALWAYS

    def _merged(self, held: _BufferedBucket, layers: Sequence[pa.RecordBatch]) -> Iterator[Run]:
        rows = self._chunk_rows(held)
        runs: list[Run] = [run.batches() for spill in held.spills for run in spill]
        runs += [_pieces(layer, rows) for layer in layers]
        # Of each a row at least is in memory.
        at_once = max(2, rows_within(self._limit_bytes, held.row_bytes, _MAX_MERGED_RUNS))
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
        """Write the largest buckets to disk until half of the limit is free. Rows of other columns, which are there
        when what is moved is of several writers, are in another file.

        The largest first: few buckets leave, and with long runs. Until half is free and not
        just enough, as each spill sorts, and makes a run that must be merged later.
        """
        files: dict[pa.Schema, SpillFile] = {}
        with contextlib.ExitStack() as stack:
            for held in sorted(self._buckets.values(), key=lambda each: each.bytes, reverse=True):
                if self._bytes <= self._limit_bytes // 2 or not held.batches:
                    return
                rows = self._chunk_rows(held)
                layers = self._collapse(held)
                for layer in layers:
                    if layer.schema not in files:
                        files[layer.schema] = stack.enter_context(self._space.new_file())
                spilled = [files[layer.schema].write(_pieces(layer, rows)) for layer in layers]
                held.spills.append(spilled)

    def _chunk_rows(self, held: _BufferedBucket) -> int:
        """Rows of a batch so small that those of all merged runs take an eighth of the budget."""
        return rows_within(self._merge_bytes // _MAX_MERGED_RUNS, held.row_bytes)


def _pieces(batch: pa.RecordBatch, rows: int) -> Run:
    return (batch.slice(first, rows) for first in range(0, batch.num_rows, rows))
