"""A table of a join at the snapshot that a round has pinned: its rows by key, by join key, and its changes up to it.

In: keys as tables of the key columns. Out: rows of the chosen columns. Memory: a piece of rows at a time.
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
from widetable.derive.joins.joined_plan import JoinedPlan, KeyAccess
from widetable.derive.joins.joined_rows import too_many
from widetable.errors import InvalidError
from widetable.format.row_budget import RowBudget
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_at import scan_at, view_at

# The rows of a piece of join keys take about so much memory on each side; the first piece has a fixed number of keys.
_PIECE_BYTES = 32 << 20
_FIRST_KEYS = 256


@dataclass
class JoinSide:
    """One table of a join. It keeps files open until `close`.

    snapshot_id: 0 while the table has none. columns: the columns of the rows, including the primary key. on: the join
    key's columns. way: how `matches` finds rows. index: the index at that snapshot, for KeyAccess.INDEX. The caller
    closes the index, and holds the snapshot.
    """

    plan: JoinedPlan
    table: OpenTable
    snapshot_id: int
    columns: Sequence[str]
    on: Sequence[str]
    way: KeyAccess
    index: IndexView | None

    def __post_init__(self) -> None:
        schema = self.table.schema
        self._no_keys = schema.arrow_schema(schema.primary_keys).empty_table()
        self._view = view_at(self.table, self.snapshot_id, self.columns)

    def changes(self, since_id: int) -> Iterator[ChangedRows]:
        """Yield the rows that differ from an earlier snapshot in the chosen columns; each key once.

        since_id: 0 for a table that had no snapshot: all rows differ from nulls.
        """
        if not self.snapshot_id:
            return
        pairs = changed_rows(self.table, since_id or None, self.snapshot_id, self.columns)
        for before, after in pairs:
            differs = pa.array(~equal_rows(before, after))
            yield ChangedRows(before.filter(differs), after.filter(differs))

    def all_rows(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield all rows piece by piece, each key once."""
        scan = scan_at(self.table, self.snapshot_id, columns)
        for batch in scan.to_batches():
            yield pa.Table.from_arrays(batch.columns, names=batch.schema.names)

    def rows(self, keys: pa.Table) -> pa.Table:
        """Return one row per key, null in all columns if the key has no row."""
        return self._view.lookup(keys)

    def present_rows(self, keys: pa.Table) -> pa.Table:
        """Return the existing rows of these keys."""
        return present(self.rows(keys), self._no_keys.column_names)

    def matches(self, keys: pa.Table) -> tuple[Numbers, pa.Table]:
        """Return all rows that have one of the join keys, and the ascending numbers of their keys.

        keys: distinct, with the join's column names. A whole primary key has one row at most; a prefix or an index has
        any number up to `join.max-matches`, beyond which the error names the key. The rows are in the order of `keys`.
        """
        own = keys.rename_columns(list(self.on))
        if self.way is KeyAccess.KEY:
            rows = self._view.lookup(own)
            exists = rows.column(self._no_keys.column_names[0]).is_valid()
            return np.flatnonzero(exists.to_numpy()), rows.filter(exists)
        if self.way is KeyAccess.INDEX and self.index is None:  # the table has no snapshot
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
    """Remove the rows of nulls, which stand for keys without a row."""
    return rows.filter(rows.column(key[0]).is_valid())


def key_budget() -> RowBudget:
    """Return the budget that decides how many join keys are looked up at once."""
    return RowBudget(_PIECE_BYTES, _FIRST_KEYS)
