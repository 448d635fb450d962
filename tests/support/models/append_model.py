"""What an append table must hold: its rows in a list. Rows are told apart by their values alone.

It has the face of `tests.support.models.model.Model`, for lives that may have either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tests.support.models.model import Key, Model, Record, Row
from widetable.schema.table_schema import TableSchema


class RowsModel(Protocol):
    """What a life asks of a model."""

    schema: TableSchema

    def write(self, records: Iterable[Record]) -> None: ...
    def rows(self) -> list[Row]: ...
    def forget(self, rows: Iterable[Row]) -> None: ...
    def alter(self, schema: TableSchema, renamed: Mapping[str, str] | None = None) -> None: ...
    def copy(self) -> RowsModel: ...
    def key_of(self, row: Row) -> Key: ...


class AppendModel:
    """The rows of all records, in the order of their commits."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._rows: list[Row] = []

    def write(self, records: Iterable[Record]) -> None:
        """Append the rows of +I, which is the only kind."""
        for kind, row in records:
            assert kind == "+I", kind
            self._rows.append({name: row.get(name) for name in self.schema.names})

    def rows(self) -> list[Row]:
        return [dict(row) for row in self._rows]

    def forget(self, rows: Iterable[Row]) -> None:
        """Take out all rows that equal one of these."""
        gone = list(rows)
        self._rows = [row for row in self._rows if row not in gone]

    def update(self, applies: Callable[[Row], bool], values: Row) -> None:
        """Set columns of some rows."""
        self._rows = [row | values if applies(row) else row for row in self._rows]

    def alter(self, schema: TableSchema, renamed: Mapping[str, str] | None = None) -> None:
        """The same rows under another schema. renamed: old name to new."""
        self.schema = schema
        old_name = {new: old for old, new in (renamed or {}).items()}
        self._rows = [
            {name: row.get(old_name.get(name, name)) for name in schema.names} for row in self._rows
        ]

    def copy(self) -> AppendModel:
        other = AppendModel(self.schema)
        other._rows = list(self._rows)
        return other

    def key_of(self, row: Row) -> Key:
        """A row has no key but itself."""
        return tuple(row.items())


def model_of(schema: TableSchema) -> RowsModel:
    """An empty model of a table of either kind."""
    return Model(schema) if schema.has_key else AppendModel(schema)
