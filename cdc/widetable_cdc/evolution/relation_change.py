"""Decides what a Relation message means for the target of its table: the table C8 of the specification.

A Relation has names and types of columns in the order of attnum, but no attnum. The catalog has them, and is ahead of
the log. It counts for a Relation only if it has the same names in the same order; then columns are matched by attnum:

    the form before     id 1, name 2           the Relation     id, label
    the catalog         id 1, label 2          name was renamed to label
    the catalog         id 1, label 3          name was dropped, label was added
    the catalog         id 1, label 3, x 4     ahead of the log: nothing is guessed, the table is copied again

    attnum         in the form before only: dropped; in the catalog only: added; in both: renamed, or of another type
    type           equal in the target: nothing; wider (`widening`): widened; else parked
    relfilenode    changed: the rows were rewritten, perhaps with other values, and there was no event: verify
    key            another name, type of the target, order or column: parked

A Relation that says nothing new comes with each part of the log. It is a hint to look at the catalog as well. Pure.
Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from widetable_cdc.evolution.actions import (
    Action,
    AddColumn,
    CopyAgain,
    DropColumn,
    Park,
    RenameColumn,
    SchemaAction,
    Verify,
    WidenType,
)
from widetable_cdc.evolution.applied_form import AppliedForm
from widetable_cdc.evolution.widening import is_wider
from widetable_cdc.log.changes import IDENTITY_NOTHING, Relation
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.source_type import SourceType

# A column's name and its type at the source: returns the type of the target, as a text.
TargetOf: TypeAlias = Callable[[str, SourceType], str]


def relation_change(
    before: AppliedForm, relation: Relation, now: SourceTable | None, target_of: TargetOf
) -> tuple[Action, ...]:
    """Return what to do before the next change of the relation is applied.

    before: the form that the target has. now: the catalog's table, read after the Relation came; None if there is none.
    """
    reason = _new_table(before, relation, now) or _unusable(before, relation)
    if reason is not None:
        return (reason,)
    is_new = _shape(relation) != _shape(before.relation)
    if now is None or not _agrees(relation, now, before):
        why = "the catalog has other columns by now, so they cannot be matched"
        return (CopyAgain(f"{_said(relation)} has another form, and {why}"),) if is_new else ()
    parked = _key_change(before.table, now, target_of)
    if parked is not None:
        return (parked,)
    actions = tuple(_column_changes(before.table, _sent(relation, now), target_of))
    parks = tuple(action for action in actions if isinstance(action, Park))
    if parks:
        return parks[:1]
    return (*actions, *_value_changes(before, now, actions, is_new=is_new))


def applied_table(relation: Relation, now: SourceTable) -> SourceTable:
    """Return what the target has after the actions: the catalog's table with the columns that the log sends."""
    return SourceTable(
        now.oid,
        now.schema,
        now.name,
        now.relfilenode,
        now.identity,
        now.key,
        tuple(_sent(relation, now)),
    )


def catalog_change(
    before: AppliedForm, now: SourceTable, target_of: TargetOf
) -> tuple[SchemaAction | Park, ...]:
    """Return what brings the target to the catalog's columns before a table is copied again, whatever the log says.

    A table that was dropped and made again keeps the columns that have their name and type of the target.
    """
    old = before.table
    if now.oid != old.oid:
        places = {(c.name, target_of(c.name, c.type)): c.attnum for c in now.columns}
        gone = -1 - len(old.columns)
        moved = (
            replace(c, attnum=places.get((c.name, target_of(c.name, c.type)), gone + at))
            for at, c in enumerate(old.columns)
        )
        old = replace(old, columns=tuple(moved))
    parked = _key_change(old, now, target_of)
    if parked is not None:
        return (parked,)
    actions = tuple(_column_changes(old, list(now.columns), target_of))
    parks = tuple(action for action in actions if isinstance(action, Park))
    return parks[:1] or actions


def _said(relation: Relation) -> str:
    return f"{relation.schema}.{relation.name}"


def _shape(relation: Relation) -> tuple[tuple[str, int, int], ...]:
    return tuple((c.name, c.type_oid, c.typmod) for c in relation.columns)


def _new_table(
    before: AppliedForm, relation: Relation, now: SourceTable | None
) -> CopyAgain | Park | None:
    """Return what follows from a table that was dropped, or dropped and made again under its name."""
    if relation.oid != before.table.oid:
        return CopyAgain(f"{_said(relation)} was dropped and made again")
    if now is None and _shape(relation) != _shape(before.relation):
        return Park(f"{_said(relation)} has another form, and was dropped since")
    return None


