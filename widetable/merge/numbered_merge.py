"""Merge rows of a lookup: each row comes with the number of the requested key.

    numbers   0 2 3 | 0 3 | 1        run 0 | run 1 | run 2, oldest first; of any number of buckets, laid end to end:
                                     rows of two buckets never have the same number, so their runs meet in one merge
    merged    0 1 2 3                one row per number, deletes left out

Numbers order keys, so no key is compared again. In the picture rows 0 and 3 are each merged from
two runs. With `below` a number identifies the leading columns of a key, and has many rows:
the other key columns follow the number in the order. Pure: rows in, rows out. Raises what the
engine raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.format.projection import projection_of
from widetable.kernels.arrow_buffers import fixed_values
from widetable.kernels.key_lanes import key_lanes
from widetable.merge.engine import MergeEngine, plan_of
from widetable.merge.gather import gather
from widetable.merge.window import window_of_runs
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND, TableSchema


class NumberedRows(NamedTuple):
    """Rows with numbers. numbers int64[h]: the key of each row; rows: a row batch of h rows."""

    numbers: npt.NDArray[np.int64]
    rows: pa.RecordBatch


_Runs: TypeAlias = Sequence[Sequence[NumberedRows]]


def merge_numbered(
    runs: _Runs,
    schema: TableSchema,
    engine: MergeEngine,
    names: Sequence[str],
    below: Sequence[str] = (),
    full_runs: int = 0,
) -> list[NumberedRows]:
    """Merge rows, and return the rows that exist, in pieces, by number, with at least these columns. names: in the
    table's order. runs: oldest first, with `engine.needed_columns(schema, names)` as far as files have them; the
    numbers of a run ascend. below: key columns that distinguish keys of one number; the keys of a number come in their
    order. full_runs: so many of the oldest runs are at level >= 1. Raises pyarrow.ArrowInvalid for more than 2 GiB of
    text in one column of the rows of one number; rows of several numbers are split into pieces instead.
    """
    # One run of live rows, as after a full compaction, is the result as it is, perhaps with more
    # columns than requested; nothing is copied.
    pieces = [each for run in runs for each in run]
    is_one_run = sum(map(bool, runs)) <= 1
    if not pieces or (is_one_run and not below and all(map(_needs_no_merge, pieces))):
        return [_with_columns(each, schema, names) for each in pieces]
    try:
        return [
            _with_columns(_merged(runs, schema, engine, names, below, full_runs), schema, names)
        ]
    except pa.ArrowInvalid:  # more than 2 GiB of text in one column
        halves = _halves(runs)
        if halves is None:
            raise
    return [
        each
        for half in halves
        for each in merge_numbered(half, schema, engine, names, below, full_runs)
    ]


def _halves(runs: _Runs) -> tuple[_Runs, _Runs] | None:
    """Cut the runs at one number, so that all rows of a number stay together; return None for a single number."""
    numbers = np.unique(np.concatenate([each.numbers for run in runs for each in run]))
    if len(numbers) < 2:
        return None
    middle = numbers[len(numbers) // 2]
    below = [
        [_slice(each, 0, np.searchsorted(each.numbers, middle)) for each in run] for run in runs
    ]
    rest = [
        [_slice(each, np.searchsorted(each.numbers, middle), len(each.numbers)) for each in run]
        for run in runs
    ]
    return _filled(below), _filled(rest)


def _slice(piece: NumberedRows, first: np.intp | int, end: np.intp | int) -> NumberedRows:
    return NumberedRows(piece.numbers[first:end], piece.rows.slice(int(first), int(end - first)))


def _filled(runs: _Runs) -> _Runs:
    return [[each for each in run if len(each.numbers)] for run in runs]


def _merged(
    runs: _Runs,
    schema: TableSchema,
    engine: MergeEngine,
    names: Sequence[str],
    below: Sequence[str],
    full_runs: int,
) -> NumberedRows:
    numbered = [each for run in runs for each in run]
    pieces = [each.rows for each in numbered]
    numbers = np.concatenate([each.numbers for each in numbered])
    sizes = [sum(len(each.numbers) for each in run) for run in runs]
    run_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lanes = numbers.astype(np.uint64).reshape(-1, 1)
    if below:
        rest = [pa.chunked_array([piece.column(name) for piece in pieces]) for name in below]
        lanes = key_lanes([pa.chunked_array([pa.array(numbers)]), *rest])
    full_runs = full_runs if engine.counts_newest_full_row(schema) else 0
    window = window_of_runs(schema, pieces, run_offsets, lanes, full_runs)
    columns = [name for name in names if window.holders(name)]
    plan = plan_of(window, engine, columns)
    there = np.flatnonzero(~is_retraction(plan.kinds))
    rows = gather(window, plan.without_deletes(), columns)
    return NumberedRows(numbers[window.first_rows][there], rows)


def _with_columns(piece: NumberedRows, schema: TableSchema, names: Sequence[str]) -> NumberedRows:
    """Return the rows with at least these columns; a missing column is null."""
    if set(names) <= set(piece.rows.schema.names):
        return piece
    return NumberedRows(piece.numbers, projection_of(schema, names).of(piece.rows))


def _needs_no_merge(piece: NumberedRows) -> bool:
    """Whether no row needs a merge: no key repeats, and no row is a retraction.

    A file of another writer may hold a key twice, so that a single run may still need a merge.
    """
    kinds, numbers = fixed_values(piece.rows.column(VALUE_KIND), np.int8), piece.numbers
    return not is_retraction(kinds).any() and bool((numbers[1:] > numbers[:-1]).all())
