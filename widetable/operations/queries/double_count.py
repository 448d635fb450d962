"""Warns of a new query that writes to columns which add up values, such as a sum.

The query may be one whose checkpoint was lost. Such a query reads its source again, and its records count twice. Only
the lost checkpoint knew what was read, and a second query that adds other records looks the same. So this is a warning
and not an error. It is not needed for a query with a commit user of its own, because the table refuses a new checkpoint
under the same user (0015). It is given before the first commit of a query, from the last commits of other users. Raises
what reading the table raises.

    s is a sum, v is not       others have written      result
    the query writes s         s                        a warning that names s
    the query writes s         v, or nothing            no warning: their records are not in s
    the query writes v         s, v                     no warning: a repeated record changes no last value
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Final

from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.snapshots.committed_columns import columns_of
from widetable.merge.aggregate_functions import function_of
from widetable.merge.engine import engine_of
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.table_schema import TableSchema

# The last commits of at most this many users are read.
_MAX_USERS: Final = 20
_log = logging.getLogger("widetable")


def warn_of_new_query(table: OpenTable, user: str, columns: Collection[str]) -> None:
    """Log that records may count twice.

    Parameters
    ----------
    table : OpenTable
        The table.
    user : str
        The commit user of the query.
    columns : list of str
        The columns that it writes.
    """
    schema = table.schema
    adding = [name for name in columns_that_count(schema) if name in columns]
    if not adding:
        return
    ids = {schema.field(name).id for name in adding}
    others = list(_others(table, user, ids))
    if others:
        warn(
            _log,
            WarningCode.ROWS_COUNTED_TWICE,
            "%s: the query %s is new to the table, and %s has records of %s. If the checkpoint of the query was lost, "
            "the records that it reads again count twice: stop it, and start it with an empty table. With the "
            "option commit-user a new checkpoint is refused",
            table.path,
            user,
            f"column {adding[0]!r}, which adds them up,"
            if len(adding) == 1
            else f"columns {adding}",
            ", ".join(others),
        )


def columns_that_count(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns whose value changes when an add is applied twice; none in tables whose rows replace each
    other.
    """
    filled = engine_of(schema).filled_columns(schema)
    return tuple(name for name, one in filled.items() if function_of(one).counts_again(one))


def _others(table: OpenTable, user: str, ids: Collection[int]) -> Iterator[str]:
    """Yield the other users whose last commit may have values in one of these columns (field ids).

    It yields none if the user itself has committed before.
    """
    committer = table._committer
    latest = committer.refresh().latest
    users = users_of(latest, committer.last_commits.load)
    if last_of(users, user) is not None:
        return
    for name in list(users)[-_MAX_USERS:]:
        last = last_of(users, name)
        snapshot = None if last is None else or_none(committer.snapshots.load, last.snapshot_id)
        written = None if snapshot is None else columns_of(snapshot)
        if written is None or not written.isdisjoint(ids):
            yield name
