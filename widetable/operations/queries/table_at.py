"""A table as of one snapshot, with the columns of today: what deletes and derived tables are made from.

`Table.scan(snapshot_id=..)` gives the columns of then; what is written by these rows goes into the table of now.

In: the id of a snapshot; the caller keeps it from expiry, or makes its work anew. Out: its rows by key (close it) or
all of them. Raises NotFoundError for a snapshot that has expired, and what lookups and scans raise.
"""

from __future__ import annotations

from collections.abc import Sequence

from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.lookup_view import LookupView
from widetable.read.predicate import Predicate
from widetable.read.scan import TableScan


def state_at(table: OpenTable, snapshot_id: int, tag: str | None = None) -> ChosenState:
    """snapshot_id: 0 for a table that had none. tag: by which the snapshot is kept, if it is."""
    if not snapshot_id:
        return chosen_state(table)._replace(snapshot=None)
    chosen = chosen_state(table, tag=tag) if tag else chosen_state(table, snapshot_id)
    return chosen._replace(state=table._state())


def view_at(table: OpenTable, snapshot_id: int, columns: Sequence[str] | None) -> LookupView:
    """Rows by key: these columns, in their order, None for all; null in all of them for a key that is not there."""
    return LookupView(state_at(table, snapshot_id), table._committer.live_files, columns)


def scan_at(
    table: OpenTable,
    snapshot_id: int,
    columns: Sequence[str],
    predicate: Predicate | None = None,
) -> TableScan:
    """All rows, by partition, bucket and key."""
    at = state_at(table, snapshot_id)
    live_files = table._committer.live_files
    return TableScan(at.state, live_files, at.snapshot, columns, predicate, rescaled=at.is_rescaled)
