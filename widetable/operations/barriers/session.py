"""A session: several tables under barriers, read at one barrier for as long as it is open.

    T      the newest barrier that is complete and exact in all of them, or a requested one
    pins   a read lease in each table on the oldest snapshot that its rows as of T need; none if the storage is
           read-only

Choosing and pinning are no transaction:

    session     chooses T; T needs table a from snapshot 7 on ─────────► lease on 7 ─► does 7 exist, not noted? no
    expiry of a                          notes 7, looks for leases: none ─► removes 7

If an expiry was faster like this, all pins are released, and T is chosen again. The expiry of a table keeps its newest
complete barrier, so the next choice succeeds unless the tables progress as fast as the session tries.
The revision is read once for all tables (0046).
Source: rules R17 and R20 of docs/consistency.md. Raises NotFoundError for a barrier that is not complete or has
expired, which names table and writer, InvalidError for tables that are under different barriers or none, and what
reading a table raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import text
from widetable.commit.barriers.barrier_table import one_interval
from widetable.commit.barriers.staged_commit import StagedCommit, in_force, staged_commits
from widetable.commit.holds.read_lease import ReadLease, hold_if_taken
from widetable.commit.snapshots.published_files import PublishedFile, PublishedFiles
from widetable.commit.transaction.staged_order import in_order
from widetable.errors import InvalidError, NotFoundError, UnsupportedError
from widetable.messages.counted import counted
from widetable.operations.barriers.common_barrier import common_barrier
from widetable.operations.handle.barrier_scan import (
    active_revision,
    barrier_views,
    behind_expiry,
)
from widetable.operations.handle.chosen_state import ChosenState, chosen_state, state_of_view
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.read.barrier_view import BarrierViews, waiting_for
from widetable.read.scan import TableScan
from widetable.read.staged_view import StagedBarriers, newest_staged
from widetable.runtime.not_pickled import not_pickled
from widetable.schema.barrier_options import BARRIER_INTERVAL, BARRIER_STAGE

REPEATABLE_READ: Final = "RepeatableRead"
READ_COMMITTED: Final = "ReadCommitted"
READ_UNCOMMITTED: Final = "ReadUncommitted"
CONSISTENCIES: Final = (REPEATABLE_READ, READ_COMMITTED, READ_UNCOMMITTED)
# How often a session tries to choose and pin a barrier.
_TRIES: Final = 10


class SessionTable:
    """A table of a session.

    `Session.table` makes it. Its rows and columns are those of the session's barrier or snapshot, whatever is committed
    meanwhile. Threads may share it.
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(self, table: OpenTable, at: ChosenState, lease: ReadLease | None) -> None:
        """Make the table of a session. at: the fixed state to read. lease: keeps it from expiry, and the session
        releases it; None for a table that had no snapshot, which stays empty for this session.
        """
        self._lease = lease
        self._is_closed = False
        self._table = table
        self._at = at

    def __repr__(self) -> str:
        return f"SessionTable({self._table.path!r})"

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot by which another client reads the same rows; None if no snapshot has exactly these."""
        view, snapshot = self._at.view, self._at.snapshot
        if view is not None:
            return view.snapshot_id
        return None if snapshot is None else snapshot.id

    def scan(
        self, columns: Sequence[str] | None = None, filter: str | pc.Expression | None = None
    ) -> TableScan:
        """Scan the rows of the table.

        Parameters
        ----------
        columns : list of str, default None
            The columns, in the order of the result. None: all.
        filter : str or pyarrow.compute.Expression, default None
            A SQL condition, or a pyarrow expression, as in `Table.scan`. None: all rows.

        Returns
        -------
        TableScan
            The scan; its rows come in the order of partition values, bucket and key.

        Raises
        ------
        InvalidError
            The session is closed, or the filter is not valid.
        NotFoundError
            There is no such column.
        UnsupportedError
            The table has an option that changes its rows and that this version does not honour.
        """
        self._check_open()
        return self._at.scan(columns, filter)

    def lookup(self, keys: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """Look up the rows of keys; each call opens the files again.

        Parameters
        ----------
        keys : Arrow data, frame, dict, list of dicts or list
            The keys, in any form that `Table.lookup` takes.
        columns : list of str, default None
            The columns, in the order of the result. None: all.

        Returns
        -------
        pyarrow.Table
            One row per key, in the order of the keys; all columns are nullable. A key that is not in the table, is
            deleted or has a null gives null in every column.

        Raises
        ------
        InvalidError
            The session is closed, or the keys do not fit the primary key.
        NotFoundError
            There is no such column.
        UnsupportedError
            The table has no primary key, or one that does not determine the partition, or has an option that changes
            its rows and that this version does not honour.
        """
        self._check_open()
        with contextlib.closing(LookupView(self._at, columns)) as view:
            return view.lookup(keys)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidError(
                f"session of {self._table.path}",
                found="a closed session: nothing keeps its rows",
                expected="an open session",
                action="Open a new one with Catalog.session, and read before it is closed.",
            )


class Session:
    """Several tables at one barrier.

    `Catalog.session` makes it; it is a context manager. A read lease in each table, which the session renews, keeps
    what it reads until it is closed. Its barrier never changes: open another session for a newer one. In a forked
    child its leases keep nothing.

    Examples
    --------
    >>> import widetable as wt
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> visits = catalog.create_table("shop.visits", columns, primary_key=["id"], options=options)
    >>> rows = [{"id": 1, "city": "Oslo"}]
    >>> catalog.writer("shop.visits", "crm").write(rows, complete=True).rows
    1
    >>> session = catalog.session(["shop.visits"])
    >>> session.barrier is None
    False
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(
        self,
        tables: Mapping[str, OpenTable],
        consistency: str,
        as_of: int | None,
        shown: int | None = None,
        revision: int | None = None,
    ) -> None:
        """Open a session. shown: the barrier of the previous session over these tables. revision: the one to which
        `as_of` belongs; None: the one that is active now.
        """
        self._shown = shown
        self._pins = contextlib.ExitStack()
        self._barrier: int | None = None
        self._revision = revision
        if consistency == READ_UNCOMMITTED and as_of is not None:
            raise InvalidError(
                "as_of and consistency",
                found=f"a barrier, and {READ_UNCOMMITTED}",
                expected="one of the two",
                action=f"Read a barrier with {REPEATABLE_READ}.",
            )
        if consistency != READ_UNCOMMITTED:
            _check_alike(tables)
        look = partial(self._look, tables, consistency, as_of, revision)
        self._tables = self._opened(tables, look)

    def __repr__(self) -> str:
        return f"Session(barrier {self._barrier}, {counted(len(self._tables), 'table')})"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def barrier(self) -> int | None:
        """The barrier of all its tables; None for `ReadUncommitted`."""
        return self._barrier

    @property
    def fell_back_from(self) -> int | None:
        """The barrier that the catalog's last such session over these tables showed, if this one shows an earlier one;
        otherwise None. `ReadCommitted` may show commits that are never published, and a revision removes barriers.
        """
        is_back = self._barrier is not None and self._barrier < (self._shown or 0)
        return self._shown if is_back else None

    @property
    def revision(self) -> int | None:
        """The revision of the warehouse that the session reads, 0 before the first; None for `ReadUncommitted`."""
        return self._revision

    def table(self, name: str) -> SessionTable:
        """Get one of the tables of the session.

        Parameters
        ----------
        name : str
            `db.name`.

        Returns
        -------
        SessionTable
            The table, as the session reads it.

        Raises
        ------
        NotFoundError
            The session has no such table; the error lists its tables.

        Examples
        --------
        >>> session.table("shop.visits").scan().to_arrow().to_pylist()
        [{'id': 1, 'city': 'Oslo'}]
        """
        table = self._tables.get(text(name, "name"))
        if table is None:
            raise NotFoundError(
                f"table {name!a}",
                found="no table of this session",
                expected=f"one of {', '.join(self._tables) or 'none'}",
                action="Name it when you open the session; only tables under barriers can be in one.",
            )
        return table

    def snapshot_ids(self) -> dict[str, int | None]:
        """Get the snapshots by which another client reads the same rows.

        Returns
        -------
        dict of str to int or None
            `db.name` to the id of a snapshot; None if no snapshot has exactly these rows.
        """
        return {name: table.snapshot_id for name, table in self._tables.items()}

    def close(self) -> None:
        """Release the leases of the session. It may be called twice."""
        self._pins.close()
        for table in self._tables.values():
            table._is_closed = True

    def _opened(
        self, tables: Mapping[str, OpenTable], look: Callable[[], dict[str, ChosenState]]
    ) -> dict[str, SessionTable]:
        """Choose and pin the tables. If an expiry was faster, the choice is repeated on the newest snapshots. A missing
        barrier is not searched again, unless snapshots expired during the search (`behind_expiry`).
        """
        for tries_left in reversed(range(_TRIES)):
            chosen = behind_expiry([*tables.values()], look)
            try:
                return {
                    name: SessionTable(tables[name], at, self._pin(tables[name], at))
                    for name, at in chosen.items()
                }
            except NotFoundError:  # expired in between
                self._pins.close()
                if not tries_left:
                    raise
            except BaseException:
                self._pins.close()
                raise
        raise AssertionError("the last try returns or raises")

    def _look(
        self,
        tables: Mapping[str, OpenTable],
        consistency: str,
        as_of: int | None,
        fixed_revision: int | None,
    ) -> dict[str, ChosenState]:
        """Choose the state of each table, without a lease yet. `ReadUncommitted` uses the newest snapshots; otherwise
        these are read in this order:

        1 the notes of staged commits: a commit that is published after this step is in the snapshots of step 3, once
        2 the revision, one number for all tables: otherwise one table would show what another one has taken back
        3 the snapshots of each table in that revision; then T
        """
        if consistency == READ_UNCOMMITTED:
            return {
                name: chosen_state(table, table._committer.snapshots.latest_id())
                for name, table in tables.items()
            }
        staged = _staged(tables) if consistency == READ_COMMITTED else {}
        revision = _active_revision(tables) if fixed_revision is None else fixed_revision
        self._revision = revision
        views = {
            name: _staged_barriers(table, barrier_views(table, revision), staged.get(name, ()))
            for name, table in tables.items()
        }
        self._barrier = barrier = _newest_common(views) if as_of is None else as_of
        return {
            name: state_of_view(table, views[name].view(barrier)) for name, table in tables.items()
        }

    def _pin(self, table: OpenTable, at: ChosenState) -> ReadLease | None:
        """Take a lease on the oldest snapshot that a read needs, which also keeps later snapshots and their files. None
        for a table without a snapshot, and if the storage is read-only.
        """
        if at.view is not None:
            first_id = at.view.first_id
        elif at.snapshot is not None:
            first_id = at.snapshot.id
        else:
            return None
        lease = hold_if_taken(table._file_io, table._paths, first_id)
        if lease is not None:
            self._pins.callback(lease.release)
        return lease


