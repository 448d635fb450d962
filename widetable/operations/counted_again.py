"""A query that is new to a table which adds up what it gets: perhaps one whose checkpoint was lost. It reads again then
what it read before, and its records count twice.

Nobody but the query's checkpoint knows what was read, so this is a warning: a second query that adds other records
looks alike. A query that has a name of its own for its commits is not asked about: a new checkpoint is refused under it
(0015). Asked before the first commit of a query; it looks at the last commits of others. Raises nothing but what a look
at the table raises.

    s is a sum, v is not       others have written      said
    the query writes s         s                        the warning, with s
    the query writes s         v, or nothing            nothing: their records are not in s
    the query writes v         s, v                     nothing: the last record counts, however often it comes
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import Final

from widetable.commit.committed import last_of, users_of
from widetable.commit.committed_columns import columns_of
from widetable.commit.passed_over import if_there
from widetable.merge.aggregate_functions import columns_that_count
from widetable.operations.open_table import OpenTable
from widetable.warning_code import WarningCode, warn

# Users that have committed last, whose last commits are looked at.
_MOST_USERS: Final = 20
_log = logging.getLogger("widetable")


def warn_of_new_query(table: OpenTable, user: str, columns: Collection[str]) -> None:
    """Say in the log that records may count again. user: under which the query commits; columns: that it writes."""
    schema = table.schema
    adding = [name for name in columns_that_count(schema) if name in columns]
    if not adding:
        return
    ids = {schema.field(name).id for name in adding}
    others = list(_others(table, user, ids))
    if others:
        warn(
            _log,
            WarningCode.COUNTED_AGAIN,
            "%s: the query %s is new to the table, and %s has records of %s. If it is a query whose checkpoint was "
            "lost, those count twice that it reads again: stop it, and let it begin in an empty table. With the "
            "option commit-user a new checkpoint is refused",
            table.path,
            user,
            f"column {adding[0]!r}, which adds them up,"
            if len(adding) == 1
            else f"columns {adding}",
            ", ".join(others),
        )


def _others(table: OpenTable, user: str, ids: Collection[int]) -> Iterator[str]:
    """Users whose last commit may have values in one of these columns; none for a user that has committed before."""
    committer = table._committer
    latest = committer.look().latest
    users = users_of(latest, committer.last_commits.load)
    if last_of(users, user) is not None:
        return
    for name in list(users)[-_MOST_USERS:]:
        last = last_of(users, name)
        snapshot = None if last is None else if_there(committer.snapshots.load, last.snapshot_id)
        written = None if snapshot is None else columns_of(snapshot)
        if written is None or not written.isdisjoint(ids):
            yield name
