"""Deletes that ended a batch: the next batch may begin with the insert that belongs to them.

    batch 7    ..., delete key 2, lsn 900                          committed, with the delete as a property
    batch 8    insert key 20, lsn 900, big unavailable, ...        big is that of key 2 before batch 7

A change of a key is a delete and an insert of one event (`moved_rows`), and a batch may end between the two. The
property `widetable.cdc.last-deletes` of a commit keeps the delete, and the snapshot before the commit, which has the
row. A key that the batch also changed otherwise is not kept: the snapshot would have an older row.

    {"before": 12, "deletes": [["900", {"id": "2"}]]}

In: changes, a table. Out: `LastDelete`, and the text of the property. Raises what reading snapshots raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable import NotFoundError, Table
from widetable_cdc.debezium.moved_rows import FormChanges
from widetable_cdc.log.changes import ChangeBatch, Kind, OldRow

LAST_DELETES: Final = "widetable.cdc.last-deletes"


@dataclass(frozen=True)
class LastDelete:
    """A delete that ended a batch. event: of the source. key: raw JSON by column. before: the snapshot that has the
    row; 0 while nobody knows it.
    """

    event: str
    key: tuple[tuple[str, str], ...]
    before: int = 0


def last_delete(parts: Sequence[FormChanges]) -> LastDelete | None:
    """Return the delete that is the last change of a batch, if its key has no other change there.

    No part is empty.
    """
    if not parts or parts[-1].changes.kinds[-1] != Kind.DELETE:
        return None
    event = parts[-1].events[-1].as_py()
    key = {name: column[-1].as_py() for name, column in _columns(parts[-1].old).items()}
    changes = sum(_count(part.changes, key) for part in parts)
    if event is None or changes > 1:
        return None
    return LastDelete(event, tuple(key.items()))


def _columns(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def _count(changes: ChangeBatch, key: Mapping[str, str]) -> int:
    """Return how many changes have a key, before them or behind them; a truncate has every key."""
    there = changes.kinds == Kind.TRUNCATE
    for rows in (changes.new, changes.old):
        assert rows is not None
        is_key = np.ones(len(changes.kinds), np.bool_)
        for name, text in key.items():
            is_key &= np.asarray(pc.equal(rows.column(name), text).fill_null(False))
        there = there | is_key
    return int(there.sum())


def property_of(deletes: Sequence[LastDelete], before: int | None) -> dict[str, str] | None:
    """Return the properties of the commit that has these deletes. before: the snapshot before it; None without one."""
    if not deletes or before is None:
        return None
    listed = [[each.event, dict(each.key)] for each in deletes]
    return {LAST_DELETES: json.dumps({"before": before, "deletes": listed})}


def kept_deletes(table: Table | None, user: str) -> tuple[LastDelete, ...]:
    """Return the deletes that ended the last commit of a user."""
    for snapshot in reversed([] if table is None else table.snapshots()):
        if snapshot.commit_user == user and snapshot.commit_kind == "APPEND":
            note: Any = json.loads(snapshot.properties.get(LAST_DELETES, "null"))
            return () if note is None else _of_note(note)
    return ()


def _of_note(note: Mapping[str, Any]) -> tuple[LastDelete, ...]:
    return tuple(
        LastDelete(event, tuple(key.items()), note["before"]) for event, key in note["deletes"]
    )


def with_kept(
    parts: Sequence[FormChanges], kept: Sequence[LastDelete]
) -> tuple[list[FormChanges], list[LastDelete]]:
    """Put kept deletes before the changes whose inserts belong to them, and return the deletes that were put there."""
    lacking = {
        event
        for part in parts
        for event, kind in zip(part.events.to_pylist(), part.changes.kinds.tolist(), strict=True)
        if kind == Kind.INSERT and event is not None
    }
    used = [each for each in kept if each.event in lacking]
    if not used:
        return list(parts), []
    return [_as_changes(used, parts[0]), *parts], used


def _as_changes(deletes: Sequence[LastDelete], like: FormChanges) -> FormChanges:
    """Return deletes as changes of a form."""
    count, form = len(deletes), like.changes.new.schema
    nothing = [pa.nulls(count, column.type) for column in form]
    key = [[dict(each.key).get(name) for each in deletes] for name in like.old.schema.names]
    changes = ChangeBatch(
        relation=like.changes.relation,
        kinds=np.full(count, Kind.DELETE, np.uint8),
        old_rows=np.full(count, OldRow.KEY, np.uint8),
        ordinals=np.full(count, like.changes.ordinals[0]),
        xids=np.zeros(count, np.uint32),
        end_lsns=np.full(count, like.changes.end_lsns[0]),
        new=pa.RecordBatch.from_arrays(nothing, schema=form),
        unchanged={},
        old=pa.RecordBatch.from_arrays(
            [pa.array(column, pa.large_string()) for column in key], schema=like.old.schema
        ),
    )
    events = pa.array([each.event for each in deletes], pa.large_string())
    return FormChanges(changes, events)


def rows_before(
    table: Table, keys: pa.RecordBatch, names: Sequence[str], before: int
) -> pa.Table | None:
    """Return the rows of keys in a snapshot; None if it has expired, or has other columns."""
    try:
        return table.lookup(keys, list(names), before)
    except NotFoundError:
        return None
