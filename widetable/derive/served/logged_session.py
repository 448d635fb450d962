"""Opens a lookup session, with or without a log of what it gives.

In: a table, and perhaps a log. Out: the session (`operations/queries/lookup_session`). Raises what that and the log
(`served_table`) raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.acceptance.acceptance import Use, accept
from widetable.derive.served.served_log import ServedLog
from widetable.derive.served.served_table import made_log
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_session import LookupSession


def lookup_session(
    table: OpenTable,
    columns: Sequence[str] | None = None,
    snapshot_id: int | None = None,
    *,
    served_log: OpenTable | str | None = None,
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
    served_log : Table or str, default None
        A table that gets what `lookup` and `windows` give, for `Table.audit_served`. A `db.name` of the same warehouse
        is created if there is no such table. None: nothing is logged.

    Returns
    -------
    LookupSession
        The open session.

    Raises
    ------
    NotFoundError
        There is no such column or snapshot.
    InvalidError
        `served_log` is no log, or has a column of another type.
    UnsupportedError
        The table has no primary key, or an option that changes its rows and that this version does not honour.

    Examples
    --------
    >>> with users.lookup_session(["city"]) as session:
    ...     session.lookup([1]).to_pylist()
    [{'city': 'Oslo'}]
    """
    accept(table.schema, Use.LOOK_UP)
    log = None if served_log is None else ServedLog(made_log(table, served_log), table)
    return LookupSession(table, columns, snapshot_id, log)
