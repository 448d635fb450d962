"""Changes as a source would log them, written down row by row, and a source that logs what is done to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow, Relation, RelationColumn

Row = dict[str, str | None]
Given = Mapping[str, str | None]


def relation(*names: str, key: Sequence[str] = ("id",), identity: str = "d") -> Relation:
    """A relation of text columns."""
    columns = [RelationColumn(n, 25, -1, identity == "f" or n in key) for n in names]
    return Relation(16_384, "public", "t", identity, tuple(columns))


@dataclass(frozen=True)
class Change:
    """One change. unchanged: names of columns with the marker `u`."""

    relation: Relation
    kind: Kind
    new: Given = field(default_factory=dict)
    old: Given | None = None
    old_row: OldRow = OldRow.NONE
    unchanged: frozenset[str] = frozenset()
    xid: int = 900
    end_lsn: int = 1000


def batches(changes: Sequence[Change], first_ordinal: int = 0) -> list[ChangeBatch]:
    """The batches of these changes, in their order; ordinals count from `first_ordinal`, by one."""
    numbered = list(enumerate(changes, first_ordinal))
    groups = groupby(numbered, key=lambda one: one[1].relation)
    return [_batch(form, list(group)) for form, group in groups]


def _batch(form: Relation, numbered: list[tuple[int, Change]]) -> ChangeBatch:
    changes = [change for _, change in numbered]
    names = [column.name for column in form.columns]
    masks = {
        name: np.array([name in change.unchanged for change in changes])
        for name in names
        if any(name in change.unchanged for change in changes)
    }
    has_old = any(change.old is not None for change in changes)
    return ChangeBatch(
        relation=form,
        kinds=np.array([change.kind for change in changes], dtype=np.uint8),
        old_rows=np.array([change.old_row for change in changes], dtype=np.uint8),
        ordinals=np.array([ordinal for ordinal, _ in numbered], dtype=np.int64),
        xids=np.array([change.xid for change in changes], dtype=np.uint32),
        end_lsns=np.array([change.end_lsn for change in changes], dtype=np.int64),
        new=_texts(names, [change.new for change in changes]),
        unchanged=masks,
        old=_texts(names, [change.old or {} for change in changes]) if has_old else None,
    )


def _texts(names: list[str], rows: list[Given]) -> pa.RecordBatch:
    columns = [pa.array([row.get(name) for row in rows], pa.large_string()) for name in names]
    return pa.RecordBatch.from_arrays(columns, names=names)


class LoggingSource:
    """A table of a source that logs its changes as PostgreSQL does, by its rules for old rows and unchanged values."""

    def __init__(self, form: Relation, rows: Mapping[str, Given]) -> None:
        self.form = form
        self.rows = {key: dict(row) for key, row in rows.items()}
        self.changes: list[Change] = []
        self.xid = 900

    @property
    def is_full(self) -> bool:
        return self.form.identity == "f"

    def _log(self, kind: Kind, **of: object) -> None:
        self.changes.append(
            Change(self.form, kind, xid=self.xid, end_lsn=1000 + self.xid, **of)  # type: ignore[arg-type]
        )

    def insert(self, row: Given) -> None:
        self.rows[str(row["id"])] = dict(row)
        self._log(Kind.INSERT, new=dict(row))

    def update(self, key: str, values: Given, big: frozenset[str]) -> None:
        """big: the columns whose values lie beside the row, so that they are not sent unless they change."""
        old = self.rows.pop(key)
        new = {**old, **values}
        self.rows[str(new["id"])] = new
        unchanged = frozenset(n for n in big if n not in values and old.get(n) is not None)
        sent = {name: None if name in unchanged else value for name, value in new.items()}
        is_moved = new["id"] != key
        old_row = OldRow.FULL if self.is_full else OldRow.KEY if is_moved else OldRow.NONE
        sent_old = {OldRow.FULL: old, OldRow.KEY: {"id": key}, OldRow.NONE: None}[old_row]
        self._log(Kind.UPDATE, new=sent, old=sent_old, old_row=old_row, unchanged=unchanged)

    def delete(self, key: str) -> None:
        old = self.rows.pop(key)
        old_row = OldRow.FULL if self.is_full else OldRow.KEY
        self._log(Kind.DELETE, old=old if self.is_full else {"id": key}, old_row=old_row)

    def truncate(self) -> None:
        self.rows.clear()
        self._log(Kind.TRUNCATE)

    def add_column(self, name: str, value: str | None) -> None:
        """Without an event for any row."""
        names = [column.name for column in self.form.columns]
        self.form = relation(*names, name, identity=self.form.identity)
        for row in self.rows.values():
            row[name] = value
