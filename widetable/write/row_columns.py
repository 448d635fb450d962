"""Checks rows of one write that lack different columns: each must be valid as if it were written alone. Pure.

A file has one set of columns, and an absent column is null for every reader of the format. This equals "not written" if
the row's own columns may be written alone (`MergeEngine.check_columns`): functions ignore null, and a group whose
sequence is null is ignored. Otherwise null would overwrite the values of other writers, so the row is refused.

    sequence group `at` of city and street; rows as dicts
    {"id": 1, "city": "Bergen", "at": 2}      refused: null would overwrite street of 1
    {"id": 1, "note": "x"}                    accepted: city, street and at are null, and stay as they are
    {"id": 1, "_row_kind": "-D"}              accepted here: the engine defines the delete of a key alone

Raises InvalidError that names the row and the missing columns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from widetable.errors import InvalidError
from widetable.merge.engine import engine_of
from widetable.merge.written_columns import check_required
from widetable.schema.table_schema import TableSchema
from widetable.write.column_sets import RowSets


@dataclass
class RowColumns:
    """The check of one write; it caches the sets of columns that are valid."""

    schema: TableSchema
    _right: set[tuple[frozenset[str], bool]] = field(default_factory=set, init=False)

    def check(self, names: Collection[str], row: str) -> None:
        """Check the columns of a row. names: those of the row; names that are not columns of the table, such as that of
        row kinds, are ignored. row: describes the row, for the message.
        """
        columns = frozenset(name for name in names if name in self.schema.by_name)
        has_kind = len(columns) < len(names)
        if (columns, has_kind) in self._right:
            return
        try:
            if has_kind and columns.issubset(self.schema.primary_keys):
                check_required(self.schema, columns)
            else:
                engine_of(self.schema).check_columns(self.schema, sorted(columns))
        except InvalidError as cause:
            raise InvalidError(
                f"{row}, {cause.subject}",
                found=f"{cause.found}, although other rows have it",
                expected=cause.expected,
                action=cause.action,
            ) from cause
        self._right.add((columns, has_kind))


def check_row_columns(schema: TableSchema, sets: RowSets, columns: Collection[str]) -> None:
    """Check the columns of all rows of a source. columns: those that its writer has checked; a set of just these needs
    no other check.
    """
    checked = RowColumns(schema)
    for names, place in sets.first_rows():
        if names != columns:
            checked.check(names, f"row {place + 1}")
