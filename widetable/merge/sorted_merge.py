"""Merge sorted runs into one, and collapse the rows of a commit: the two ways in which rows of equal key meet.

`merge_runs` works key range by key range (`run_windows`), in memory that the runs' batches and `batch_bytes` bound.

`collapse` makes one row per key from a commit's records, unless no single record has their effect: a record cannot
say "remove all, then set these values". Then the records before and after such a boundary go into separate files,
which every later reader merges in this order (docs/decisions/0003):

    rows of key k    +I a=1   -D  ║  +I b=3       ║ a collapse boundary: the add behind the last -D
    layers                0: -D      1: +I b=3     other keys have all their rows in layer 0

The functions, and their callers:

    merge_runs           one row per key, of some columns     readers, spilled runs, keys of a compaction
    merge_with_changes   one row per key, and changelog rows  compaction
    interleave_runs      every row                            readers of changes
    collapse             layers, one row per key in each      writers

Pure: row batches in, row batches out. Raises what the engine raises, DamagedError for a run that is not in key order.
All but `collapse` are lazy: they raise errors while their result is iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.row_budget import pieces
from widetable.merge.changelog import changelog, changelog_rule
from widetable.merge.column_cut import cut_by_columns
from widetable.merge.engine import MergeEngine, collapse_plan_of, plan_of
from widetable.merge.gather import gather
from widetable.merge.plan import MergePlan, unmerged
from widetable.merge.record_expiry import RecordExpiry
from widetable.merge.run_windows import windows
from widetable.merge.window import Window, window_of_arrivals
from widetable.schema.table_schema import TableSchema

_NO_KEYS: Final = np.empty(0, np.int64)
# The rows of a key range are gathered in so many parts, one after the other.
_PARTS: Final = 2


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

    Yields row batches with these columns in table order, by key, one row per key, of about batch_bytes. A column that
    no input of a key range has is left out of its rows. keep_deletes: keys whose row is -U or -D come too. full_runs
    matters only to engines with `counts_newest_full_row`; pass it whenever it is known.
    """
    wanted = frozenset(columns)
    full_runs = full_runs if engine.counts_newest_full_row(schema) else 0
    for window, _ in windows(runs, schema, batch_bytes, full_runs):
        names = window.chosen(wanted)
        plan = plan_of(window, engine, names)
        kept = plan if keep_deletes else plan.without_deletes()
        yield from pieces(gather(window, kept, names), batch_bytes)


class Merged(NamedTuple):
    """A key range after a merge. changes: the changelog rows of the range (`changelog`). expired, expired_rows: the
    rows that expired, and how many. run_rows: how many rows of each run the range has, first of `seen`, then of `new`.

    A call decides which rows there are; gathering, which is most of the work, happens when the iterator reaches a batch
    of some of the keys, in any thread, beside the merge of the next range. Each value holds its window, so few should
    wait at once.
    """

    rows: Callable[[], Iterator[pa.RecordBatch]]
    changes: Callable[[], Iterator[pa.RecordBatch]]
    expired: Callable[[], Iterator[pa.RecordBatch]]
    expired_rows: int
    run_rows: npt.NDArray[np.int64]


