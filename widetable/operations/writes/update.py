"""Updates rows of an append table by a condition. `appended_change` says how files change.

Raises InvalidError for a condition and values that do not fit, UnsupportedError for a table with a primary key, in
which a write is an update already, ConflictError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import InvalidError, UnsupportedError
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.appended_change import change_appended
from widetable.operations.writes.new_values import NewValues
from widetable.operations.writes.retried_change import retried
from widetable.read.filters import parse


def update(
    table: OpenTable,
    where: str | pc.Expression,
    set: Mapping[str, Any],
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    *,
    dry_run: bool = False,
) -> CommitResult:
    """Set columns of the rows of an append table that match a condition, in one commit.

    The files that hold the rows are rewritten; with deletion vectors only the rows are. Readers of changes do not see
    it. In a table with a primary key, write the rows with their key and the new values instead.

    Parameters
    ----------
    where : str or pyarrow.compute.Expression
        The condition, as in `scan`; `true` matches all rows.
    set : dict of str to value or pyarrow.compute.Expression
        The new value of each column: any value that `write` takes, None for null, or an expression over the row as it
        was.
    commit_user, commit_identifier
        As in `write`.
    dry_run : bool, default False
        Only count the rows.

    Returns
    -------
    CommitResult
        What was committed; `rows` says how many rows were changed, or would be.

    Raises
    ------
    InvalidError
        The condition or a value is not valid, or a column says in which partition or bucket a row lies.
    NotFoundError
        There is no column of that name.
    UnsupportedError
        The table has a primary key.
    ConflictError
        Other commits changed the same files in each of several tries.

    Examples
    --------
    >>> clicks = catalog.create_table("shop.clicks", {"user": "BIGINT", "page": "STRING"})
    >>> clicks.write([{"user": 1, "page": "home"}, {"user": 2, "page": "cart"}]).rows
    2
    >>> clicks.update("user = 2", {"page": None}).rows
    1
    """
    _check(table, where, set)
    dry_run = flag(dry_run, "dry_run")
    if not dry_run:
        wait_for_compactions(table.path)
    by = Identity.of(commit_user, commit_identifier)

    def attempt(snapshot_id: int) -> CommitResult:
        return change_appended(table, where, by, snapshot_id, set, dry_run=dry_run)

    return retried(table, attempt, by, COMMIT_KIND_OVERWRITE, dry_run=dry_run)


def _check(table: OpenTable, where: str | pc.Expression, given: Mapping[str, Any]) -> None:
    """Check the arguments and the table, before anything is read."""
    schema = table.schema
    if schema.has_key:
        raise UnsupportedError(
            "update",
            found=f"a table with the primary key {', '.join(schema.primary_keys)}",
            expected="an append table",
            action="Write rows with the key and the new values: they replace those of the key.",
        )
    if where is None:
        raise InvalidError(
            "where",
            found="None",
            expected="a condition: nothing is changed without one",
            action="Say which rows to change; 'true' for all of them.",
        )
    parse(where, schema)
    accept(schema, Use.TAKE_ROWS, Use.MAINTAIN, Use.REPLACE, path=table.path)
    NewValues.of(schema, given)
