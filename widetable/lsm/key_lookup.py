"""The newest row of each key in sorted runs: newest run first, and only the misses go on to the next.

In: runs of one bucket, newest first, and key batches in key order; out: row batches in key order, one row per key at
most, retractions too. They have the columns asked for and the key, as far as a file with rows of the batch has them.
Memory: one key batch and its rows (a large batch is worked off in pieces), and what an open file holds (parquet_rows).

    keys            1  4  7  9
    newest run      1     7            4 and 9 go on
    next one           4'              9 goes on; its 1 and 7, older rows, are not even asked for
    rows            1  4' 7

That the newest run alone may answer for a key is the caller's knowledge
(`MergeWithChangelog.before`, decision 0008). Raises what reading data files raises, and
DamagedError for a run whose files overlap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.format.bucket_id import BucketId
from widetable.format.row_batch import SYSTEM_FIELDS, project, row_batch_schema
from widetable.format.row_budget import RowBudget
from widetable.kernels.key_match import Positions
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
    """The rows of the keys, as the module text says.

    keys: key batches (lsm.file_rows) that ascend, also from one to the next.
    columns: table columns wanted, any. expected_keys: about how many keys there will be, 0 when nobody knows; it
    decides whether a cache is worth building. piece_bytes: so much do the rows take that are found at once. Lazy: files
    are opened when keys come to them, and closed when the result ends or is let go.
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
    """A key batch in pieces, as many keys in each as the budget says when it is asked for."""
    start = 0
    while start < keys.num_rows:
        piece = keys.slice(start, budget.rows)
        start += piece.num_rows
        yield piece


def _newest_rows(
    runs: Sequence[RunRows], keys: pa.RecordBatch, expected_keys: int, schema: TableSchema
) -> pa.RecordBatch:
    """The rows of one key batch, all at once; in order of the keys."""
    hits: list[Positions] = []
    batches: list[pa.RecordBatch] = []
    numbers = np.arange(keys.num_rows)
    for run in runs:
        if not len(numbers):
            break
        missed = np.ones(len(numbers), np.bool_)
        for found in run.find(keys, expected_keys):
            hits.append(numbers[found.hits])
            batches.append(found.rows)
            missed[found.hits] = False
        if not missed.all():
            rest = np.flatnonzero(missed)
            keys, numbers = keys.take(pa.array(rest)), numbers[rest]
    held = {name for batch in batches for name in batch.schema.names}
    names = held.difference(field.name for field in SYSTEM_FIELDS)
    both = row_batch_schema(schema, names or schema.trimmed_primary_key)
    return _by_key(hits, joined([project(batch, both) for batch in batches], both))


def _by_key(hits: Sequence[Positions], rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of several files in the order of their keys, and of rows of one key only the last."""
    numbers = np.concatenate(hits) if hits else np.empty(0, np.int64)
    if np.all(np.diff(numbers) > 0):
        return rows
    order = np.argsort(numbers, kind="stable")
    is_last = np.append(np.diff(numbers[order]) > 0, True)
    return rows.take(pa.array(order[is_last]))