def _check_alike(tables: Mapping[str, OpenTable]) -> None:
    """Raise InvalidError for a table without barriers, and for intervals that differ: such tables share no barriers."""
    options = {name: table.schema.typed_options for name, table in tables.items()}
    one_interval("tables", {name: of.get(BARRIER_INTERVAL) for name, of in options.items()})


def check_published(session: Session, consistency: str, where: str) -> None:
    """Check that a session shows only published rows, for a caller that reads its tables elsewhere. Raise
    UnsupportedError, and close the session, if it shows staged rows. where: the place of the reads, for messages.
    """
    for name, table in session._tables.items() if consistency == READ_COMMITTED else ():
        if table._table.schema.typed_options.get(BARRIER_STAGE):
            session.close()
            raise UnsupportedError(
                f"table {name}",
                found=f"{BARRIER_STAGE.key}, and {READ_COMMITTED} {where}",
                expected=f"{REPEATABLE_READ}, or a table without the option",
                action=f"Open the session with {REPEATABLE_READ}, or read with widetable.Catalog(..).session.",
            )


def held_leases(session: Session) -> dict[str, str | None]:
    """Return the name of the read lease of each table of a session; None for a table without a snapshot, or without a
    lease.
    """
    leases = {name: table._lease for name, table in session._tables.items()}
    return {name: None if lease is None else lease.name for name, lease in leases.items()}