def _unusable(before: AppliedForm, relation: Relation) -> Park | None:
    """Return why changes of the relation do not say which row they mean."""
    if relation.identity == IDENTITY_NOTHING:
        return Park(f"{_said(relation)} has the replica identity NOTHING")
    flagged = {column.name for column in relation.columns if column.is_key}
    lacking = [name for name in before.table.key if name not in flagged]
    if lacking or not before.table.key:
        columns = ", ".join(map(repr, lacking)) or "any column"
        return Park(
            f"the key of {_said(relation)} has changed: its identity no longer has {columns}"
        )
    return None


def _agrees(relation: Relation, now: SourceTable, before: AppliedForm) -> bool:
    """Whether the catalog's columns are those of the Relation, in the same order."""
    names = [column.name for column in relation.columns]
    return now.oid == relation.oid and [c.name for c in _sendable(now, relation, before)] == names


def _sendable(now: SourceTable, relation: Relation, before: AppliedForm) -> Iterator[SourceColumn]:
    """Yield the columns that the log may send: not those that were never sent, as generated ones."""
    sent = {column.name for column in relation.columns}
    old = {column.attnum for column in before.table.columns}
    was_sent = {column.name for column in before.relation.columns}
    unsent = {c.attnum for c in before.table.columns if c.name not in was_sent}
    for column in now.columns:
        is_hidden = column.is_generated and column.attnum not in old
        if column.name in sent or not (is_hidden or column.attnum in unsent):
            yield column


def _sent(relation: Relation, now: SourceTable) -> list[SourceColumn]:
    sent = {column.name for column in relation.columns}
    return [column for column in now.columns if column.name in sent]


def _key_change(before: SourceTable, now: SourceTable, target_of: TargetOf) -> Park | None:
    """Return why the target's key is no longer that of the source."""

    def key_of(table: SourceTable) -> list[tuple[int, str, str]]:
        columns = {column.name: column for column in table.columns}
        return [(columns[n].attnum, n, target_of(n, columns[n].type)) for n in table.key]

    old, new = key_of(before), key_of(now)
    if old == new:
        return None
    was, is_now = (", ".join(f"{n} {kind}" for _, n, kind in key) or "none" for key in (old, new))
    if was == is_now:
        is_now += ", another column of that name"
    return Park(f"the key of {before.schema}.{before.name} was {was}, and is {is_now}")


def _column_changes(
    before: SourceTable, now: list[SourceColumn], target_of: TargetOf
) -> Iterator[SchemaAction | Park]:
    old = {column.attnum: column for column in before.columns}
    new = {column.attnum: column for column in now}
    for attnum, column in old.items():
        if attnum not in new:
            yield DropColumn(attnum, column.name)
    for attnum, column in new.items():
        if attnum not in old:
            yield AddColumn(attnum, column.name, column.type, column.missing)
            continue
        if old[attnum].name != column.name:
            yield RenameColumn(attnum, old[attnum].name, column.name)
        was, is_now = (target_of(each.name, each.type) for each in (old[attnum], column))
        if was != is_now and is_wider(was, is_now):
            yield WidenType(attnum, column.name, column.type)
        elif was != is_now:
            yield Park(
                f"column {column.name!r} was {was}, and is {is_now}, which may not hold its values"
            )


def _value_changes(
    before: AppliedForm, now: SourceTable, actions: tuple[Action, ...], *, is_new: bool
) -> Iterator[Action]:
    """Yield what must be read again, because values have changed without an event."""
    added = [action for action in actions if isinstance(action, AddColumn)]
    dropped = {action.name for action in actions if isinstance(action, DropColumn)}
    if not is_new and added:
        names = ", ".join(repr(a.name) for a in added if a.name in dropped) or "a column"
        yield CopyAgain(f"{names} was dropped and added again, and rows may have come in between")
        return
    if any(a.attnum != before.highest_attnum + at for at, a in enumerate(added, 1)):
        yield CopyAgain("columns were added and dropped in between, whose names may be used again")
        return
    if now.relfilenode == before.table.relfilenode:
        return
    defaults = {c.name for c in now.columns if c.has_default and c.missing is None}
    unknown = [repr(action.name) for action in added if action.name in defaults]
    if unknown:
        yield CopyAgain(
            f"old rows have values of the default of {', '.join(unknown)}, which are not known"
        )
    else:
        yield Verify("the rows were rewritten, and the log does not say with which values")
