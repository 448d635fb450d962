"""Merge sorted runs into one, and collapse the rows of a commit: the two ways rows of equal key meet.

`merge_runs` goes key range by key range: it looks at the heads of all runs, cuts them at the smallest key that stands
behind a head, merges what lies before the cut, and goes on. So a run's own batches stay whole where nothing overlaps
them. Memory is bounded by the batches that the runs give and by their heads: as many rows of each as make `batch_bytes`
together, by their width so far. Only a key with more rows than that makes a head grow.

`collapse` makes one row per key of what a commit wrote, unless the rows of a key cannot be one record: a record cannot
say "forget all, then these values". Then what was before such a barrier and what comes after it go into files of their
own, merged by every later reader in this order (docs/decisions/0003):

    rows of key k    +I a=1   -D  ║  +I b=3       ║ a barrier of the engine: the add behind the last -D
    layers                0: -D      1: +I b=3     other keys have all their rows in layer 0

Pure: row batches in, row batches out. Raises what the engine raises, DamagedError for a run that is not in key order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.errors import DamagedError
from widetable.format.row_batch import in_schema_order
from widetable.format.row_budget import MOST_ROWS, pieces, row_bytes, rows_within
from widetable.kernels.run_cut import first_disorder, rows_before_cut
from widetable.merge.changelog import changelog, changelog_rule
from widetable.merge.engine import MergeEngine, collapse_plan_of, plan_of
from widetable.merge.gather import gather
from widetable.merge.key_order import KeyOrder
from widetable.merge.plan import MergePlan, Pick
from widetable.merge.record_expiry import RecordExpiry
from widetable.merge.window import Window, window_of_arrivals, window_of_runs
from widetable.schema import TableSchema

_SMALLEST_HEAD_ROWS = 1024
_NO_KEYS: Final = np.empty(0, np.int64)


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    engine: MergeEngine,
    columns: Sequence[str],
    *,
    keep_deletes: bool,
    batch_bytes: int,
    full_runs: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs, oldest first, of which the first `full_runs` are at level >= 1. The runs must hold
    `engine.needed_columns(schema, columns)`, as far as files do.

    Gives row batches with these columns in table order, by key, one row per key, of about batch_bytes.
    keep_deletes: keys whose row is -U or -D come too.
    """
    names = in_schema_order(schema, columns)
    full_runs = full_runs if engine.counts_newest_full_row(schema) else 0
    for window, _ in _windows(runs, schema, batch_bytes, full_runs):
        yield from pieces(_merge(window, engine, names, keep_deletes=keep_deletes), batch_bytes)


class Merged(NamedTuple):
    """A key range after a merge. All are gathered by who calls them, in any thread. changes: the changelog rows of the
    range (`changelog`), None when there are none. expired: of these the rows that went because they are too old, and
    how many.
    """

    rows: Callable[[], pa.RecordBatch]
    changes: Callable[[], pa.RecordBatch | None]
    expired: Callable[[], pa.RecordBatch | None]
    expired_rows: int


def merge_with_changes(
    known: Sequence[Iterator[pa.RecordBatch]],
    new: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    engine: MergeEngine,
    *,
    keep_deletes: bool,
    batch_bytes: int,
    full_runs: int = 0,
    staying_runs: int = 0,
    expiry: RecordExpiry | None = None,
) -> Iterator[Merged]:
    """As `merge_runs` for all columns, and what it changed. known: runs that readers of changes have seen; new: others.

    Both oldest first; every run of `known` is older than those of `new`. staying_runs: so many, the oldest, stay where
    they are; an engine that keeps a key in one file only (`looks_up`) gives no row of theirs. expiry: which rows go,
    as if they were deleted, but that no delete stays.
    """
    full_runs = full_runs if engine.counts_newest_full_row(schema) else 0
    staying_runs = staying_runs if engine.looks_up else 0
    rule = changelog_rule(schema)
    for window, run_offsets in _windows([*known, *new], schema, batch_bytes, full_runs):
        plan = plan_of(window, engine, schema.names)
        first_new_row = int(run_offsets[len(known)])
        gone = _NO_KEYS if expiry is None else expiry.gone(window, plan)
        plan = plan.deleted(gone)
        kept = plan.without(gone) if keep_deletes else plan.without_deletes()
        if staying_runs:
            stays = window.order < run_offsets[staying_runs]
            has_row = np.logical_or.reduceat(stays, window.starts[:-1])
            kept = plan.of_keys(np.flatnonzero(~has_row))
        yield Merged(
            partial(gather, window, kept, schema.names),
            partial(changelog, window, first_new_row, engine, plan, schema.names, rule, gone),
            partial(_expired, window, plan, gone, schema.names),
            len(gone),
        )


