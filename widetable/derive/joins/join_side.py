"""A table of a join at a snapshot that a round has pinned: its rows by key, by join key, and what changed before it.

In: keys as tables of the columns that they are of. Out: rows of the chosen columns. Memory: a piece of rows at a time.
Raises NotFoundError for a snapshot that has expired, InvalidError for a join key with more rows than allowed, and what
lookups and scans raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import Numbers
from widetable.derive.changes.row_changes import ChangedRows, changed_rows
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.indexes.index_lookup import IndexView
from widetable.derive.joins.joined_plan import JoinedPlan, KeyWay
from widetable.derive.joins.joined_rows import too_many
from widetable.errors import InvalidError
from widetable.format.row_budget import RowBudget
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import scan_at, view_at

# Rows of a piece of join keys take about so much memory on each side; nobody knows how many there are of the first.
_PIECE_BYTES = 32 << 20
_FIRST_KEYS = 256


@dataclass
class JoinSide:
    """Keeps files open until `close`. snapshot_id: 0 while the table has none. on: the join key's columns. index: at
    that snapshot, where rows are found by one.

    columns: that rows have, those of the primary key among them. way: how `matches` finds rows.
    The index is closed by who opened it, and the caller holds the snapshot.
    """

    plan: JoinedPlan
    table: OpenTable
    snapshot_id: int
    columns: Sequence[str]
    on: Sequence[str]
    way: KeyWay
    index: IndexView | None

    def __post_init__(self) -> None:
        schema = self.table.schema
        self._no_keys = schema.arrow_schema(schema.primary_keys).empty_table()
        self._view = view_at(self.table, self.snapshot_id, self.columns)

    def changes(self, since_id: int) -> Iterator[ChangedRows]:
        """Rows that differ from those of a snapshot before, in the chosen columns; each key once.
        since_id: 0 for a table that had none: all rows, against nulls.
        """
        if not self.snapshot_id:
            return
        found = changed_rows(self.table, since_id or None, self.snapshot_id, self.columns)
        for before, after in found:
            differs = pa.array(~equal_rows(before, after))
            yield ChangedRows(before.filter(differs), after.filter(differs))

    def all_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Piece by piece, each key once."""
        scan = scan_at(self.table, self.snapshot_id, columns)
        for batch in scan.to_batches():
            yield pa.Table.from_arrays(batch.columns, names=batch.schema.names)

    def rows(self, keys: pa.Table) -> pa.Table:
        """One row per key, null in all columns where there is none."""
        return self._view.lookup(keys)

    def present_rows(self, keys: pa.Table) -> pa.Table:
        """The rows that there are of these keys."""
        return present(self.rows(keys), self._no_keys.column_names)

    def matches(self, keys: pa.Table) -> tuple[Numbers, pa.Table]:
        """All rows that have one of the join keys, and ascending numbers that say which. keys: distinct, with the
        columns that the join calls them by.

        By a whole primary key there is one row at most; by a prefix or an index any number up
        to `join.max-matches`, beyond which the error names the key. The rows are in the order
        of the keys given.
        """
        own = keys.rename_columns(list(self.on))
        if self.way is KeyWay.KEY:
            rows = self._view.lookup(own)
            is_there = rows.column(self._no_keys.column_names[0]).is_valid()
            return np.flatnonzero(is_there.to_numpy()), rows.filter(is_there)
        if self.way is KeyWay.INDEX and self.index is None:  # the table has no snapshot
            return np.empty(0, np.int64), self._view.lookup(self._no_keys)
        try:
            most = self.plan.definition.max_matches
            rows = (self.index.lookup if self.index else self._view.lookup_prefix)(own, most)
        except InvalidError as wrong:
            if wrong.subject == "limit_per_key":
                raise too_many(self.plan, wrong.found) from wrong
            raise
        return rows.column(0).to_numpy(), rows.remove_column(0)

    def close(self) -> None:
        self._view.close()


def present(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Without the rows of nulls that stand for keys of no row."""
    return rows.filter(rows.column(key[0]).is_valid())


def key_budget() -> RowBudget:
    """How many join keys go together."""
    return RowBudget(_PIECE_BYTES, _FIRST_KEYS)
