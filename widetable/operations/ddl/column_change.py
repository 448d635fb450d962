"""Changes columns and fields within them: adds, drops, renames and moves them, and changes type, nullability and
comment.

In: a schema, and changes by path. Out: its columns after them. Pure. All changes are one step, in terms of the names
before it. Ids stay with their fields, at any depth, and are never used again, so older files are read by id.

    columns    k (id 0), v (1) ROW<a INT (2), b INT (3)>; the highest id is 3
    change     add w, v.c; rename v.a to z; v.b is BIGINT; move v.c before a, w after k
    result     k (0), w (4), v (1) ROW<c (5), z (2), b BIGINT (3)>; the highest id is 5

    change     v is ROW<b BIGINT, q INT>      as a whole: fields are matched by name
    result     v (1) ROW<b BIGINT (3), q INT (4)>

Moves come last, so they may name added columns and fields; a new column without a move is the last one.

Source: Paimon `SchemaManager.generateTableSchema`; `NestedSchemaUtils` for the change of a nested type.
Raises InvalidError and NotFoundError for impossible changes, UnsupportedError for a type to which values do not widen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from widetable.errors import InvalidError, UnsupportedError
from widetable.format.column_cast import column_cast
from widetable.operations.ddl.column_move import Entry, moved
from widetable.operations.ddl.column_path import ELEMENT, VALUE, Path, is_field, printed, type_at
from widetable.schema.new_schema import column_type
from widetable.schema.options import NULL_TO_NOT_NULL_DISABLED
from widetable.schema.table_schema import TableSchema
from widetable.schema.type_text import text_of
from widetable.schema.types import (
    DataField,
    DataType,
    arrow_type,
    assign_field_ids,
    timestamp_unit,
)


@dataclass(frozen=True)
class ColumnChange:
    """The changes of columns by path.

    added: the path and the field of each. nullable: whether it is nullable from now on. moves: the new places
    (column_move.py). comments, moves: may name added columns too. types, nullable: may also name elements of an ARRAY
    and values of a MAP.
    """

    added: Sequence[tuple[Path, pa.Field]] = ()
    dropped: Sequence[Path] = ()
    renamed: Mapping[Path, str] = field(default_factory=dict)
    types: Mapping[Path, pa.Field] = field(default_factory=dict)
    nullable: Mapping[Path, bool] = field(default_factory=dict)
    comments: Mapping[Path, str | None] = field(default_factory=dict)
    moves: Mapping[Path, str] = field(default_factory=dict)


def changed_columns(schema: TableSchema, change: ColumnChange) -> tuple[tuple[DataField, ...], int]:
    """Return the columns, and the highest id that was ever given.

    All checks come first, so nothing is half changed. At the end each remaining column is compared with its old type,
    as the reader of its old files will do: a change that the reader refuses is refused here.
    """
    _check_existing(schema, change)
    _check_once(change)
    columns = _ChangedColumns(schema, change)
    fields = columns.fields(schema.fields, ())
    before = {each.id: each.type for each in schema.fields}
    for each in fields:
        old = before.get(each.id, each.type)
        if old != each.type:  # raises if the reader of old files refuses the column
            column_cast(arrow_type(old), old, each.type, f"column {each.name!r}")
    return fields, columns.highest_id


def _check_existing(schema: TableSchema, change: ColumnChange) -> None:
    added = {path for path, _ in change.added}
    for path, column in change.added:
        _check_place(schema, path, column)
    named = [*change.dropped, *change.renamed]
    named += [path for path in (*change.comments, *change.moves) if path not in added]
    for path in named:
        type_at(path, schema)
        if not is_field(path, schema):
            raise InvalidError(
                f"column {printed(path)!r}",
                found=f"the {path[-1]} of {printed(path[:-1])!r}",
                expected="a column, or a field of a ROW, which has a name, a place and a comment",
                action="Correct the path, or change the type of the whole column.",
            )
    for path in (*change.types, *change.nullable):
        type_at(path, schema)
    for path in (*change.dropped, *change.renamed, *change.types, *change.nullable):
        is_no_change = change.nullable.get(path) is False
        if path[0] in schema.primary_keys and not is_no_change:
            raise InvalidError(
                f"column {path[0]!r}",
                found="a change of a key column",
                expected="a column outside of the primary key",
                action="Create a new table with the other key, and copy the rows.",
            )


def _check_place(schema: TableSchema, path: Path, column: pa.Field) -> None:
    if len(path) > 1:
        outer = type_at(path[:-1], schema)
        if outer.root != "ROW":
            inner = {"ARRAY": ELEMENT, "MAP": VALUE}.get(outer.root)
            raise InvalidError(
                f"column {printed(path)!r}",
                found=f"{printed(path[:-1])!r} of the type {text_of(outer)}",
                expected=f"a ROW, such as {printed((*path[:-1], inner))!r}" if inner else "a ROW",
                action="Correct the path; put a name with a dot in backticks.",
            )
    if not column.nullable:
        raise InvalidError(
            f"column {printed(path)!r}",
            found="a new column that is NOT NULL",
            expected="a nullable one, because existing rows have no value for it",
            action="Add it as nullable.",
        )


def _check_once(change: ColumnChange) -> None:
    """Refuse two changes of one column: a dropped column is not changed, a column of a new type is not changed within.

    drop v, rename v.a         refused: v is dropped         rename v, change the type of v.a    both
    change v, add v.c          refused: v has another type   drop v.a, add v.a                   both
    add x, rename x (another)  both, unless x has a comment or place, too: it is unclear which x is meant
    """
    for path, new_type in change.types.items():
        if not new_type.nullable and change.nullable.get(path):
            raise InvalidError(
                f"column {printed(path)!r}",
                found="a NOT NULL type and a change to nullable",
                expected="one of them",
                action="Leave one out.",
            )
    added, dropped = {path for path, _ in change.added}, {*change.dropped}
    changes = (change.renamed, change.types, change.nullable, change.comments, change.moves)
    changed = [path for paths in changes for path in paths if path not in added]
    for path in (*changed, *added, *dropped):
        outer = [path[:depth] for depth in range(1, len(path))]
        conflicts = [each for each in outer if each in dropped or each in change.types]
        if path in dropped and path in changed:
            conflicts.append(path)
        if path in added and path in change.renamed and {path} & {*change.comments, *change.moves}:
            conflicts.append(path)  # it is unclear which one is meant
        if conflicts:
            what = "a drop" if conflicts[0] in dropped else "another type, or name,"
            raise InvalidError(
                f"column {printed(conflicts[0])!r}",
                found=f"{what} and another change",
                expected="one of them",
                action="Leave one out.",
            )


class _ChangedColumns:
    """Changes columns from the outside in. highest_id: that of the table, as fields are added."""

    def __init__(self, schema: TableSchema, change: ColumnChange) -> None:
        self.highest_id = schema.highest_field_id
        self._change = change
        self._dropped = frozenset(change.dropped)
        self._may_forbid_null = not schema.typed_options.get(NULL_TO_NOT_NULL_DISABLED)
        self._moves = defaultdict[Path, list[tuple[Path, str]]](list)
        self._added = defaultdict[Path, list[Entry]](list)
        for path, place in change.moves.items():
            self._moves[path[:-1]].append((path, place))
        for path, column in change.added:
            kind = column_type(column.with_name(printed(path)), nullable=True)
            new = self._new(DataField(0, path[-1], kind, change.comments.get(path)))
            self._added[path[:-1]].append((path[-1], new))

    def fields(self, old: Sequence[DataField], within: Path) -> tuple[DataField, ...]:
        """Return the columns, or the fields of a ROW."""
        entries = [
            (each.name, self._field(each, (*within, each.name)))
            for each in old
            if (*within, each.name) not in self._dropped
        ]
        entries += self._added[within]
        for path, place in self._moves[within]:
            entries = moved(entries, path, place)
        fields = tuple(each for _, each in entries)
        if within:
            _check_row(fields, within)
        return fields

    def _field(self, old: DataField, path: Path) -> DataField:
        return replace(
            old,
            name=self._change.renamed.get(path, old.name),
            type=self._type(old.type, path),
            description=self._change.comments.get(path, old.description),
        )

    def _type(self, old: DataType, path: Path) -> DataType:
        kind = old
        if path in self._change.types:
            new_type = self._change.types[path].with_name(printed(path))
            nullable = old.nullable and new_type.nullable
            kind = self._retyped(old, column_type(new_type, nullable=nullable), path)
        elif old.root == "ROW":
            kind = replace(old, fields=self.fields(old.fields, path))
        elif old.root == "ARRAY" and old.element is not None:
            kind = replace(old, element=self._type(old.element, (*path, ELEMENT)))
        elif old.root == "MAP" and old.value is not None:
            kind = replace(old, value=self._type(old.value, (*path, VALUE)))
        return self._with_null(kind, self._change.nullable.get(path, kind.nullable), path)

    def _with_null(self, kind: DataType, nullable: bool, path: Path) -> DataType:
        if kind.nullable and not nullable and not self._may_forbid_null:
            raise InvalidError(
                f"column {printed(path)!r}",
                found="a change to NOT NULL",
                expected="a column that stays nullable, because existing rows may have no value",
                action="If all rows have one, alter the table twice: first set_options="
                f"{{{NULL_TO_NOT_NULL_DISABLED.key!r}: 'false'}}. Nulls are then refused on read and write.",
            )
        return replace(kind, nullable=nullable)

    def _retyped(self, old: DataType, new: DataType, path: Path) -> DataType:
        """Return `new`; fields of rows that have the name of an old field keep its id."""
        if old.root != new.root and (old.is_nested or new.is_nested):
            raise InvalidError(
                f"column {printed(path)!r}",
                found=f"a change from {text_of(old)} to {text_of(new)}",
                expected="a nested type of the same kind, or a plain type instead of a plain one",
                action="Add a column of the other type instead.",
            )
        if new.root == "ROW":
            rows = replace(new, fields=self._retyped_fields(old, new, path))
            return self._nullable_as(old, rows, path)
        if old.element is not None and new.element is not None:
            element = self._retyped(old.element, new.element, (*path, ELEMENT))
            return self._nullable_as(old, replace(new, element=element), path)
        if old.value is not None and new.value is not None:
            _check_map_key(old, new, path)
            value = self._retyped(old.value, new.value, (*path, VALUE))
            return self._nullable_as(old, replace(new, key=old.key, value=value), path)
        # The reader of old files raises for a type to which their values do not widen.
        column_cast(arrow_type(old), old, new.as_nullable(), f"column {printed(path)!r}")
        _check_time_range(old, new, path)
        return self._nullable_as(old, new, path)

    def _nullable_as(self, old: DataType, new: DataType, path: Path) -> DataType:
        return self._with_null(replace(new, nullable=old.nullable), new.nullable, path)

    def _retyped_fields(self, old: DataType, new: DataType, path: Path) -> tuple[DataField, ...]:
        before = {each.name: each for each in old.fields}
        fields = []
        for each in new.fields:
            same_name, at = before.get(each.name), (*path, each.name)
            if same_name is not None:
                fields.append(replace(same_name, type=self._retyped(same_name.type, each.type, at)))
                continue
            _check_new(each, at)
            fields.append(self._new(each))
        return tuple(fields)

    def _new(self, added: DataField) -> DataField:
        """Return the field with ids that no field had before."""
        own_id = self.highest_id + 1
        kind, next_id = assign_field_ids(added.type, own_id + 1)
        self.highest_id = next_id - 1
        return replace(added, id=own_id, type=kind)


def _check_row(fields: Sequence[DataField], path: Path) -> None:
    twice = [name for name, count in Counter(each.name for each in fields).items() if count > 1]
    if twice or not fields or not all(each.name for each in fields):
        raise InvalidError(
            f"column {printed(path)!r}",
            found=f"the field {twice[0]!r} twice" if twice else "no field, or one without a name",
            expected="a ROW of one field or more, with names of their own",
            action="Correct the changes; drop the column if it has no field left.",
        )


def _check_new(added: DataField, path: Path) -> None:
    if not added.type.nullable:
        raise InvalidError(
            f"column {printed(path)!r}",
            found="a new field that is NOT NULL",
            expected="a nullable one, because existing rows have no value for it",
            action="Give it as nullable.",
        )


def _check_map_key(old: DataType, new: DataType, path: Path) -> None:
    keys = [kind.key and arrow_type(kind.key) for kind in (old, new)]
    if keys[0] != keys[1]:
        raise InvalidError(
            f"column {printed(path)!r}",
            found=f"different key types: {text_of(new)} instead of {text_of(old)}",
            expected="an unchanged key type",
            action="Add a column of the other type instead.",
        )


def _check_time_range(old: DataType, new: DataType, path: Path) -> None:
    """Refuse nanoseconds, which hold the years 1677 to 2262 only: a 9999-12-31 would make the column unreadable."""
    old_unit, new_unit = (
        timestamp_unit(kind.precision or 0) if kind.root.startswith("TIMESTAMP") else None
        for kind in (old, new)
    )
    if new_unit == "ns" and old_unit != "ns":
        raise UnsupportedError(
            f"column {printed(path)!r}",
            found=f"a change from {old} to {new}",
            expected="at most 6 digits of the second, because with more the years are limited to 1677 to 2262",
            action="Add a column of the new type instead.",
        )
