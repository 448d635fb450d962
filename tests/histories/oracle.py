"""The laws of docs/decisions 0001 and 0003, record by record: a table holds all its records, each in normal form,
merged from scratch in their order.

Values are cells (`bit_patterns.cells`), compared as they are: by bits, all NaNs one. Knows nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
Key = tuple[Any, ...]
ADDS = ("+I", "+U")


@dataclass(frozen=True)
class Group:
    """Sequence columns, in the order in which they are compared, and what they protect."""

    sequence: tuple[str, ...]
    protected: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sequence + self.protected


@dataclass(frozen=True)
class Rules:
    """Of one table. order: its `sequence.field`s. removers: groups of remove-record-on-sequence-group."""

    types: Mapping[str, pa.DataType]
    key: tuple[str, ...]
    is_partial: bool
    groups: tuple[Group, ...] = ()
    order: tuple[str, ...] = ()
    is_descending: bool = False
    removes_on_delete: bool = False
    removers: tuple[Group, ...] = ()
    ignores_deletes: bool = False

    def rank(self, row: Row, names: Sequence[str], *, falls: bool = False) -> tuple[Any, ...]:
        """What orders rows by these columns: null first, also where values fall."""
        return tuple(_Rank(_value(self.types[n], row[n]), falls) for n in names)

    def normal_form(self, kind: str, row: Row) -> Row:
        """Decision 0001: what has no meaning is null."""
        if not self.is_partial:
            return row
        kept = {*self.key, *self.order, *(name for g in self.groups for name in g.sequence)}
        if self.groups and kind not in ADDS:
            return {name: value if name in kept else None for name, value in row.items()}
        if not self.groups and self.removes_on_delete and kind == "-D":
            return {name: value if name in kept else None for name, value in row.items()}
        for group in self.groups:
            if all(row[name] is None for name in group.sequence):
                row = row | dict.fromkeys((n for n in group.protected if n not in kept), None)
        return row


@dataclass(frozen=True, order=False)
class _Rank:
    value: Any
    falls: bool

    def __lt__(self, other: _Rank) -> bool:
        if self.value is None or other.value is None:
            return self.value is None and other.value is not None
        return bool(other.value < self.value if self.falls else self.value < other.value)


def _value(kind: pa.DataType, cell: Any) -> Any:
    """A cell as something that Python orders as the column is ordered."""
    if cell is None or isinstance(cell, bool):
        return cell
    if pa.types.is_decimal(kind):
        return int.from_bytes(cell, "little", signed=True)
    if pa.types.is_floating(kind):  # -0.0 before 0.0, NaN last
        return cell if cell >= 0 else -(cell & ((1 << (kind.bit_width - 1)) - 1)) - 1
    return cell


@dataclass
class Oracle:
    """records: in arrival order, of each key."""

    rules: Rules
    records: dict[Key, list[tuple[str, Row]]] = field(default_factory=dict)

    def write(self, records: Sequence[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """One commit; the records that are written at all. A column that a record does not carry is null."""
        written = []
        for kind, given in records:
            if kind not in ADDS and self.rules.ignores_deletes:
                continue
            row = dict.fromkeys(self.rules.types) | given
            written.append((kind, row))
            key = tuple(row[name] for name in self.rules.key)
            self.records.setdefault(key, []).append((kind, self.rules.normal_form(kind, row)))
        return written

    def rows(self) -> dict[Key, Row]:
        """What a reader sees."""
        found = {key: self._merged(records) for key, records in self.records.items()}
        return {key: row for key, row in found.items() if row is not None}

    def _merged(self, records: list[tuple[str, Row]]) -> Row | None:
        rules = self.rules
        in_order = sorted(
            records, key=lambda r: rules.rank(r[1], rules.order, falls=rules.is_descending)
        )
        if not rules.is_partial:
            kind, row = in_order[-1]
            return row if kind in ADDS else None
        state, is_visible = dict.fromkeys(rules.types), False
        for kind, row in in_order:
            state |= {name: row[name] for name in rules.key}
            if kind == "-D" and self._removes(state, row):
                state, is_visible = self._removed(row), False
            else:
                self._apply(state, kind in ADDS, row)
                is_visible = is_visible or kind in ADDS
        return state if is_visible else None

    def _accepts(self, group: Group, state: Row, row: Row) -> bool:
        rank = self.rules.rank
        is_given = any(row[name] is not None for name in group.sequence)
        return is_given and not rank(row, group.sequence) < rank(state, group.sequence)

    def _removes(self, state: Row, row: Row) -> bool:
        accepted = (self._accepts(group, state, row) for group in self.rules.removers)
        return self.rules.removes_on_delete or any(accepted)

    def _removed(self, row: Row) -> Row:
        kept = {*self.rules.key, *(name for g in self.rules.groups for name in g.sequence)}
        return {name: value if name in kept else None for name, value in row.items()}

    def _apply(self, state: Row, is_add: bool, row: Row) -> None:
        grouped: set[str] = set()
        for group in self.rules.groups:
            grouped.update(group.columns)
            if self._accepts(group, state, row):
                state.update({name: row[name] if is_add else None for name in group.protected})
                state.update({name: row[name] for name in group.sequence})
        if is_add:
            state.update({n: v for n, v in row.items() if n not in grouped and v is not None})