def _expired(
    window: Window, plan: MergePlan, gone: npt.NDArray[np.int64], names: Sequence[str]
) -> pa.RecordBatch | None:
    return gather(window, plan.of_keys(gone), names) if len(gone) else None


def interleave_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    columns: Sequence[str],
    *,
    batch_bytes: int,
    by_sequence: bool = False,
) -> Iterator[pa.RecordBatch]:
    """All rows of the runs by key, nothing merged: those of one key run by run, as they stand in each.

    A run may hold a key several times. by_sequence: those of one key in merge order instead, for which the runs hold
    the `sequence.field`s. Gives row batches with these columns in table order.
    """
    names = in_schema_order(schema, columns)
    for window, _ in _windows(runs, schema, batch_bytes):
        rows = window.order
        if not by_sequence:
            key = np.repeat(np.arange(len(window.starts) - 1), np.diff(window.starts))
            rows = rows[np.lexsort((rows, key))]
        pick = Pick(names, rows)
        plan = MergePlan(window.kinds[rows], window.sequence_numbers[rows], (pick,))
        yield from pieces(gather(window, plan, names), batch_bytes)


def _windows(
    runs: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    batch_bytes: int,
    full_runs: int = 0,
) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
    """Key range by key range: its window, and the row numbers at which the runs start in it (and its end)."""
    key_order = KeyOrder(schema)
    heads = [_Run(run) for run in runs]
    while True:
        for run in heads:
            run.look_at_width()
        rows = rows_within(batch_bytes, sum(run.row_bytes for run in heads))
        for run in heads:
            run.load(rows)
        if not any(run.rows for run in heads):
            return
        found = _next_window(key_order, heads, full_runs)
        if found is not None:
            yield found


