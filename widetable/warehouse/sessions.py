"""Sessions of a warehouse: several tables at one barrier, which this process or a meta service chooses.

Raises InvalidError for arguments that do not fit, NotFoundError for tables and barriers that do not exist, StorageError
when no instance of the service answers, and what opening a session raises.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.arguments import names, one_of, whole_number
from widetable.operations.barriers.session import CONSISTENCIES, READ_UNCOMMITTED, Session
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.table import Table
from widetable.topology.session_request import SessionRequests
from widetable.topology.topology import SCOPES, TABLES, TOPOLOGY, Topology
from widetable.warehouse.catalog_state import CatalogState


def session(
    catalog: CatalogState,
    tables: Sequence[str] | None = None,
    *,
    consistency: str | None = None,
    as_of: int | None = None,
    scope: str = TABLES,
) -> Session:
    """Read several tables at one barrier.

    `RepeatableRead` reads the newest barrier that is complete in all tables, until the session is closed.
    `ReadCommitted` also reads what writers of tables with `widetable.barrier-stage` have written and are about to
    publish; those rows may be withdrawn (`Session.fell_back_from`). `ReadUncommitted` reads the newest snapshot of each
    table. With a catalog's `uri` the service chooses the barrier; an open session no longer needs the service.

    Parameters
    ----------
    tables : list of str, default None
        `db.name` of tables under barriers of one interval. None: all such tables of the warehouse.
    consistency : str, default None
        `RepeatableRead`, `ReadCommitted` or `ReadUncommitted`. None: that of the catalog.
    as_of : int, default None
        The barrier, in epoch milliseconds. None: the newest one.
    scope : str, default "tables"
        Where the barrier is complete: in these `tables`, or in all tables that jobs connect with them (`topology`).

    Returns
    -------
    Session
        The open session, a context manager; `session.table(name).scan()` reads rows.

    Raises
    ------
    NotFoundError
        A table does not exist, or no barrier is complete in all tables; the error names the missing writers.
    InvalidError
        The tables are not under barriers of one interval, `ReadUncommitted` is given a barrier, or the service serves
        another warehouse.
    StorageError
        No instance of the service answers.

    Examples
    --------
    >>> with catalog.session(["shop.users"], consistency="ReadUncommitted") as session:
    ...     session.table("shop.users").scan().count()
    1
    """
    level = catalog._consistency if consistency is None else consistency
    level = one_of(level, CONSISTENCIES, "consistency")
    barrier = None if as_of is None else whole_number(as_of, "as_of")
    # None means all tables under barriers, to which the topology cannot add any.
    if one_of(scope, SCOPES, "scope") == TOPOLOGY and tables is not None:
        tables = Topology(catalog).connected(tables)
    return _opened(catalog, tables, level, barrier)


def _opened(
    catalog: CatalogState, tables: Sequence[str] | None, consistency: str, barrier: int | None
) -> Session:
    """Open the session, and note which barrier it shows, if that is the newest one."""
    if catalog._service is None or consistency == READ_UNCOMMITTED:
        opened = _opened_tables(catalog, tables)
        last = catalog._shown.last(consistency, opened)
        session = Session(opened, consistency, barrier, None if last is None else last.barrier)
    else:
        # The service names only the barrier; this process reads the rows from the storage.
        client = catalog._service.client()
        shown = catalog._shown
        requests = SessionRequests(client, catalog._file_io, catalog._root, catalog.table, shown)
        session = requests.open(tables, consistency, barrier)
    # Sessions of one catalog over the same tables know what the last one has shown. A session as of a given barrier
    # says nothing about the newest one.
    if barrier is None:
        catalog._shown.note(consistency, session)
    return session


def _opened_tables(catalog: CatalogState, tables: Sequence[str] | None) -> dict[str, Table]:
    """Open the tables by name; None: all tables under barriers."""
    listed = catalog.list_tables() if tables is None else names(tables, "tables")
    opened = {name: catalog.table(name) for name in listed}
    if tables is not None:
        return opened
    return {
        name: table
        for name, table in opened.items()
        if table.schema.typed_options.get(BARRIER_INTERVAL) is not None
    }
