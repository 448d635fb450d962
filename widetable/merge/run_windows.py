"""Sorted runs, key range by key range: the rows that meet in a merge.

The head of a run is its first loaded rows. The heads are cut at the smallest key that follows a head; the rows before
the cut are a window, and so on. A single run yields its batches whole, without copies. Memory is bounded by the batches
that the runs yield and by their heads: as many rows of each as take `batch_bytes` together, by their width so far. Only
a key with more rows than that makes a head grow.

    run 0   a b c d [e]      awake: its head is read            Of many runs those sleep whose first key is behind the
    run 1       c d e f      awake                              smallest last key in a head: e here. They are
    run 2                 g  asleep: only g is read             woken in the order of these keys, and limit the cut.

A bucket that was not compacted for long has hundreds of runs, of which a few meet at any key: a window costs only as
much as these. Pure. Raises DamagedError for a run that is not in key order.

One iteration of `windows`, and the invariant after each step:

    load      each awake run has its head and, unless it ends there, the row behind it
    wake      no sleeper begins at or before the smallest last key of the heads; otherwise wake those and load again
    cut       every key before the cut has all its rows, of all runs, in the heads
    take      the window; the next heads have twice the rows that were taken: a run that contributes few rows has a
              small head, because each iteration makes lanes of all heads
    grow      when nothing is before the cut, one key fills a head; heads double until another key appears

So each key is in one window only, and windows come in key order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.row_budget import MAX_ROWS, check_row, row_bytes, rows_within
from widetable.kernels.run_cut import first_disorder, rows_before_cut, rows_reached
from widetable.merge.key_order import lanes_of_keys
from widetable.merge.window import Window, window_of_runs
from widetable.schema.table_schema import TableSchema

_SMALLEST_HEAD_ROWS: Final = 1024
# So few runs are all awake from the start.
_FEW_RUNS: Final = 8


def windows(
    runs: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    batch_bytes: int,
    full_runs: int = 0,
    budget_bytes: int | None = None,
) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
    """Yield for each key range its window, and the row numbers at which the runs start in it (and its end). runs:
    oldest first, the first `full_runs` of full rows.

    Run i has the rows numbers[i] : numbers[i + 1] of the window, none where these are equal.
    Nothing is read before the first window is requested, and batches are released when their rows
    are taken. batch_bytes: memory for the heads of all runs together. A run may hold a key
    several times. budget_bytes: the limit for one row of each run together (`check_row`); None: no
    limit.
    """
    every = [_Run(number, run) for number, run in enumerate(runs)]
    for run in every:
        run.fill(1)
    filled = [run for run in every if run.rows]
    sleepers = _Sleepers(schema, filled)
    awake = sleepers.wake(len(filled) if len(filled) <= _FEW_RUNS else 1)
    while awake:
        widths = sum(run.row_bytes for run in awake)
        if budget_bytes is not None:
            check_row(widths, budget_bytes, f"a merge of {len(awake)} sorted runs")
        rows = rows_within(batch_bytes, widths)
        # A single run is taken batch by batch: no head then spans two batches, which would be
        # joined.
        if len(awake) == 1:
            rows = min(rows, awake[0].batch_rows)
        for run in awake:
            run.load(rows)
        heads = _Heads(schema, awake, sleepers, len(every))
        woken = sleepers.wake(heads.reached)
        if woken:
            awake = sorted((*awake, *woken), key=lambda run: run.number)
            continue
        counts = heads.counts()
        if counts.any():
            yield heads.taken(counts, full_runs)
        else:
            for run in awake:
                run.grow()
        for run in awake:
            run.fill(1)
        awake = [run for run in awake if run.rows] or sleepers.wake(1)


class _Heads:
    """The rows that decide one window: the heads of the awake runs, and the first keys of the sleepers."""

    def __init__(
        self, schema: TableSchema, awake: Sequence[_Run], sleepers: _Sleepers, runs: int
    ) -> None:
        """Encode the keys of the heads. runs: how many there are, including those that have ended."""
        self._runs = runs
        self._schema = schema
        self._awake = awake
        seen = [run.seen_rows for run in awake]
        self._offsets = np.cumsum([0, *seen, sleepers.first_keys.num_rows])
        pieces = [piece for run in awake for piece in run.head(run.seen_rows)]
        self._lanes = lanes_of_keys(schema, [*pieces, sleepers.first_keys])
        self._has_sleepers = sleepers.first_keys.num_rows > 0
        self._check_key_order()

    @property
    def reached(self) -> int:
        """How many sleepers begin at or before the smallest last key of the heads."""
        return rows_reached(self._lanes, self._offsets) if self._has_sleepers else 0

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how many rows of each head are before the cut. Requires that `reached` is 0.

        The first sleeper counts as a run of one row with more behind it: the cut must not pass
        its first key.
        """
        offsets, more = self._offsets[:-1], [run.has_more for run in self._awake]
        if self._has_sleepers:
            offsets, more = np.append(offsets, offsets[-1] + 1), [*more, True]
        return rows_before_cut(self._lanes, offsets, np.array(more))[: len(self._awake)]

    def taken(
        self, counts: npt.NDArray[np.int64], full_runs: int
    ) -> tuple[Window, npt.NDArray[np.int64]]:
        """Return the window of so many rows of each head, and drop these from the heads."""
        pairs = zip(self._awake, counts.tolist(), strict=True)
        taken = [piece for run, rows in pairs for piece in run.take(rows)]
        firsts = self._offsets[: len(counts)]
        chosen = [np.arange(first, first + n) for first, n in zip(firsts, counts, strict=True)]
        lanes = self._lanes[np.concatenate(chosen)]
        of_all = np.zeros(self._runs, np.int64)
        of_all[[run.number for run in self._awake]] = counts
        run_offsets = np.concatenate([[0], np.cumsum(of_all)])
        window = window_of_runs(self._schema, taken, run_offsets, lanes, full_runs)
        return window, run_offsets

    def _check_key_order(self) -> None:
        row = first_disorder(self._lanes, self._offsets)
        if row >= 0:
            run = self._awake[int(np.searchsorted(self._offsets, row, side="right")) - 1]
            raise DamagedError(
                f"sorted run {run.number} of {self._runs}, oldest first",
                found="a key smaller than the one before it",
                expected="rows in key order",
                action="Restore the file from a copy of the table.",
            )


