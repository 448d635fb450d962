"""Who follows a table's changelog: the rows it has by now, and the laws that every change must keep.

Law 5 of the changelog: +I is of a key that is absent, -U and -D show the row as it was last, -U is followed by the
+U of its key. `Follower` asserts them change by change; `changes_of` reads changes as the model gives them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import widetable as wt
from tests.support.models.model import Key, Record, Row, ordered
from tests.support.models.plain_rows import plain, python_rows
from widetable.schema.table_schema import TableSchema

ROW_KIND = "_row_kind"


def changes_of(table: wt.Table, start: int, end: int, **how: Any) -> list[Record]:
    """`table.changes`, as kind and row."""
    found = table.changes(start, end, **how)
    assert found.column_names[-1] == ROW_KIND
    return [(row.pop(ROW_KIND), row) for row in python_rows(found)]


def change_texts(changes: Iterable[Record]) -> list[str]:
    """Changes in their order, in one comparable form."""
    return [f"{kind} {json.dumps(plain(row), sort_keys=True)}" for kind, row in changes]


class Follower:
    """rows: by key, what was emitted last. uncompared: columns whose changes alone are not emitted."""

    def __init__(
        self, schema: TableSchema, rows: Iterable[Row] = (), uncompared: Iterable[str] = ()
    ) -> None:
        self.schema = schema
        self.uncompared = frozenset(uncompared)
        self.rows: dict[Key, Row] = {self._key(row): row for row in rows}

    def apply(self, changes: Sequence[Record]) -> None:
        """Raises AssertionError for a change that cannot be the next one."""
        for number, (kind, row) in enumerate(changes):
            key = self._key(row)
            has_old = kind in ("-U", "-D")
            if kind == "-U":
                assert number + 1 < len(changes), f"{kind} {row} is the last change"
                follower_kind, follower = changes[number + 1]
                assert (follower_kind, self._key(follower)) == ("+U", key), (
                    f"{kind} {row} is followed by {follower_kind} {follower}"
                )
            if kind == "+U":
                before = changes[number - 1] if number else None
                assert before is not None, f"{kind} {row} is the first change"
                assert (before[0], self._key(before[1])) == ("-U", key), (
                    f"{kind} {row} comes after {before}"
                )
            if has_old:
                assert key in self.rows, f"{kind} {row}: the key is absent"
                known = self.rows.pop(key)
                assert self._text(row) == self._text(known), f"{kind} {row}: it was {known}"
            else:
                assert key not in self.rows, f"{kind} {row}: it was {self.rows[key]}"
                self.rows[key] = row

    def check(self, rows: Iterable[Row]) -> None:
        """The rows that one has who followed are these."""
        assert sorted(map(self._text, self.rows.values())) == sorted(map(self._text, rows))

    def alter(self, schema: TableSchema, renamed: Mapping[str, str] | None = None) -> None:
        """The same rows under other columns. renamed: old name to new."""
        self.schema = schema
        old_name = {new: old for old, new in (renamed or {}).items()}
        self.rows = {
            key: {name: row.get(old_name.get(name, name)) for name in schema.names}
            for key, row in self.rows.items()
        }

    def _key(self, row: Row) -> Key:
        return tuple(ordered(row[name]) for name in self.schema.primary_keys)

    def _text(self, row: Row) -> str:
        shown = {name: value for name, value in row.items() if name not in self.uncompared}
        return json.dumps(plain(shown), sort_keys=True)
