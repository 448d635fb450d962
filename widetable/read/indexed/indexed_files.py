"""Asks the indexes of a data file which of its rows a filter may keep.

Where several runs are merged, only indexes of key columns are asked: all records of a key are left out, or none.
Elsewhere rows are what they seem, and any column is asked. Raises DamagedError for a broken index, and what opening a
file raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from pyroaring import BitMap

from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.file_index.column_indexes import column_indexes, has_index
from widetable.read.indexed.indexed_rows import rows_kept
from widetable.read.predicate import Predicate
from widetable.schema import options as opt
from widetable.schema.types import DataField
from widetable.write.table_state import TableState


def may_ask(
    table: TableState, file: DataFileMeta, predicate: Predicate | None, *, merges: bool
) -> bool:
    """Return whether the indexes of a file may say which rows a filter keeps. merges: the rows are merged with
    those of other files.
    """
    if predicate is None or not has_index(file) or not table.options.get(opt.FILE_INDEX_READ):
        return False
    return bool(_columns(table, predicate, merges=merges))


def rows_of_file(
    table: TableState,
    bucket: BucketId,
    file: DataFileMeta,
    predicate: Predicate,
    *,
    merges: bool,
) -> BitMap | None:
    """Return the rows of a file that the filter may keep, by its indexes; None: any row."""
    columns = _columns(table, predicate, merges=merges)
    path, file_schema = table.data_file(bucket, file.file_name), table.schema_of(file.schema_id)
    with column_indexes(table.file_io, path, file, file_schema, columns) as indexes:
        return rows_kept(predicate.tree, indexes, file.row_count) if indexes else None


def groups_with(rows: BitMap, group_rows: Sequence[int]) -> list[int]:
    """Return the row groups that have one of the rows. group_rows: how many rows each group has."""
    starts = np.cumsum([0, *group_rows]).tolist()
    return [
        group
        for group, (start, end) in enumerate(pairwise(starts))
        if rows.range_cardinality(start, end)
    ]


def _columns(table: TableState, predicate: Predicate, *, merges: bool) -> list[DataField]:
    schema = table.schema
    usable = schema.trimmed_primary_key if merges else schema.names
    return [schema.field(name) for name in sorted(predicate.columns.intersection(usable))]
