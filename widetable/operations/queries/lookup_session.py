"""Looks up rows by key, call after call, from one snapshot at a time. Plans and open files are kept between calls.

In: keys as users give them (lookup_keys). Out: one row per key, in their order (lookup_view).

A move takes the lease on the new snapshot before it releases the old one, so at each moment the snapshot that is
read is kept:

    move     choose the newest ─► lease on it ─► take over open files ─► release the old lease
    expiry                     ▲ here it may remove the chosen one: the newest is chosen again; for one that was
                                 requested: NotFoundError, and the session is as before

Where the storage takes no lease (it is read-only), nothing keeps a snapshot from expiry.
Raises InvalidError for wrong keys and a closed session, NotFoundError for a missing column or snapshot, what
scans raise for tables that this version cannot read, and what reading data files raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import RLock
from typing import Any

import pyarrow as pa

from widetable.arguments import names, whole_number
from widetable.commit.holds.read_lease import ReadLease
from widetable.errors import InvalidError, NotFoundError
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.newest_snapshot import lease_on
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_call import LookupCall, answer, next_calls
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_windows import OpenedTiles, WindowCall, session_windows
from widetable.operations.windows.tile_rows import TilePiece
from widetable.operations.windows.tile_sizes import coarse_tables
from widetable.operations.windows.window import TimeWindow
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.not_pickled import not_pickled
from widetable.write.table_state import TableState


class LookupSession(SharedByThreads, AbstractContextManager["LookupSession"]):
    """Lookups of rows by key, call after call, from one snapshot at a time.

    `Table.lookup_session` makes it. Threads may share it: they take turns, and waiting calls for few keys are answered
    together. In a forked child it is open, has no open files, and keeps no snapshot from expiry until it moves.

    It releases its snapshot when it is closed or garbage-collected; use `with`. It never looks for a newer snapshot by
    itself: `move` does so.

    Examples
    --------
    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> users = catalog.create_table("shop.users", columns, primary_key=["id"])
    >>> users.write([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]).snapshot_id
    1
    >>> session = users.lookup_session()
    >>> session.snapshot_id
    1
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(
        self, table: OpenTable, columns: Sequence[str] | None, snapshot_id: int | None
    ) -> None:
        self._table = table
        self._columns = None if columns is None else names(columns, "columns")
        self._lease: ReadLease | None = None
        self._view: LookupView | None = None
        super().__init__()
        self._move(snapshot_id)

    def _reset(self) -> None:
        self._lock = RLock()
        self._waiting: deque[LookupCall] = deque()
        if self._view is not None:
            self._view = self._view.with_nothing_open()

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None if the table had none."""
        snapshot = self._opened().chosen.snapshot
        return None if snapshot is None else snapshot.id

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that `lookup` returns, all nullable."""
        view = self._opened()
        return view.arrow_schema

    def lookup(self, keys: Any) -> pa.Table:
        """Look up the rows of keys, as `Table.lookup` does.

        They are those of the snapshot that the session reads when the call has its turn. The rows may share memory with
        those of other calls.

        Parameters
        ----------
        keys : Arrow data, frame, dict, list of dicts or list
            The keys, in any form that `Table.lookup` takes.

        Returns
        -------
        pyarrow.Table
            One row per key, in the order of the keys; all columns are nullable. A key that is not in the table, is
            deleted or has a null gives null in every column.

        Raises
        ------
        InvalidError
            The keys do not fit the primary key, or the session is closed.
        UnsupportedError
            The table has no primary key, or none that says the partition.

        Examples
        --------
        >>> session.lookup([2, 77]).to_pylist()
        [{'id': 2, 'city': 'Bergen'}, {'id': None, 'city': None}]
        """
        view = self._opened()
        # Before its turn, so that wrong keys do not affect other calls.
        call = LookupCall(view, key_rows(keys, view.schema))
        self._waiting.append(call)
        with self._lock:
            # Not None: another thread answered this call while it waited.
            if call.rows is None:
                call.rows = answer(next_calls(call, self._waiting), self._opened())
        return call.rows

    def lookup_prefix(self, keys: Any, limit_per_key: int | None = None) -> pa.Table:
        """Look up all rows whose key begins with one of the keys, as `Table.lookup_prefix` does.

        Parameters
        ----------
        keys : Arrow data, frame, dict, list of dicts or list
            The keys, in any form that `Table.lookup_prefix` takes.
        limit_per_key : int, default None
            The highest number of rows that a key may have. Nothing is cut off. None: any number.

        Returns
        -------
        pyarrow.Table
            First column `_key_number` (int64, the position of the key, from 0), then the columns; in the order of
            key number, then key.

        Raises
        ------
        InvalidError
            The keys do not fit the primary key, one has more rows than `limit_per_key`, or the session is closed.
        UnsupportedError
            Columns of the bucket key are missing, or the table has no primary key.
        """
        limit = (
            None if limit_per_key is None else whole_number(limit_per_key, "limit_per_key", least=1)
        )
        with self._lock:
            return self._opened().lookup_prefix(keys, limit)

    def windows(
        self,
        keys: Any,
        features: Mapping[str, TimeWindow],
        *,
        at: datetime | int | None = None,
        tile: str = "tile",
        tile_size: Any = None,
        on: Sequence[str] | Mapping[str, str] | None = None,
        prefix: str = "",
        empty_zero: bool = False,
        coarse: Sequence[LookupSession] | Mapping[str, LookupSession] = (),
    ) -> pa.Table:
        """Compute features over windows of time for keys, as of now, as `Table.windows` does for rows with a time.

        The table is a tile table, and the session reads its key and the columns of the features.

        Parameters
        ----------
        keys : Arrow data, frame, dict of columns, list of dicts or list
            The entity's key columns, and any others; for an entity of one column also its values.
        features : dict of str to TimeWindow
            The windows (`widetable.window`) by the name of the column to add.
        at : datetime or int, default None
            The time, or epoch milliseconds; a datetime without a zone is UTC. None: the clock of this machine.
        tile, tile_size, on, prefix, empty_zero
            As in `Table.windows`.
        coarse : list of LookupSession or dict of str to LookupSession, default ()
            Sessions of tables with larger tiles, as in `Table.windows`.

        Returns
        -------
        pyarrow.Table
            One row per key, in their order: the columns of the keys, then the features.

        Raises
        ------
        InvalidError
            An argument or a feature does not fit, a sum exceeds the type of its column, or the session is closed or
            reads too few columns.
        NotFoundError
            There is no such column.
        UnsupportedError
            The table is no tile table.
        """
        call = WindowCall(features, at, tile, tile_size, on, prefix, empty_zero)
        others = coarse_tables(coarse, LookupSession)
        sessions = [(None, self), *others]
        opened = [OpenedTiles(s._opened(), s._with_view, size) for size, s in sessions]
        return session_windows(keys, call, opened)

    def _with_view(self, find: Callable[[LookupView], TilePiece]) -> TilePiece:
        with self._lock:
            return find(self._opened())

    def move(self, snapshot_id: int | None = None) -> None:
        """Read another snapshot from now on.

        Only files that are new will be opened. A call that fails leaves the session as it was.

        Parameters
        ----------
        snapshot_id : int, default None
            The snapshot. None: the newest.

        Raises
        ------
        NotFoundError
            There is no such snapshot.
        InvalidError
            The session is closed.

        Examples
        --------
        >>> users.write([{"id": 77, "city": "Bodø"}]).snapshot_id
        2
        >>> session.move()
        >>> session.lookup([77]).to_pylist()
        [{'id': 77, 'city': 'Bodø'}]
        """
        with self._lock:
            self._opened()
            self._move(snapshot_id)

    def close(self) -> None:
        """Close all files, and release the snapshot.

        It may be called more than once.
        """
        with self._lock:
            view, self._view = self._view, None
            lease, self._lease = self._lease, None
            if view is not None:
                view.close()
            if lease is not None:
                lease.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _move(self, snapshot_id: int | None) -> None:
        """Read another snapshot. After an error the old view and lease are still in place."""
        old_lease = self._lease
        view, lease = self._chosen(snapshot_id)
        try:
            if self._view is not None:
                view.take_over(self._view)
        except BaseException:
            view.close()
            if lease is not None and lease is not old_lease:
                lease.release()
            raise
        self._view, self._lease = view, lease
        if old_lease is not None and old_lease is not lease:
            old_lease.release()

    def _opened(self) -> LookupView:
        """Return the view. Raises InvalidError when the session is closed."""
        if self._view is None:
            raise InvalidError(
                "lookup session",
                found="a closed session",
                expected="an open session",
                action="Open a new one with Table.lookup_session.",
            )
        return self._view

    def _chosen(self, snapshot_id: int | None) -> tuple[LookupView, ReadLease | None]:
        """Return the view of a snapshot with the lease on it. If the newest one expires meanwhile, choose again."""
        committer = self._table._committer
        while True:
            chosen = chosen_state(self._table, snapshot_id)
            view = LookupView(chosen, self._columns)
            if chosen.snapshot is None:
                return view, None
            try:
                return view, self._lease_of(chosen.state, chosen.snapshot.id)
            except NotFoundError:
                if snapshot_id is not None or committer.snapshots.latest_id() == chosen.snapshot.id:
                    raise

    def _lease_of(self, table: TableState, snapshot_id: int) -> ReadLease | None:
        """Return the current lease if it is for this snapshot, else take a new one in addition."""
        lease = self._lease
        if lease is not None and lease.is_ours and lease.snapshot_id == snapshot_id:
            return lease
        return lease_on(table, snapshot_id)


def lookup_session(
    table: OpenTable, columns: Sequence[str] | None = None, snapshot_id: int | None = None
) -> LookupSession:
    """Open a session that looks up rows by key, call after call, from one snapshot.

    `.lookup(keys)` works as `Table.lookup`, `.move(snapshot_id)` goes to another snapshot, `.close()` ends
    the session; or use `with`. The session keeps plans and open files between calls, so a call for a
    few keys costs a small part of `Table.lookup`. It keeps its snapshot from expiry for as long as it is
    open, unless the storage is read-only.

    Parameters
    ----------
    columns : list of str, default None
        The columns, in the order wanted. None: all.
    snapshot_id : int, default None
        The snapshot, with the columns that the table had then. None: the newest one, with the newest
        columns.

    Returns
    -------
    LookupSession
        The open session.

    Raises
    ------
    NotFoundError
        There is no such column or snapshot.
    UnsupportedError
        The table has an option that changes its rows and that this version does not honour.

    Examples
    --------
    >>> with users.lookup_session(["city"]) as session:
    ...     session.lookup([1]).to_pylist()
    [{'city': 'Oslo'}]
    """
    return LookupSession(table, columns, snapshot_id)