class _Sleepers:
    """Runs of which no row was taken, by their first key. first_keys: ascending."""

    def __init__(self, schema: TableSchema, runs: Sequence[_Run]) -> None:
        rows = [run.head(1)[0] for run in runs]
        keys = {
            name: pa.chunked_array([row.column(name) for row in rows]).combine_chunks()
            for name in (schema.trimmed_primary_key if rows else ())
        }
        self.first_keys = pa.RecordBatch.from_pydict(keys)
        self._runs: list[_Run] = []
        if rows:
            lanes = lanes_of_keys(schema, [self.first_keys])
            order = np.lexsort(lanes.T[::-1])
            self.first_keys = self.first_keys.take(pa.array(order))
            self._runs = [runs[at] for at in order]

    def wake(self, count: int) -> list[_Run]:
        """Remove the first `count` sleepers, and return them, oldest first."""
        woken, self._runs = self._runs[:count], self._runs[count:]
        self.first_keys = self.first_keys.slice(count)
        return sorted(woken, key=lambda run: run.number)


class _Run:
    """One run: the batches that are loaded and not yet merged, and the size of its head. number: among all runs, oldest
    first.

    rows: how many are loaded and not taken. row_bytes: of the widest batch so far; 0 until one is
    loaded.
    """

    def __init__(self, number: int, batches: Iterator[pa.RecordBatch]) -> None:
        self.number: Final = number
        self._batches = batches
        self._loaded: deque[pa.RecordBatch] = deque()
        self._is_read_out = False
        self._head_rows = MAX_ROWS
        self._is_grown = False
        self.row_bytes = 0.0
        self.rows = 0

    def load(self, most_rows: int) -> None:
        """Load the head and the row behind it, if there is one.

        A head that grew keeps its size: otherwise the budget would shrink it again, and the key that
        fills it would never end.
        """
        if not self._is_grown:
            self._head_rows = min(self._head_rows, most_rows)
        self.fill(self._head_rows + 1)

    def fill(self, rows: int) -> None:
        """Load batches until so many rows are loaded, or the run ends."""
        while self.rows < rows and not self._is_read_out:
            batch = next(self._batches, None)
            if batch is None:
                self._is_read_out = True
            elif batch.num_rows:
                self._loaded.append(batch)
                self.rows += batch.num_rows
                self.row_bytes = max(self.row_bytes, row_bytes(batch))

    @property
    def batch_rows(self) -> int:
        """How many rows are left of the first batch."""
        return int(self._loaded[0].num_rows)

    @property
    def seen_rows(self) -> int:
        """How many rows the head and the row behind it are."""
        return min(self._head_rows + 1, self.rows)

    @property
    def has_more(self) -> bool:
        """Whether a row follows the head."""
        return self.rows > self._head_rows

    def head(self, rows: int) -> list[pa.RecordBatch]:
        """Return the first rows, without copies."""
        pieces = []
        for batch in self._loaded:
            if rows <= 0:
                break
            pieces.append(batch.slice(0, rows))
            rows -= batch.num_rows
        return pieces

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """Remove and return the first rows. The next head is about twice as large."""
        taken = self.head(rows)
        self.rows -= rows
        self._head_rows = max(2 * rows, _SMALLEST_HEAD_ROWS)
        self._is_grown = False
        while rows:
            batch = self._loaded.popleft()
            if batch.num_rows > rows:
                self._loaded.appendleft(batch.slice(rows))
            rows = max(rows - batch.num_rows, 0)
        return taken

    def grow(self) -> None:
        """Double the head, which is full of rows of one key."""
        self._head_rows *= 2
        self._is_grown = True
