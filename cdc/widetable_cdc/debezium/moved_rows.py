"""The changes of a batch, put in order and joined where two of them are one.

    delete key 3, lsn 900; insert key 30, lsn 900, big unavailable       one update of key 3, which becomes 30
    insert key 1, lsn 900; update key 1, lsn 800                         the update first, if positions count

In: changes of a batch, form by form, in the order of the records. Out: the same in their new order. Pure. Raises
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow

Mask = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FormChanges:
    """Changes of one form. events: what is one event in the source, large_string; null where it does not matter."""

    changes: ChangeBatch
    events: pa.Array

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.changes.kinds)

    @property
    def old(self) -> pa.RecordBatch:
        """The keys before the changes."""
        assert self.changes.old is not None, "each part has them"
        return self.changes.old

    @property
    def lacks_delete(self) -> bool:
        """Whether an insert has placeholders, so that it belongs to a delete."""
        return bool(len(_named(self, Kind.INSERT)))

    def kept(self, keeps: Mask) -> FormChanges:
        """Return the changes with `keeps`."""
        return self if keeps.all() else self.taken(np.flatnonzero(keeps))

    def taken(self, rows: Longs) -> FormChanges:
        """Return some changes, in this order."""
        return FormChanges(self.changes.taken(rows), self.events.take(pa.array(rows)))


def sorted_by_position(parts: Sequence[FormChanges]) -> tuple[list[FormChanges], int]:
    """Return the changes in the order of their positions, and how many came behind a newer one.

    Changes of one position keep their order. Of sources whose records come in order nothing is moved.
    """
    parts = [part for part in parts if len(part)]
    where = np.concatenate([part.changes.end_lsns for part in parts] or [np.empty(0, np.int64)])
    highest = np.maximum.accumulate(where) if len(where) else where
    late = int((where < highest).sum())
    if not late:
        return list(parts), 0
    forms = list(dict.fromkeys(part.changes.relation for part in parts))
    wholes = [_joined([part for part in parts if part.changes.relation == form]) for form in forms]
    number = np.concatenate([np.full(len(whole), at) for at, whole in enumerate(wholes)])
    place = np.concatenate([np.arange(len(whole)) for whole in wholes])
    ordinals = np.concatenate([whole.changes.ordinals for whole in wholes])
    where = np.concatenate([whole.changes.end_lsns for whole in wholes])
    order = np.lexsort((ordinals, where))
    runs = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return [wholes[number[run[0]]].taken(place[run]) for run in runs], late


def _joined(parts: Sequence[FormChanges]) -> FormChanges:
    """Return the changes of parts of one form as one part."""
    if len(parts) == 1:
        return parts[0]
    every = [part.changes for part in parts]
    names = dict.fromkeys(name for changes in every for name in changes.unchanged)
    changes = replace(
        every[0],
        kinds=np.concatenate([each.kinds for each in every]),
        old_rows=np.concatenate([each.old_rows for each in every]),
        ordinals=np.concatenate([each.ordinals for each in every]),
        xids=np.concatenate([each.xids for each in every]),
        end_lsns=np.concatenate([each.end_lsns for each in every]),
        new=_batch([each.new for each in every]),
        unchanged={
            name: np.concatenate(
                [each.unchanged.get(name, np.zeros(len(each.kinds), np.bool_)) for each in every]
            )
            for name in names
        },
        old=_batch([part.old for part in parts]),
    )
    return FormChanges(changes, pa.concat_arrays([part.events for part in parts]))


def _batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    columns = [
        column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def paired(parts: Sequence[FormChanges]) -> list[FormChanges]:
    """Return the changes, in which a delete and an insert that are one event are one update."""
    inserts = [_named(part, Kind.INSERT) for part in parts]
    if not any(len(rows) for rows in inserts):
        return list(parts)
    deletes = [_named(part, Kind.DELETE) for part in parts]
    pairs = list(zip(parts, deletes, strict=True))
    gone = pa.chunked_array(
        [part.events.take(pa.array(rows)) for part, rows in pairs], pa.large_string()
    ).combine_chunks()
    keys = _batch([part.old.take(pa.array(rows)) for part, rows in pairs])
    is_moved = np.zeros(len(gone), np.bool_)
    updated: list[FormChanges] = []
    for part, rows in zip(parts, inserts, strict=True):
        index = pc.index_in(part.events.take(pa.array(rows)), value_set=gone)
        has_pair = np.asarray(index.is_valid())
        mates = np.asarray(index.fill_null(0)).astype(np.int64)[has_pair]
        is_moved[mates] = True
        updated.append(_as_updates(part, rows[has_pair], keys.take(pa.array(mates))))
    ends = np.cumsum([len(rows) for rows in deletes])
    kept: list[FormChanges] = []
    for part, rows, moved in zip(updated, deletes, np.split(is_moved, ends[:-1]), strict=True):
        keeps = np.ones(len(part), np.bool_)
        keeps[rows[moved]] = False
        kept.append(part.kept(keeps))
    return kept


def _named(part: FormChanges, kind: Kind) -> Longs:
    """Return the changes of a kind that name an event. Only those inserts do that have placeholders."""
    return np.flatnonzero((part.changes.kinds == kind) & np.asarray(part.events.is_valid()))


def _as_updates(part: FormChanges, rows: Longs, keys: pa.RecordBatch) -> FormChanges:
    """Make inserts updates of rows that have these keys."""
    changes = part.changes
    kinds, old_rows = changes.kinds.copy(), changes.old_rows.copy()
    kinds[rows], old_rows[rows] = Kind.UPDATE, OldRow.KEY
    places = np.full(len(kinds), -1, np.int64)
    places[rows] = np.arange(len(rows))
    index = pa.array(places, mask=places < 0)
    columns = [
        pc.coalesce(keys.column(name).take(index), part.old.column(name))
        for name in part.old.schema.names
    ]
    old = pa.RecordBatch.from_arrays(columns, schema=part.old.schema)
    return FormChanges(replace(changes, kinds=kinds, old_rows=old_rows, old=old), part.events)
