"""Reads rows of one snapshot, by scan or by key, with the columns that the table had then.

A scan reads only the snapshot and its schema until its rows or splits are requested.
Neither scan nor lookup takes a lease: an expiry that removes the snapshot while it is read ends the read
with NotFoundError. A lookup session or a follower keeps what it reads.

Raises InvalidError for columns, filters and keys that do not fit, NotFoundError for a missing snapshot,
UnsupportedError for a table with options that this version does not honour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import whole_number
from widetable.operations.handle.barrier_scan import barrier_scan
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.snapshot_choice import check_one_choice
from widetable.operations.queries.lookup_view import LookupView
from widetable.read.scan import TableScan
from widetable.runtime.moment import Moment


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
    """Scan the rows of one snapshot.

    By default it is the newest snapshot, with the newest columns. One of `snapshot_id`, `timestamp`, `tag`
    and `watermark` chooses another one, with the columns that the table had then. `barrier` may be given instead
    of these. Nothing is read until you ask the scan for rows: `.to_arrow()`, `.to_batches()`, `.splits()`.

    Parameters
    ----------
    columns : list of str, default None
        The columns, in the order wanted. None: all.
    filter : str or pyarrow.compute.Expression, default None
        A SQL condition, or a pyarrow expression, over any columns. None: all rows.
    snapshot_id : int, default None
        The snapshot.
    timestamp : int, datetime or str, default None
        The newest snapshot that is not younger: epoch milliseconds, a datetime or an ISO text.
    tag : str, default None
        The tag that keeps the snapshot.
    watermark : int, datetime or str, default None
        The oldest snapshot whose writers had come so far; as `timestamp`.
    barrier : int, default None
        Epoch milliseconds: the rows whose writers said that they belong to that barrier or an earlier one.

    Returns
    -------
    TableScan
        The scan; its rows come in the order of partition values, bucket and key.

    Raises
    ------
    NotFoundError
        There is no such column, snapshot, tag, time or watermark; or a writer has not completed the
        barrier, and the error names the writer.
    InvalidError
        The filter is invalid, more than one snapshot is named, or the table is not under barriers.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour.

    Examples
    --------
    >>> users.scan(["city"], "id > 1").to_arrow().to_pylist()
    [{'city': 'Bergen'}]
    """
    if barrier is not None:
        choices = {"snapshot_id": snapshot_id, "timestamp": timestamp, "tag": tag}
        check_one_choice(**choices, watermark=watermark, barrier=barrier)
        return barrier_scan(table, whole_number(barrier, "barrier"), columns, filter)
    return chosen_state(table, snapshot_id, timestamp, tag, watermark).scan(columns, filter)


def lookup(
    table: OpenTable,
    keys: Any,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
) -> pa.Table:
    """Look up the rows of keys.

    Parameters
    ----------
    keys : Arrow data, frame, dict, list of dicts or list
        Rows of the primary key columns, partition columns included, in any form that `write` takes. For a
        key of one column also its values: an Arrow array, a Series or Index of pandas, a list. Types are
        taken as writes take them. A key may come twice.
    columns : list of str, default None
        The columns, in the order wanted. None: all.
    snapshot_id : int, default None
        The snapshot, with the columns that the table had then. None: the newest one, with the newest
        columns.

    Returns
    -------
    pyarrow.Table
        One row per key, in the order of the keys; all columns are nullable. A key that is not in the
        table, is deleted or has a null gives null in every column.

    Raises
    ------
    InvalidError
        The keys do not fit the primary key.
    NotFoundError
        There is no such column or snapshot.
    UnsupportedError
        The table has no primary key, or none that says the partition, or has an option that changes its
        rows and that this version does not honour.

    Examples
    --------
    >>> users.lookup([2, 77]).to_pylist()
    [{'id': 2, 'city': 'Bergen'}, {'id': None, 'city': None}]
    """
    with contextlib.closing(LookupView(chosen_state(table, snapshot_id), columns)) as view:
        return view.lookup(keys)


def lookup_prefix(
    table: OpenTable,
    keys: Any,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    limit_per_key: int | None = None,
) -> pa.Table:
    """Look up all rows whose key begins with one of the keys.

    The cost is that of the rows that are found.

    Parameters
    ----------
    keys : Arrow data, frame, dict, list of dicts or list
        Rows of the partition columns and of leading columns of the rest of the primary key, in any form
        that `lookup` takes. All columns of the bucket key are among them. A key that comes twice gives its
        rows twice; one with a null gives none.
    columns : list of str, default None
        The columns, in the order wanted. None: all.
    snapshot_id : int, default None
        The snapshot, with the columns that the table had then. None: the newest one, with the newest
        columns.
    limit_per_key : int, default None
        The highest number of rows that a key may have. Nothing is cut off. None: any number.

    Returns
    -------
    pyarrow.Table
        First column `_key_number` (int64, the position of the key, from 0), then the columns; in the order
        of key number, then key.

    Raises
    ------
    InvalidError
        The keys do not fit the primary key, or one has more rows than `limit_per_key`.
    NotFoundError
        There is no such column or snapshot.
    UnsupportedError
        Columns of the bucket key are missing, or the table has an option that changes its rows and that
        this version does not honour.
    """
    limit = None if limit_per_key is None else whole_number(limit_per_key, "limit_per_key", least=1)
    with contextlib.closing(LookupView(chosen_state(table, snapshot_id), columns)) as view:
        return view.lookup_prefix(keys, limit)
