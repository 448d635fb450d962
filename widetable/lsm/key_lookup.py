"""Finds the newest row of each key in sorted runs: the newest run is searched first, the next one only for the misses.

In: runs of one bucket, newest first, and key batches in key order; out: row batches in key order, at most one row per
key, including retractions. They have the key and the requested columns that a file with rows of the batch has.
Memory: one key batch and its rows (a large batch is processed in pieces), and that of the open files (parquet_rows).

    keys            1  4  7  9
    newest run      1     7            4 and 9 are searched in the next run
    next one           4'              9 is not found; its older rows of 1 and 7 are not searched for
    rows            1  4' 7

The caller must know that the newest run that has a key decides its row (`MergeWithChangelog.before`, decision 0008).
Raises the errors of reading data files, and DamagedError for a run whose files overlap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.projection import projection_of
from widetable.format.row_batch import SYSTEM_FIELDS
from widetable.format.row_budget import RowBudget
from widetable.kernels.array_types import Positions
from widetable.lsm.file_rows import Caches
from widetable.lsm.open_files import OpenFiles
from widetable.lsm.parquet_rows import joined
from widetable.lsm.rows_opener import RowsOpener
from widetable.lsm.run_rows import RunRows
from widetable.lsm.sorted_run import SortedRun
from widetable.schema.table_schema import TableSchema
from widetable.write.table_state import TableState

# The first piece of keys shows how wide their rows are.
_FIRST_PIECE_KEYS: Final = 256


def find_rows(
    table: TableState,
    bucket: BucketId,
    runs: Sequence[SortedRun],
    keys: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    caches: Caches | None,
    *,
    piece_bytes: int,
    expected_keys: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the keys, as the module docstring describes.

    keys: key batches (lsm.file_rows) that ascend, also from batch to batch. columns: requested table columns.
    expected_keys: the approximate number of keys, 0 if it is not known; it decides whether a cache is worth building.
    piece_bytes: approximate size of the rows of a piece. Lazy: files are opened when keys reach them, and closed when
    the iterator ends or is closed.
    """
    schema = table.schema
    with contextlib.closing(OpenFiles(RowsOpener(table, bucket, columns, caches))) as files:
        opened = [RunRows(files, run, schema) for run in runs]
        budget = RowBudget(piece_bytes, _FIRST_PIECE_KEYS)
        for batch in keys:
            for piece in key_pieces(batch, budget):
                rows = _newest_rows(opened, piece, expected_keys, schema)
                budget.saw(rows)
                if rows.num_rows:
                    yield rows


def key_pieces(keys: pa.RecordBatch, budget: RowBudget) -> Iterator[pa.RecordBatch]:
    """Yield a key batch in pieces; the budget decides the size of each when it is requested."""
    start = 0
    while start < keys.num_rows:
        piece = keys.slice(start, budget.rows)
        start += piece.num_rows
        yield piece


def _newest_rows(
    runs: Sequence[RunRows], keys: pa.RecordBatch, expected_keys: int, schema: TableSchema
) -> pa.RecordBatch:
    """Return the rows of one key batch, in order of the keys."""
    hits: list[Positions] = []
    batches: list[pa.RecordBatch] = []
    numbers = np.arange(keys.num_rows)
    for run in runs:
        if not len(numbers):
            break
        missed = np.ones(len(numbers), np.bool_)
        for part in run.find(keys, expected_keys):
            hits.append(numbers[part.hits])
            batches.append(part.rows)
            missed[part.hits] = False
        if not missed.all():
            rest = np.flatnonzero(missed)
            keys, numbers = keys.take(pa.array(rest)), numbers[rest]
    present = {name for batch in batches for name in batch.schema.names}
    names = present.difference(field.name for field in SYSTEM_FIELDS)
    common = projection_of(schema, sorted(names) or schema.trimmed_primary_key)
    return _by_key(hits, joined([common.of(batch) for batch in batches], common.schema))


def _by_key(hits: Sequence[Positions], rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of several files in key order; of several rows of a key only the last one."""
    numbers = np.concatenate(hits) if hits else np.empty(0, np.int64)
    if np.all(np.diff(numbers) > 0):
        return rows
    order = np.argsort(numbers, kind="stable")
    is_last = np.append(np.diff(numbers[order]) > 0, True)
    return rows.take(pa.array(order[is_last]))
