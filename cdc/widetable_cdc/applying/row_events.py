"""Turns the changes of one table into events of single keys.

    change                               events
    INSERT                               +I new
    UPDATE, the same key                 +U new
    UPDATE, another key                  -D old key, +I new (`is_moved`)
    DELETE                               -D old key
    TRUNCATE                             truncate, without a key

In: a `ChangeBatch` and the key columns of the *target*. Whether a key changed is decided by these columns alone: with
replica identity FULL each column is flagged as key, and each update carries its old row. Out: `RowEvents`, m events in
the order of the log, which point into the batch: no value is copied, except for keys of a batch with old rows. A big
value that is marked as unchanged, and that the old row carries, is taken from there. Pure. Raises InvalidError if the
changes cannot say which row they mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError
from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow, Relation

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]


class RowEvent(IntEnum):
    """What an event does to its key."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    TRUNCATE = 3


@dataclass(frozen=True)
class RowEvents:
    """Events of one table in one form, m of them in the order of the log, over the n changes of a batch.

    relation: the form. kinds: uint8[m], of `RowEvent`. rows: int64[m], each one's change. keys: a large_string[m]
    for each key column of the target, in the target's names; null for a truncate. is_moved: bool[m], the row came from
    another key, whose -D is the event before. is_lost: bool[m], that -D was left out (`kept`), so nothing is known of
    the row under its old key. values: a large_string[n] for each column that is not in the key. unchanged: bool[n] for
    the columns with big values that the change does not carry. ordinals, xids, end_lsns: of the changes, [n].
    """

    relation: Relation
    kinds: npt.NDArray[np.uint8]
    rows: Indices
    keys: Mapping[str, pa.Array]
    is_moved: Mask
    is_lost: Mask
    values: Mapping[str, pa.Array]
    unchanged: Mapping[str, Mask]
    ordinals: npt.NDArray[np.int64]
    xids: npt.NDArray[np.uint32]
    end_lsns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.kinds)

    @property
    def event_xids(self) -> npt.NDArray[np.uint32]:
        """The transaction of each event: uint32[m]."""
        return self.xids[self.rows]

    @property
    def event_end_lsns(self) -> npt.NDArray[np.int64]:
        """The end LSN of each event's transaction: int64[m]."""
        return self.end_lsns[self.rows]

    def kept(self, keeps: Mask) -> RowEvents:
        """Return the events with `keeps`, bool[m]: those that no chunk's snapshot has seen, for instance.

        A moved row whose -D is left out is lost: the chunk of its old key may hold another row of that key by now.
        """
        before = np.concatenate(([True], keeps))[:-1]
        is_lost = self.is_lost | (self.is_moved & ~before)
        mask = pa.array(keeps)
        return replace(
            self,
            kinds=self.kinds[keeps],
            rows=self.rows[keeps],
            keys={name: column.filter(mask) for name, column in self.keys.items()},
            is_moved=self.is_moved[keeps],
            is_lost=is_lost[keeps],
        )


def row_events(
    batch: ChangeBatch, key: Sequence[str], names: Mapping[str, str] | None = None
) -> RowEvents:
    """Return the events of a batch.

    key: the key columns of the target. names: the target's name of each column of the relation that is applied; None
    for all, under their own names.
    """
    columns = {c.name: c.name for c in batch.relation.columns} if names is None else dict(names)
    source_of = {target: source for source, target in columns.items()}
    _check_key(batch.relation, key, source_of)
    sources = [source_of[name] for name in key]
    is_delete = batch.kinds == Kind.DELETE
    _check_old(batch, is_delete)
    is_split = _key_changes(batch, sources)
    rows = np.repeat(np.arange(len(batch.kinds), dtype=np.int64), 1 + is_split.astype(np.int64))
    is_second = np.concatenate(([False], rows[1:] == rows[:-1]))
    is_first = np.concatenate((is_second[1:], [False]))
    kinds = _KIND_OF[batch.kinds][rows]
    kinds[is_first] = RowEvent.DELETE
    kinds[is_second] = RowEvent.INSERT
    uses_old = is_delete[rows] | is_first
    unchanged, values = _values(batch, source_of, key)
    return RowEvents(
        relation=batch.relation,
        kinds=kinds,
        rows=rows,
        keys={
            name: _key_column(batch, source, rows, uses_old)
            for name, source in zip(key, sources, strict=True)
        },
        is_moved=is_second,
        is_lost=np.zeros(len(rows), dtype=np.bool_),
        values=values,
        unchanged=unchanged,
        ordinals=batch.ordinals,
        xids=batch.xids,
        end_lsns=batch.end_lsns,
    )


