"""Rewrites files of an append table with their rows sorted (`row_curve`), in bounded memory. Never commits.

    rows fit into half of `write-buffer-size`     sorted in memory
    more                                          1  a sample of the sort columns gives the order, and cuts it into
                                                     ranges of about equal size
                                                  2  all rows are read once, and spilled by range
                                                  3  range after range is read, sorted and written

Two threads write the sorted rows of a range, each its own files. A range that is far larger than planned, because very
many rows are equal there, is sorted in parts. Deleted rows are left out. In: the files of one bucket. Out: the new
files. Raises the errors of reading and writing data files and spills; new files are removed then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import FILE_SOURCE_COMPACT, DataFileMeta
from widetable.format.projection import Projection
from widetable.format.row_batch import row_batch_schema
from widetable.format.row_budget import memory_bytes
from widetable.lsm.append_compaction import columns_of, rows_of
from widetable.lsm.row_curve import ORDERS, Keys, Order, RowCurve, shortened
from widetable.runtime.worker_thread import in_threads
from widetable.schema import options as opt
from widetable.write.discard import discard_files
from widetable.write.rolling_writer import RollingWriter
from widetable.write.spill_space import SpilledRun, SpillSpace
from widetable.write.table_state import TableState

_THREADS: Final = 2
_SAMPLED_ROWS: Final = 1 << 16
# A thread begins no file for fewer rows.
_ROWS_PER_THREAD: Final = 1 << 17
# So many rows are gathered at once.
_GATHERED_ROWS: Final = 1 << 16
_RANGES_PER_BUDGET: Final = 4
# Rows are sorted as one batch, whose texts Arrow addresses with 31 bits.
_MOST_BYTES: Final = 1 << 30


@dataclass
class SortedRewrite:
    """The rewriting of one bucket. by: the columns by which rows are sorted. order: a word of `ORDERS`."""

    state: TableState
    bucket: BucketId
    files: Sequence[DataFileMeta]
    by: Sequence[str]
    order: str
    _new: list[DataFileMeta] = field(default_factory=list, init=False)

    def run(self) -> tuple[DataFileMeta, ...]:
        """Write the sorted files, and return them in their order."""
        try:
            self._sort()
        except BaseException:
            discard_files(self.state, self.bucket, self._new)
            raise
        return tuple(self._new)

    @property
    def _budget_bytes(self) -> int:
        budget_bytes: int = self.state.options.get(opt.WRITE_BUFFER_SIZE)
        return budget_bytes

    def _sort(self) -> None:
        columns = columns_of(self.state, self.bucket, self.files)
        projection = Projection(row_batch_schema(self.state.schema, {*columns, *self.by}))
        rows = (
            projection.of(batch)
            for file in self.files
            for batch in rows_of(self.state, self.bucket, file)
        )
        first, size = list[pa.RecordBatch](), 0
        for batch in rows:
            first.append(batch)
            size += memory_bytes(batch)
            if size > min(self._budget_bytes // 2, _MOST_BYTES):
                break
        else:
            self._write(first, self._curve(_columns(first, self.by)) if first else None)
            return
        held_rows = sum(batch.num_rows for batch in first)
        all_rows = sum(file.row_count for file in self.files)
        range_bytes = min(self._budget_bytes, _MOST_BYTES) // _RANGES_PER_BUDGET
        ranges = -(-size * all_rows // (held_rows * range_bytes))
        space = SpillSpace()
        try:
            self._sort_ranges(chain(_taken(first), rows), max(ranges, 2), space)
        finally:
            space.remove()

    def _sort_ranges(self, rows: Iterator[pa.RecordBatch], ranges: int, space: SpillSpace) -> None:
        sample = self._sample()
        curve = self._curve(sample)
        keys = np.sort(curve.keys(sample))
        cuts = np.unique(keys[np.linspace(0, len(keys) - 1, ranges + 1).astype(np.int64)[1:-1]])
        for runs in _spilled(
            rows, self.by, curve, cuts, space, min(self._budget_bytes // 2, _MOST_BYTES)
        ):
            part, size = list[pa.RecordBatch](), 0
            for batch in chain.from_iterable(run.batches() for run in runs):
                part.append(batch)
                size += memory_bytes(batch)
                if size > min(self._budget_bytes, _MOST_BYTES):
                    self._write(part, curve)
                    part, size = [], 0
            self._write(part, curve)

    def _curve(self, sample: Sequence[pa.Array]) -> RowCurve:
        step = max(1, len(sample[0]) // _SAMPLED_ROWS)
        some = pa.array(np.arange(0, len(sample[0]), step))
        return ORDERS[self.order]([column.take(some) for column in sample])

    def _sample(self) -> list[pa.Array]:
        """Return the sort columns of about `_SAMPLED_ROWS` rows, evenly from all files."""
        step = max(1, sum(file.row_count for file in self.files) // _SAMPLED_ROWS)
        projection = Projection(row_batch_schema(self.state.schema, self.by))
        some: list[list[pa.Array]] = []
        at = 0
        for file in self.files:
            with self.state.opened(self.bucket, file, self.by) as data:
                for batch in data.batches():
                    taken = np.arange(-at % step, batch.num_rows, step)
                    columns = projection.of(batch).select(list(self.by)).columns
                    some.append([shortened(column).take(pa.array(taken)) for column in columns])
                    at += batch.num_rows
        return [pa.concat_arrays(column) for column in zip(*some, strict=True)]

    def _write(self, batches: Sequence[pa.RecordBatch], curve: RowCurve | None) -> None:
        """Sort rows, and write them."""
        if curve is None or not batches:
            return
        rows = _joined(batches)
        order = curve.order([rows.column(name) for name in self.by])
        shares = max(1, min(_THREADS, len(order) // _ROWS_PER_THREAD))
        bounds = [len(order) * at // shares for at in range(shares + 1)]
        parts = [order[low:high] for low, high in pairwise(bounds)]
        done: dict[int, tuple[DataFileMeta, ...]] = {}
        try:
            in_threads(
                partial(self._write_part, rows, parts, done), range(shares), _THREADS, "sort"
            )
        finally:
            # Complete files are noted even if another thread failed, so that they are removed.
            for at in sorted(done):
                self._new += done[at]

    def _write_part(
        self,
        rows: pa.RecordBatch,
        parts: Sequence[Order],
        done: dict[int, tuple[DataFileMeta, ...]],
        at: int,
    ) -> None:
        order = parts[at]
        writer = RollingWriter(
            self.state,
            self.bucket,
            rows.schema.names[2:],
            level=0,
            file_source=FILE_SOURCE_COMPACT,
            bounded=tuple(self.by),
        )
        starts = range(0, len(order), _GATHERED_ROWS)
        done[at] = writer.write_all(
            rows.take(pa.array(order[start : start + _GATHERED_ROWS])) for start in starts
        )


def _taken(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and take them out of the list, so that it does not keep their memory."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _columns(batches: Sequence[pa.RecordBatch], names: Sequence[str]) -> list[pa.Array]:
    return [pa.concat_arrays([batch.column(name) for batch in batches]) for name in names]


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows as one batch."""
    names = batches[0].schema.names
    return pa.RecordBatch.from_arrays(_columns(batches, names), schema=batches[0].schema)


def _spilled(
    rows: Iterator[pa.RecordBatch],
    by: Sequence[str],
    curve: RowCurve,
    cuts: Keys,
    space: SpillSpace,
    budget_bytes: int,
) -> Iterator[list[SpilledRun]]:
    """Spill all rows by range, then yield the runs of each range, in order. cuts: where a range ends."""
    waiting: list[list[pa.RecordBatch]] = [[] for _ in range(len(cuts) + 1)]
    runs: list[list[SpilledRun]] = [[] for _ in waiting]
    size = 0

    def spill() -> None:
        with space.new_file() as file:
            for at, batches in enumerate(waiting):
                if batches:
                    runs[at].append(file.write([_joined(batches)]))
                    batches.clear()

    for batch in rows:
        keys = curve.keys([batch.column(name) for name in by])
        of_range = np.searchsorted(cuts, keys, side="right")
        order = np.argsort(of_range, kind="stable")
        ends = np.cumsum(np.bincount(of_range, minlength=len(waiting)))
        grouped = batch.take(pa.array(order))
        for at, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if end > start:
                waiting[at].append(grouped.slice(start, end - start))
        size += memory_bytes(batch)
        if size > budget_bytes:
            spill()
            size = 0
    spill()
    yield from runs