def collapse(
    batches: Sequence[pa.RecordBatch], schema: TableSchema, engine: MergeEngine
) -> list[pa.RecordBatch]:
    """The rows of a commit and bucket, numbered and in normal form, as layers (docs/decisions/0003), oldest first.

    Each layer is one row batch, sorted by key, one row per key; retractions stay. The columns are those that any batch
    holds. Raises InvalidError when the engine gives a retraction no meaning.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return []
    held = {name for batch in filled for name in batch.schema.names}
    names = tuple(name for name in schema.names if name in held)
    window = window_of_arrivals(KeyOrder(schema), filled)
    layers = _layers(window, engine)
    return [gather(layer, collapse_plan_of(layer, engine, names), names) for layer in layers]


def _layers(window: Window, engine: MergeEngine) -> Iterator[Window]:
    barriers = None if window.has_single_rows_only else engine.barriers(window)
    if barriers is None:
        yield window
        return
    passed: npt.NDArray[np.int64] = np.cumsum(barriers, dtype=np.int64)
    layer_of: npt.NDArray[np.int64] = passed - np.repeat(
        passed[window.starts[:-1]], np.diff(window.starts)
    )
    for layer in range(int(layer_of.max()) + 1):
        yield window.layer(layer_of == layer)


def _merge(
    window: Window, engine: MergeEngine, columns: Sequence[str], *, keep_deletes: bool
) -> pa.RecordBatch:
    plan = plan_of(window, engine, columns)
    return gather(window, plan if keep_deletes else plan.without_deletes(), columns)


class _Run:
    """One run: the batches that are loaded and not yet merged, and how many of their rows to look at next."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._loaded: deque[pa.RecordBatch] = deque()
        self._is_read_out = False
        self._head_rows = MOST_ROWS
        self._is_grown = False
        self.row_bytes = 0.0
        self.rows = 0

    def look_at_width(self) -> None:
        """Load one batch, if none is there."""
        while not self.rows and not self._is_read_out:
            self._load_batch()

    def load(self, most_rows: int) -> None:
        """So much that the row behind the head is there, if there is one."""
        if not self._is_grown:
            self._head_rows = min(self._head_rows, most_rows)
        while self.rows <= self._head_rows and not self._is_read_out:
            self._load_batch()

    def _load_batch(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self._is_read_out = True
        elif batch.num_rows:
            self._loaded.append(batch)
            self.rows += batch.num_rows
            self.row_bytes = max(self.row_bytes, row_bytes(batch))

    @property
    def seen_rows(self) -> int:
        """The head, and the row behind it."""
        return min(self._head_rows + 1, self.rows)

    @property
    def has_more(self) -> bool:
        """Whether a row stands behind the head."""
        return self.rows > self._head_rows

    def head(self, rows: int) -> list[pa.RecordBatch]:
        """The first rows, without copies."""
        pieces = []
        for batch in self._loaded:
            if rows <= 0:
                break
            pieces.append(batch.slice(0, rows))
            rows -= batch.num_rows
        return pieces

    def drop(self, rows: int) -> None:
        """Forget merged rows. The next head is about twice as large as what this one gave."""
        self.rows -= rows
        self._head_rows = max(2 * rows, _SMALLEST_HEAD_ROWS)
        self._is_grown = False
        while rows:
            batch = self._loaded.popleft()
            if batch.num_rows > rows:
                self._loaded.appendleft(batch.slice(rows))
                return
            rows -= batch.num_rows

    def grow(self) -> None:
        """Look further: the head is full of rows of one key."""
        self._head_rows *= 2
        self._is_grown = True


def _next_window(
    key_order: KeyOrder, runs: Sequence[_Run], full_runs: int
) -> tuple[Window, npt.NDArray[np.int64]] | None:
    """The rows before the next cut, taken out of the runs; None when the heads must grow first."""
    pieces = [piece for run in runs for piece in run.head(run.seen_rows)]
    offsets = np.concatenate([[0], np.cumsum([run.seen_rows for run in runs])])
    lanes = key_order.key_lanes(pieces)
    _check_key_order(lanes, offsets, runs)
    counts = rows_before_cut(lanes, offsets, np.array([run.has_more for run in runs]))
    if not counts.any():
        for run in runs:
            run.grow()
        return None
    taken = [piece for run, rows in zip(runs, counts, strict=True) for piece in run.head(int(rows))]
    chosen = np.concatenate(
        [np.arange(first, first + rows) for first, rows in zip(offsets, counts, strict=False)]
    )
    for run, rows in zip(runs, counts, strict=True):
        run.drop(int(rows))
    run_offsets = np.concatenate([[0], np.cumsum(counts)])
    window = window_of_runs(key_order, taken, run_offsets, lanes[chosen], full_runs)
    return window, run_offsets


def _check_key_order(
    lanes: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64], runs: Sequence[_Run]
) -> None:
    row = first_disorder(lanes, offsets)
    if row >= 0:
        run = int(np.searchsorted(offsets, row, side="right")) - 1
        raise DamagedError(
            f"sorted run {run} of {len(runs)}, oldest first",
            found="a key smaller than the one before it",
            expected="rows in key order",
            action="Restore the file from a copy of the table.",
        )