_KIND_OF = np.full(256, RowEvent.TRUNCATE, dtype=np.uint8)
_KIND_OF[Kind.INSERT] = RowEvent.INSERT
_KIND_OF[Kind.UPDATE] = RowEvent.UPDATE
_KIND_OF[Kind.DELETE] = RowEvent.DELETE


def _check_key(relation: Relation, key: Sequence[str], source_of: Mapping[str, str]) -> None:
    """Refuse a key of which old rows do not carry each column: a delete would not say which row is gone."""
    identity = {column.name for column in relation.columns if column.is_key}
    lacking = [name for name in key if source_of.get(name) not in identity]
    if lacking:
        raise InvalidError(
            f"table {relation.schema}.{relation.name}",
            found=f"a replica identity ({relation.identity!r}) without {', '.join(map(repr, lacking))}",
            expected=f"one that holds the key of the target: {', '.join(map(repr, key))}",
            action="Set REPLICA IDENTITY to an index with these columns, or to FULL.",
        )


def _check_old(batch: ChangeBatch, is_delete: Mask) -> None:
    if np.any(is_delete & (batch.old_rows == OldRow.NONE)) or (
        batch.old is None and is_delete.any()
    ):
        relation = batch.relation
        raise InvalidError(
            f"table {relation.schema}.{relation.name}",
            found="a delete without its old row",
            expected="the key of the row, which a replica identity sends",
            action="Give the table a primary key or another replica identity, and copy it again.",
        )


def _key_changes(batch: ChangeBatch, sources: Sequence[str]) -> Mask:
    """Return which updates have another key than their old row: bool[n]."""
    candidates = (batch.kinds == Kind.UPDATE) & (batch.old_rows != OldRow.NONE)
    if batch.old is None or not candidates.any():
        return np.zeros(len(batch.kinds), dtype=np.bool_)
    differs: Mask = np.zeros(len(batch.kinds), dtype=np.bool_)
    for source in sources:
        unequal = pc.not_equal(batch.old.column(source), _new_key(batch, source))
        differs |= np.asarray(unequal.fill_null(True))
    changes: Mask = candidates & differs
    return changes


def _new_key(batch: ChangeBatch, source: str) -> pa.Array:
    """Return a key column of the new rows. PostgreSQL sends the old key with a big key value that is unchanged."""
    new, mask = batch.new.column(source), batch.unchanged.get(source)
    if mask is None or batch.old is None:
        return new
    return pc.if_else(pa.array(mask), batch.old.column(source), new)


def _key_column(batch: ChangeBatch, source: str, rows: Indices, uses_old: Mask) -> pa.Array:
    new = _new_key(batch, source)
    is_plain = len(rows) == len(batch.kinds)
    if batch.old is None or not uses_old.any():
        return new
    old = batch.old.column(source)
    if not is_plain:
        old, new = old.take(pa.array(rows)), new.take(pa.array(rows))
    return pc.if_else(pa.array(uses_old), old, new)


def _values(
    batch: ChangeBatch, source_of: Mapping[str, str], key: Sequence[str]
) -> tuple[dict[str, Mask], dict[str, pa.Array]]:
    """Return what is not carried, and the values, with what a whole old row says of them."""
    unchanged: dict[str, Mask] = {}
    values: dict[str, pa.Array] = {}
    has_full = batch.old_rows == OldRow.FULL
    for name, source in source_of.items():
        if name in key:
            continue
        column, mask = batch.new.column(source), batch.unchanged.get(source)
        if mask is not None and batch.old is not None and (mask & has_full).any():
            column = pc.if_else(pa.array(mask & has_full), batch.old.column(source), column)
            mask = mask & ~has_full
        values[name] = column
        if mask is not None and mask.any():
            unchanged[name] = mask
    return unchanged, values