def merge_with_changes(
    seen: Sequence[Iterator[pa.RecordBatch]],
    new: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    engine: MergeEngine,
    *,
    keep_deletes: bool,
    batch_bytes: int,
    full_runs: int = 0,
    staying_runs: int = 0,
    expiry: RecordExpiry | None = None,
    budget_bytes: int | None = None,
) -> Iterator[Merged]:
    """Merge like `merge_runs`, for all columns, and yield the changes. seen: runs that readers of changes have seen.

    Runs come oldest first; every run of `seen` is older than those of `new`. So the table that
    readers have seen is the first rows of each window, up to one row number. staying_runs: so
    many of the oldest runs stay where they are; an engine that keeps a key in one file only
    (`stores_keys_once`) writes no row for their keys. expiry: which rows expire; they count as
    deleted, but leave no delete. budget_bytes: as in `windows`.
    """
    full_runs = full_runs if engine.counts_newest_full_row(schema) else 0
    staying_runs = staying_runs if engine.stores_keys_once else 0
    rule = changelog_rule(schema)
    for window, run_offsets in windows([*seen, *new], schema, batch_bytes, full_runs, budget_bytes):
        names = window.names
        plan = plan_of(window, engine, names)
        first_new_row = int(run_offsets[len(seen)])
        gone = _NO_KEYS if expiry is None else expiry.gone(window, plan)
        # In `plan` an expired row is -D, so that the changelog reports it; in `kept` it has no
        # row, not even a -D.
        plan = plan.deleted(gone)
        kept = plan.without(gone) if keep_deletes else plan.without_deletes()
        if staying_runs:
            # For first-row a key of a staying run is left out, whatever it merged to. Where runs
            # stay, no row expires (only a compaction of a whole bucket drops rows), and deletes are kept.
            stays = window.order < run_offsets[staying_runs]
            has_row = np.logical_or.reduceat(stays, window.starts[:-1])
            kept = plan.of_keys(np.flatnonzero(~has_row))
        yield Merged(
            partial(_in_parts, window, kept, names),
            partial(changelog, window, first_new_row, engine, plan, names, rule, gone),
            partial(_in_parts, window, plan.of_keys(gone), names),
            len(gone),
            np.diff(run_offsets),
        )


def _in_parts(window: Window, plan: MergePlan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Gather the rows of a plan in parts, because a writer holds the gathered rows beside their window."""
    parts = np.array_split(np.arange(len(plan.kinds)), _PARTS)
    return (gather(window, plan.of_keys(keys), names) for keys in parts if len(keys))


def interleave_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    schema: TableSchema,
    columns: Sequence[str],
    *,
    batch_bytes: int,
    by_sequence: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the runs by key, without merging: the rows of one key run by run, in file order.

    A run may hold a key several times. by_sequence: the rows of one key in merge order instead, for which the runs hold
    the `sequence.field`s. Yields row batches with these columns in table order.
    """
    wanted = frozenset(columns)
    for window, _ in windows(runs, schema, batch_bytes):
        names, rows = window.chosen(wanted), window.order
        if not by_sequence:
            # Row numbers ascend run by run and, within a run, in file order: the required order,
            # key by key.
            key = window.by_row(np.arange(len(window.starts) - 1))
            rows = rows[np.lexsort((rows, key))]
        yield from pieces(gather(window, unmerged(window, names, rows), names), batch_bytes)


def collapse(
    batches: Sequence[pa.RecordBatch],
    schema: TableSchema,
    engine: MergeEngine,
    *,
    by_columns: bool = False,
) -> list[pa.RecordBatch]:
    """Collapse the rows of a commit and bucket, numbered and in normal form, to layers (docs/decisions/0003), oldest
    first.

    Each layer is one row batch, sorted by key, one row per key; retractions stay. The columns are those that any batch
    holds. by_columns: a layer is as many batches as its keys carry sets of columns (`column_cut`), each with the
    columns of its keys. Raises InvalidError when the engine gives a retraction no meaning.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return []
    whole = window_of_arrivals(schema, filled)
    return [
        gather(window, collapse_plan_of(window, engine, names), names)
        for layer in _layers(whole, engine)
        for window, names in (cut_by_columns(layer) if by_columns else ((layer, whole.names),))
    ]


def _layers(window: Window, engine: MergeEngine) -> Iterator[Window]:
    """Yield layers: layer i has the rows with i boundaries of their key up to them. Boundaries of other keys do
    not count, so a key without any has all its rows in layer 0.

        boundaries  F T F T | F F | F T
        passed      0 1 1 2   2 2   2 3       cumulative count
        layer_of    0 1 1 2   0 0   0 1       minus the count at the key's first row
    """
    boundaries = None if window.has_single_rows_only else engine.boundaries(window)
    if boundaries is None:
        yield window
        return
    passed: npt.NDArray[np.int64] = np.cumsum(boundaries, dtype=np.int64)
    layer_of = passed - window.by_row(passed[window.starts[:-1]])
    for layer in range(int(layer_of.max()) + 1):
        yield window.layer(layer_of == layer)
