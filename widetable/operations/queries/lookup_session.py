"""Looks up rows by key, call after call, from one snapshot at a time. Plans and open files are kept between calls.

In: keys as users give them (lookup_keys). Out: one row per key, in their order (lookup_view).

A move takes the lease on the new snapshot before it releases the old one, so at each moment the snapshot that is
read is kept:

    move     choose the newest ─► lease on it ─► take over open files ─► release the old lease
    expiry                     ▲ here it may remove the chosen one: the newest is chosen again; for one that was
                                 requested: NotFoundError, and the session is as before

Where the storage takes no lease (it is read-only), nothing keeps a snapshot from expiry.

A session may have a log of what it gives (`served_request.RequestLog`). An answer that the log does not keep is not
given: its error is raised instead.

Raises InvalidError for wrong keys and a closed session, NotFoundError for a missing column or snapshot, what
scans raise for tables that this version cannot read, what reading data files raises, and what the log raises.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from threading import RLock
from typing import Any

import pyarrow as pa

from widetable.arguments import names, whole_number
from widetable.commit.holds.read_lease import ReadLease
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.newest_snapshot import lease_on
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_call import LookupCall, answer, next_calls
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.lookup_view import LookupView
from widetable.operations.queries.table_windows import (
    OpenedTiles,
    WindowCall,
    WindowsAnswer,
    session_windows,
)
from widetable.operations.windows.served_request import (
    CoarseTiles,
    Lookup,
    RequestLog,
    ServedRequest,
    Windows,
    answering,
)
from widetable.operations.windows.tile_rows import TilePiece
from widetable.operations.windows.tile_sizes import coarse_tables
from widetable.operations.windows.window import TimeWindow
from widetable.operations.windows.window_plan import MICROS
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.machine_clock import now_nanos
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
        self,
        table: OpenTable,
        columns: Sequence[str] | None,
        snapshot_id: int | None,
        log: RequestLog | None = None,
    ) -> None:
        self._table = table
        self._log = log
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
        StorageError
            The log of what is given is full in memory, and cannot be written.

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
        if self._log is not None:
            self._log.add(_looked_up(call, call.rows))
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
            Columns of the bucket key are missing, the table has no primary key, or the session has a log, which
            takes no such answers.
        """
        if self._log is not None:
            raise UnsupportedError(
                "lookup_prefix",
                found="a session with a served_log, which logs lookups and windows",
                expected="a session without one",
                action="Open another session for such calls.",
            )
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
        StorageError
            The log of what is given is full in memory, or lacks a column, and cannot be written.
        """
        call = WindowCall(features, at, tile, tile_size, on, prefix, empty_zero)
        others = coarse_tables(coarse, LookupSession)
        sessions = [(None, self), *others]
        noted = [_NotedView(session) for _, session in sessions]
        opened = [
            OpenedTiles(n.view, n, size) for n, (size, _) in zip(noted, sessions, strict=True)
        ]
        given = session_windows(keys, call, opened)
        if self._log is not None:
            self._log_windows(self._log, given, noted)
        return given.rows

    def flush_served_log(self) -> None:
        """Write what the session gave into its log, now.

        Without this call, a batch is written every 10 seconds or 10,000 rows, and when the session is closed.

        Raises
        ------
        InvalidError
            The session has no log.
        StorageError
            The log cannot be written. What was given stays in memory, and is tried again.
        """
        if self._log is None:
            raise InvalidError(
                "served_log",
                found="a lookup session without one",
                expected="a session that logs what it gives",
                action="Open it with Table.lookup_session(served_log=..).",
            )
        self._log.flush()

    def _log_windows(
        self, log: RequestLog, answer: WindowsAnswer, noted: Sequence[_NotedView]
    ) -> None:
        """Log windows that these views have answered, the own one first."""
        plan = answer.plans[0]
        features = answer.rows.select([answer.prefix + window.name for window in plan.windows])
        log.check(list(answer.keys.schema), list(features.schema))
        own, *others = [answering(n.view.chosen.snapshot, n.view.schema.id) for n in noted]
        paths = [n.session._table.path for n in noted[1:]]
        sizes = [each.size for each in answer.plans[1:]]
        coarse = tuple(map(CoarseTiles, paths, sizes, others))
        windows = tuple(
            (
                answer.prefix + each.name,
                TimeWindow(each.column, each.function.name, each.micros // MICROS),
            )
            for each in plan.windows
        )
        asked_for = Windows(windows, plan.tile, plan.size, answer.empty_zero, coarse)
        log.add(ServedRequest(answer.keys, features, answer.at, asked_for, own))

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
        """Close all files, release the snapshot, and write the rest of the log.

        It may be called more than once.

        Raises
        ------
        StorageError
            The log cannot be written. What was given stays in memory; another call tries again.
        """
        with self._lock:
            view, self._view = self._view, None
            lease, self._lease = self._lease, None
            if view is not None:
                view.close()
            if lease is not None:
                lease.release()
        if self._log is not None:
            self._log.flush()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _move(self, snapshot_id: int | None) -> None:
        """Read another snapshot. After an error the old view and lease are still in place."""
        old_lease = self._lease
        view, lease = self._chosen(snapshot_id)
        try:
            self._check_log(view)
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

    def _check_log(self, view: LookupView) -> None:
        """Make sure that the log takes the answers of a view."""
        if self._log is not None:
            schema = view.schema
            self._log.check(list(schema.arrow_schema(schema.primary_keys)), list(view.arrow_schema))

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


class _NotedView:
    """Runs a function with the view that a session has then, and notes it."""

    def __init__(self, session: LookupSession) -> None:
        self.session = session
        self.view = session._opened()

    def __call__(self, find: Callable[[LookupView], TilePiece]) -> TilePiece:
        with self.session._lock:
            view = self.session._opened()
            if view.schema.id == self.view.schema.id:
                self.view = view
                return find(view)
        # The session has moved to other columns than the call was planned with: the snapshot of then answers.
        with contextlib.closing(self.view.with_nothing_open()) as view:
            return find(view)


def _looked_up(call: LookupCall, rows: pa.Table) -> ServedRequest:
    """Return what a log keeps of a lookup."""
    view = call.answered_by
    columns = tuple(rows.schema.names)
    by = answering(view.chosen.snapshot, view.schema.id)
    return ServedRequest(call.keys, rows, now_nanos() // 1000, Lookup(columns), by)
