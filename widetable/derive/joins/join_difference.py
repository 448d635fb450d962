"""The records that bring a joined table to the join of two snapshots: the difference of its rows and the join's.

    by key         K = keys of left rows that differ, or that have a join key of a right row that differs
                   old = joined[K]                       new = left[K] with the right row of each
    many to many   J = join keys of rows that differ, before and after
                   old = joined[J]                       new = left[J] with all right rows of each

Rows are looked up, so the reads of a round grow with the difference, not with the tables. By key, a changed left row
costs one row, however many others have its join key. Memory: the keys that differ, and the rows of a piece of them.
Raises InvalidError for a join key with too many rows, and what lookups and scans raise.

By key, joined on the left table's column c:

    left     k=1 c=7    k=2 c=7            since: k=1 is new, and 7 is `b` now, not `a`
    right    c=7 `b`
    joined   k=2 `a`                       pieces: k=1 of the left's changes, +I `b`
                                                   k=2 of the right's, +U `b`; k=1 is not compared again
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable.derive.changes.equal_keys import distinct_rows, rows_without
from widetable.derive.changes.row_difference import row_difference
from widetable.derive.indexes.index_lookup import IndexView
from widetable.derive.joins.join_side import JoinSide, key_budget, present
from widetable.derive.joins.joined_plan import JoinedPlan, KeyAccess
from widetable.derive.joins.joined_rows import all_matches, one_match
from widetable.lsm.key_lookup import key_pieces
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import options as opt

# Keys are deduplicated when so many have been collected.
_KEYS_AT_ONCE: Final = 1 << 20


class JoinDifference:
    """The difference of a joined table and a join. It keeps files open until `close`.

    tables: left, right, joined. ids: their snapshots, 0 for a table without one. indexes: of left and right at these
    snapshots, where rows are found by them. The caller holds all snapshots, and closes the indexes. Nothing is looked
    up before `pieces` is iterated. Only one thread may iterate.
    """

    def __init__(
        self,
        plan: JoinedPlan,
        tables: tuple[OpenTable, OpenTable, OpenTable],
        ids: tuple[int, int, int],
        indexes: tuple[IndexView | None, IndexView | None] = (None, None),
    ) -> None:
        on = plan.definition
        self._plan = plan
        self._with_before = tables[-1].schema.typed_options.get(opt.CHANGELOG_PRODUCER) == "input"
        sides = (
            (plan.left_columns, on.left_on, plan.left_access, indexes[0]),
            (plan.right_read_columns, on.right_on, plan.right_access, indexes[1]),
            (plan.columns.names, on.left_on, KeyAccess.PREFIX, None),
        )
        self._left, self._right, self._out = (
            JoinSide(plan, table, id, *side)
            for table, id, side in zip(tables, ids, sides, strict=True)
        )

    def close(self) -> None:
        for side in (self._left, self._right, self._out):
            side.close()

    def pieces(self, since: tuple[int, int] | None) -> Iterator[pa.Table]:
        """Yield rows with their kinds, each key of the joined table in one piece only.

        since: the snapshots whose join the table holds; None: all rows of all three tables are compared. A key is in
        one piece only, because its records in a commit must not depend on the order of pieces. The old rows are those
        of the joined table's snapshot, whatever the pieces have written since.
        """
        if not self._plan.by_key:
            return self._of_join_keys(self._join_keys(since))
        return self._of_all_rows() if since is None else self._of_changed_rows(since)

    # By key: each row of the left table gives one joined row or none.

    def _of_changed_rows(self, since: tuple[int, int]) -> Iterator[pa.Table]:
        """Yield first the left rows that differ, with the new right rows; then those that only the right side changes.

        The second part leaves out the keys of the first. It looks up left rows by join key in pieces, whose size adapts
        to the rows of earlier keys: one dimension row may have a million facts.
        """
        key = list(self._plan.left_key)
        changed = []
        for before, after in self._left.changes(since[0]):
            keys = _either(after, before, key)
            yield self._difference(self._out.present_rows(keys), present(after, key))
            changed.append(keys)
        written = pa.concat_tables(changed) if changed else None
        on, budget = list(self._plan.definition.right_on), key_budget()
        for before, after in self._right.changes(since[1]):
            join_keys = _either(after, before, on)
            for piece in key_pieces(join_keys, budget):
                _, rows = self._left.matches(piece)
                budget.saw(rows, piece.num_rows)
                if written is not None:
                    rows = rows_without(rows, key, written)
                yield self._difference(self._out.present_rows(rows.select(key)), rows)

    def _of_all_rows(self) -> Iterator[pa.Table]:
        """Compare the left table with the joined one, batch by batch; then delete the joined one's surplus rows."""
        key = list(self._plan.left_key)
        for rows in self._left.all_rows(self._plan.left_columns):
            yield self._difference(self._out.present_rows(rows.select(key)), rows)
        for rows in self._out.all_rows(self._plan.columns.names):
            gone = rows_without(rows, key, self._left.present_rows(rows.select(key)).select(key))
            yield row_difference(gone, gone.slice(0, 0), key)

    def _difference(self, old: pa.Table, left: pa.Table) -> pa.Table:
        """Return the difference of some left keys. old: their joined rows; left: their current rows."""
        on = self._plan.definition
        keys = left.select(list(on.left_on)).rename_columns(list(on.right_on))
        return self._written(old, one_match(self._plan, left, self._right.rows(keys)))

    # Many to many: each join key gives any number of joined rows.

    def _join_keys(self, since: tuple[int, int] | None) -> Iterator[pa.Table]:
        """Yield the join keys of all rows, or of changed rows before and after: a changed join key touches two keys."""
        if since is None:
            for side in (self._left, self._right, self._out):
                yield from side.all_rows(side.on)
            return
        for side, since_id in zip((self._left, self._right), since, strict=True):
            for changed in side.changes(since_id):
                for rows in changed:
                    yield present(rows.select(list(side.on)), side.on)

    def _of_join_keys(self, keys: Iterable[pa.Table]) -> Iterator[pa.Table]:
        budget = key_budget()
        for piece in key_pieces(_distinct(keys, self._plan.definition.left_on), budget):
            _, old = self._out.matches(piece)
            new = all_matches(
                self._plan, piece, self._left.matches(piece), self._right.matches(piece)
            )
            budget.saw(new, piece.num_rows)
            yield self._written(old, new)

    def _written(self, old: pa.Table, new: pa.Table) -> pa.Table:
        return row_difference(old, new, self._plan.key, with_before=self._with_before)


def _distinct(parts: Iterable[pa.Table], names: Iterable[str]) -> pa.Table:
    """Return all keys, each once, in key order, with these names.

    Keys are deduplicated when as many new ones have come as there are distinct ones. So each key is sorted a few times,
    not once for each part, and memory stays within about twice the distinct keys.
    """
    keys: list[pa.Table] = []
    waiting = 0
    for part in parts:
        keys.append(part.rename_columns(list(names)))
        waiting += part.num_rows
        if waiting >= max(_KEYS_AT_ONCE, keys[0].num_rows):
            keys, waiting = [distinct_rows(pa.concat_tables(keys))], 0
    return distinct_rows(pa.concat_tables(keys)) if keys else pa.table({})


def _either(rows: pa.Table, others: pa.Table, names: list[str]) -> pa.Table:
    """Return the keys of two tables row by row: the first table's key, or the other's where the first has none."""
    columns = [pc.coalesce(rows.column(name), others.column(name)) for name in names]
    return pa.Table.from_arrays(columns, names=names)
