"""Rows of one write that lack different columns: each is taken as if it were written alone. Pure.

A batch has one set of columns, so what a row lacks is null in it. That is the same as "not written" wherever its own
columns may be written by themselves (`MergeEngine.check_columns`): functions pass over null, and a group whose sequence
is null is passed over. Where they may not, null would overwrite what others wrote, so the row is refused.

    sequence group `at` of city and street; rows as dicts
    {"id": 1, "city": "Bergen", "at": 2}      refused: null would overwrite street of 1
    {"id": 1, "note": "x"}                    taken: city, street and at are null, and stay as they are
    {"id": 1, "_row_kind": "-D"}              taken here: what a delete of a key alone does, the engine says

Raises InvalidError that names the row and what to add.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from widetable.errors import InvalidError
from widetable.merge.engine import engine_of
from widetable.merge.written_columns import check_required
from widetable.schema.table_schema import TableSchema
from widetable.write.row_source import RowSource


@dataclass
class RowColumns:
    """Of one write; remembers which sets of columns are right."""

    schema: TableSchema
    _right: set[tuple[frozenset[str], bool]] = field(default_factory=set, init=False)

    def check(self, names: Collection[str], row: str) -> None:
        """names: of the row; those that are no columns of the table, as that of row kinds, do not count. row: which one
        it is, for the message.
        """
        there = frozenset(name for name in names if name in self.schema.by_name)
        has_kind = len(there) < len(names)
        if (there, has_kind) in self._right:
            return
        try:
            if has_kind and there.issubset(self.schema.primary_keys):
                check_required(self.schema, there)
            else:
                engine_of(self.schema).check_columns(self.schema, sorted(there))
        except InvalidError as cause:
            raise InvalidError(
                f"{row}, {cause.subject}",
                found=f"{cause.found}, though other rows have it",
                expected=cause.expected,
                action=cause.action,
            ) from cause
        self._right.add((there, has_kind))


def check_row_columns(schema: TableSchema, source: RowSource) -> None:
    """All rows of a source."""
    checked = RowColumns(schema)
    for names, place in source.sets.items():
        checked.check(names, f"row {place + 1}")