def _active_revision(tables: Mapping[str, OpenTable]) -> int | None:
    """Return the active revision. It is read once, so that no table sees a revision that becomes active meanwhile."""
    return next((active_revision(table) for table in tables.values()), None)


def _staged(tables: Mapping[str, OpenTable]) -> dict[str, list[StagedCommit]]:
    """Return the staged commits of each table. They are read before the snapshots, so that none is missed."""
    return {
        name: staged_commits(table._file_io, table._paths)
        for name, table in tables.items()
        if table.schema.typed_options.get(BARRIER_STAGE)
    }


def _staged_barriers(
    table: OpenTable, views: BarrierViews, staged: Sequence[StagedCommit]
) -> StagedBarriers:
    """Return the barriers with the valid notes, in the order in which these will be published."""
    notes = [*in_force(staged, views.newest()).values()]
    if not notes:
        return StagedBarriers(views, notes)
    committer = table._committer
    latest = committer.snapshots.load(views.ids[-1])

    def published(first: int) -> Iterable[PublishedFile]:
        return PublishedFiles(committer.live_files, committer.snapshots, first).behind(latest)

    return StagedBarriers(views, in_order(notes, published, committer.schemas.latest()))


def _newest_common(tables: Mapping[str, StagedBarriers]) -> int:
    """Return the newest barrier that is complete and exact in all tables, or is about to be."""
    slowest = min(tables, key=lambda name: tables[name].state.frontier)
    # The message names the writers that are missing there for the barrier after its frontier.
    state = tables[slowest].state
    newest = newest_staged(tables.values(), common_barrier([one.views for one in tables.values()]))
    if newest:
        return newest
    behind = state.behind(state.frontier + state.interval)
    if not state.frontier:
        missing = ", ".join(behind) or "any writer"
        reason = f"none that is complete in {slowest}; missing: {missing}"
    else:
        reason = f"none up to {state.frontier} that all jobs which write the tables have reached"
        firsts = {name: table.state.first for name, table in tables.items()}
        later = [f"{n} from {first} on" for n, first in firsts.items() if first > state.frontier]
        if later:
            listed = ", ".join(later)
            reason = f"barriers up to {state.frontier} of {slowest}, and those of {listed}"
    raise NotFoundError(
        f"a barrier of {', '.join(tables)}",
        found=reason,
        expected="a barrier that all have completed",
        action=f"{waiting_for(behind)}, or read without the table.",
    )
