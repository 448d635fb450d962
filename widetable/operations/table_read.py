"""Rows of one snapshot, by scan or by key, with the columns that the table had then.

Raises InvalidError for columns, filters and keys that do not fit, NotFoundError for a snapshot that is not there,
UnsupportedError for a table that needs what this version does not honour.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from widetable import options as opt
from widetable.format.snapshot import Snapshot
from widetable.operations.lookup import lookup_rows
from widetable.operations.lookup_caches import caches_of
from widetable.operations.open_table import OpenTable
from widetable.operations.snapshot_choice import choose_snapshot
from widetable.operations.supported import check_readable
from widetable.read.filters import parse
from widetable.read.scan import TableScan
from widetable.schema import TableSchema
from widetable.write.table_state import TableState


class _Chosen(NamedTuple):
    """snapshot: None: there is none yet. is_rescaled: whether the number of buckets was ever changed."""

    snapshot: Snapshot | None
    state: TableState
    is_rescaled: bool


def scan(
    table: OpenTable,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    snapshot_id: int | None = None,
    timestamp: int | datetime | None = None,
    tag: str | None = None,
) -> TableScan:
    """The rows of one snapshot: `.to_arrow()`, `.to_batches()`, `.splits()`.

    columns: in the order wanted, None for all. filter: a SQL condition, or a pyarrow
    expression, over any columns. One of snapshot_id, timestamp (epoch milliseconds or datetime:
    the newest snapshot that is not younger) and tag chooses the snapshot, with the columns that
    the table had then; by default it is the newest one, with the newest columns.
    """
    snapshot, state, is_rescaled = _choose(table, snapshot_id, timestamp, tag)
    condition = None if filter is None else parse(filter, state.schema)
    live_files = table._committer.live_files
    return TableScan(state, live_files, snapshot, columns, condition, rescaled=is_rescaled)


def lookup(
    table: OpenTable,
    keys: Any,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
) -> pa.Table:
    """The rows of keys: one row per key, in their order, all columns nullable.

    keys: rows of the primary key columns, partition columns included, in any form that `write`
    takes; for a key of one column also its values, as an Arrow array, a Series or Index of
    pandas, a list. Types are taken as writes take them; keys may come twice. columns: in the order
    wanted, None for all. A key that is not in the table, is deleted or has a null gives null in
    every column. snapshot_id: with the columns that the table had then; by default the newest
    snapshot, with the newest columns.
    """
    snapshot, state, is_rescaled = _choose(table, snapshot_id, None, None)
    live_files, caches = table._committer.live_files, caches_of(state)
    return lookup_rows(state, live_files, snapshot, keys, columns, caches, rescaled=is_rescaled)


def _choose(
    table: OpenTable,
    snapshot_id: int | None,
    timestamp: int | datetime | None,
    tag: str | None,
) -> _Chosen:
    """The newest snapshot with the newest columns, or one that is asked for with the columns of its time."""
    committer = table._committer
    snapshot = choose_snapshot(committer.snapshots, table._tags, snapshot_id, timestamp, tag)
    schema = newest = table.schema
    if snapshot is not None and (snapshot_id, timestamp, tag) != (None, None, None):
        schema = committer.schemas.load(snapshot.schema_id)
    check_readable(schema)
    return _Chosen(snapshot, table._state(schema), _is_rescaled(table, newest))


def _is_rescaled(table: OpenTable, newest: TableSchema) -> bool:
    """Other clients allow it."""
    load = table._committer.schemas.load
    return any(
        load(id).options.get(opt.BUCKET.key) != newest.options.get(opt.BUCKET.key)
        for id in range(newest.id)
    )
