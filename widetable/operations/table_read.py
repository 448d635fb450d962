"""Rows of one snapshot, by scan or by key, with the columns that the table had then.

A scan reads nothing before its rows or splits are asked for, but for the snapshot and its schema.
Neither scan nor lookup takes a lease: an expiry that takes the snapshot while it is read ends it
with NotFoundError. A lookup session or a follower holds what it reads.

Raises InvalidError for columns, filters and keys that do not fit, NotFoundError for a snapshot that is not there,
UnsupportedError for a table that needs what this version does not honour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import whole_number
from widetable.moment import Moment
from widetable.operations.barrier_scan import barrier_scan
from widetable.operations.chosen_state import chosen_state, scan_of
from widetable.operations.lookup_view import LookupView
from widetable.operations.open_table import OpenTable
from widetable.operations.snapshot_choice import check_one_choice
from widetable.read.scan import TableScan


def scan(
    table: OpenTable,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    snapshot_id: int | None = None,
    timestamp: Moment | None = None,
    tag: str | None = None,
    watermark: Moment | None = None,
    barrier: int | None = None,
) -> TableScan:
    """The rows of one snapshot: `.to_arrow()`, `.to_batches()`, `.splits()`.

    columns: in the order wanted, None for all. filter: a SQL condition, or a pyarrow
    expression, over any columns. One of snapshot_id, timestamp (epoch milliseconds, datetime or ISO text:
    the newest snapshot that is not younger), tag and watermark (likewise: the oldest snapshot whose writers
    had come so far) chooses the snapshot, with the columns that
    the table had then; by default it is the newest one, with the newest columns. barrier: instead of these, the rows
    whose writers said that they belong to that barrier (epoch milliseconds) or an earlier one; NotFoundError while a
    writer has not completed it, which names the writer.
    """
    if barrier is not None:
        given = {"snapshot_id": snapshot_id, "timestamp": timestamp, "tag": tag}
        check_one_choice(**given, watermark=watermark, barrier=barrier)
        return barrier_scan(table, whole_number(barrier, "barrier"), columns, filter)
    at = chosen_state(table, snapshot_id, timestamp, tag, watermark)
    return scan_of(table, at, columns, filter)


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
    at, live_files = chosen_state(table, snapshot_id), table._committer.live_files
    with contextlib.closing(LookupView(at, live_files, columns)) as view:
        return view.lookup(keys)


def lookup_prefix(
    table: OpenTable,
    keys: Any,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    limit_per_key: int | None = None,
) -> pa.Table:
    """All rows whose key begins with one of the keys: first column `_key_number` int64, the position of that key, then
    the columns; ordered by it, then by key.

    keys: rows of the partition columns and of leading columns of the rest of the primary key, all columns of the bucket
    key among them (else an UnsupportedError), in any form that `lookup` takes. A key that comes twice gives its rows
    twice, one with a null none. limit_per_key: with more rows of one key an InvalidError is raised; nothing is cut off.
    columns, snapshot_id: as for `lookup`. The cost is that of the rows that are found.
    """
    limit = None if limit_per_key is None else whole_number(limit_per_key, "limit_per_key", least=1)
    at, live_files = chosen_state(table, snapshot_id), table._committer.live_files
    with contextlib.closing(LookupView(at, live_files, columns)) as view:
        return view.lookup_prefix(keys, limit)
