"""Reads a table as of one snapshot with the newest columns; deletes and derived tables are made from it.

`Table.scan(snapshot_id=..)` returns the columns of that time, but these rows are written into the table of now.

In: the id of a snapshot; the caller keeps it from expiry, or repeats its work. Out: its rows by key (close it) or
all of them. Raises NotFoundError for a snapshot that has expired, and what lookups and scans raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.acceptance.acceptance import Use, accept
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.read.predicate import Predicate
from widetable.read.scan import TableScan


def state_at(table: OpenTable, snapshot_id: int, tag: str | None = None) -> ChosenState:
    """Return the state of a snapshot. snapshot_id: 0 for a table that had none. tag: one that keeps the snapshot."""
    if not snapshot_id:
        return chosen_state(table)._replace(snapshot=None)
    chosen = chosen_state(table, tag=tag) if tag else chosen_state(table, snapshot_id)
    accept(chosen.state.schema, Use.READ)
    return chosen._replace(state=table._state())


def view_at(table: OpenTable, snapshot_id: int, columns: Sequence[str] | None) -> LookupView:
    """Return a view of rows by key, with these columns in their order (None: all). A missing key gives nulls."""
    return LookupView(state_at(table, snapshot_id), columns)


def scan_at(
    table: OpenTable,
    snapshot_id: int,
    columns: Sequence[str],
    predicate: Predicate | None = None,
) -> TableScan:
    """Scan all rows, in the order of partition, bucket and key."""
    return state_at(table, snapshot_id).scan(columns, predicate)
