"""Changes of a schema: columns added, dropped, renamed, widened, options set and removed.

In: a schema and a change; out: the schema with the next id. Pure. Source: Paimon
`SchemaManager.generateTableSchema`; format.md section 2. Ids never change or come back, so files
written before are read by id. Raises InvalidError for what would break a key, an option or a merge
rule, NotFoundError for a column that is not there, UnsupportedError for a type that values do not
widen to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from widetable import options as opt
from widetable.derived_options import check_derived, index_options, widen_options
from widetable.errors import InvalidError, UnsupportedError, WidetableError
from widetable.field_options import FIELD_OPTION
from widetable.format.column_cast import column_cast
from widetable.merge.engine import engine_of
from widetable.merge.record_expiry import check_record_expiry
from widetable.new_schema import column_type
from widetable.operations.function_change import check_functions
from widetable.option_checks import check_alter, check_honoured
from widetable.retention_options import RECORD_LEVEL_TIME_FIELD
from widetable.schema import TableSchema
from widetable.schema_rules import check_schema
from widetable.types import (
    DataField,
    DataType,
    arrow_type,
    assign_field_ids,
    timestamp_unit,
    type_from_arrow,
)

# Types that may become one of the others, where their values are ordered otherwise.
_ORDERED_AS_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_OTHER_ORDER: Final = ("VARCHAR", "FLOAT", "DOUBLE")


@dataclass(frozen=True)
class SchemaChange:
    """What to change, in terms of the names before the change; added columns are nullable and come
    last.
    """

    set_options: Mapping[str, str] = field(default_factory=dict)
    remove_options: Sequence[str] = ()
    add_columns: Sequence[pa.Field] = ()
    drop_columns: Sequence[str] = ()
    rename_columns: Mapping[str, str] = field(default_factory=dict)
    change_types: Mapping[str, pa.DataType] = field(default_factory=dict)


def changed_schema(
    schema: TableSchema, change: SchemaChange, mends: Mapping[str, str] | None = None
) -> TableSchema:
    """The next schema of the table. Raises before anything is written. mends: see `check_alter`."""
    _check_changed_columns(schema, change)
    _check_options_once(change)
    check_honoured(change.set_options, made_here=True)
    fields = [
        _changed_field(column, change)
        for column in schema.fields
        if column.name not in change.drop_columns
    ]
    added, highest = _added_fields(schema, change)
    new = replace(
        schema,
        id=schema.id + 1,
        fields=(*fields, *added),
        highest_field_id=highest,
        options=_changed_options(schema.options, change),
        time_millis=int(time.time() * 1000),
        uuid=None,
    )
    check_alter(schema.options, new.options, mends=mends)
    check_schema(new)
    engine_of(new)
    check_record_expiry(new)
    check_derived(new)
    _check_orders(schema, new)
    _check_groups(schema, new)
    check_functions(schema, new)
    return new


def _check_changed_columns(schema: TableSchema, change: SchemaChange) -> None:
    asked = [*change.drop_columns, *change.rename_columns, *change.change_types]
    for name in asked:
        schema.field(name)
        if name in schema.primary_keys:
            raise InvalidError(
                f"column {name!r}",
                found="a change of a key column",
                expected="a column outside of the primary key",
                action="Make a new table with the other key and copy the rows.",
            )
    _check_named_columns(schema, change)
    twice = [
        name
        for name in change.drop_columns
        if name in change.rename_columns or name in change.change_types
    ]
    if twice:
        raise InvalidError(
            f"column {twice[0]!r}",
            found="a drop and another change",
            expected="one of them",
            action="Leave one out.",
        )


def _check_named_columns(schema: TableSchema, change: SchemaChange) -> None:
    """What `index.*` and `widen.*` name keeps its name while they stand: the tables that they make go by it."""
    named = {index.key: index.columns for index in index_options(schema.options)}
    for widen in widen_options(schema.options):
        named[widen.key] = (widen.column, *widen.columns, widen.sequence)
    for key in named.keys() - {*change.remove_options, *change.set_options}:
        taken = [
            name for name in named[key] if name in (*change.drop_columns, *change.rename_columns)
        ]
        if taken:
            raise InvalidError(
                f"column {taken[0]!r}",
                found=f"a change of its name, or a drop, while option {key!r} names it",
                expected="a column that no such option names",
                action=f"Remove the option in the same step, remove_options=[{key!r}], and set it again after it.",
            )


def _check_options_once(change: SchemaChange) -> None:
    for key in change.remove_options:
        if key in change.set_options:
            raise InvalidError(
                f"option {key!r}",
                found="a value for it, and its removal",
                expected="one of them",
                action="Leave one out.",
            )


def _changed_field(column: DataField, change: SchemaChange) -> DataField:
    wanted = change.change_types.get(column.name)
    if wanted is not None:
        new_type = type_from_arrow(wanted, nullable=column.type.nullable)
        if new_type.is_nested:
            raise InvalidError(
                f"column {column.name!r}",
                found=f"a change to {wanted}",
                expected="a plain type",
                action="Add a column of the nested type instead.",
            )
        # The reader of old files is asked: it raises for a type that their values do not widen to.
        column_cast(arrow_type(column.type), column.type, new_type, f"column {column.name!r}")
        _check_time_range(column, new_type)
        column = replace(column, type=new_type)
    return replace(column, name=change.rename_columns.get(column.name, column.name))


def _check_orders(old: TableSchema, new: TableSchema) -> None:
    """The records of a key stay in their order: as texts 10 comes before 9, and many integers become one float."""
    groups = (name for group in new.sequence_groups for name in group.sequence)
    before = {column.id: column.type for column in old.fields}
    for name in (*new.sequence_fields, *groups):
        column = new.field(name)
        found = before.get(column.id, column.type)
        if column.type.root in _OTHER_ORDER and found.root in _ORDERED_AS_NUMBERS:
            raise InvalidError(
                f"column {name!r}",
                found=f"a change from {found} to {column.type} of a column that orders records",
                expected="a type with the same order: a wider integer, a decimal, more digits of the second",
                action="Add a column of the new type instead.",
            )


def _check_groups(old: TableSchema, new: TableSchema) -> None:
    """A column that may have values stays in its sequence group: what was merged before and what is merged later would
    follow two rules, and values without a sequence would go at the next merge (decision 0024). What another client left
    without a meaning may be mended.
    """
    try:
        has_groups = engine_of(old).mixes_records
    except WidetableError:
        return
    if not has_groups:
        return
    before, after = _groups_by_column(old), _groups_by_column(new)
    remaining = {column.id: column.name for column in new.fields}
    for column in old.fields:
        if column.id in remaining and before.get(column.id) != after.get(column.id):
            raise InvalidError(
                f"column {remaining[column.id]!r}",
                found="a change of the sequence group that it is in",
                expected="the group, or none, that it has had since it was added",
                action="Add new columns for the group, or make a new table and copy the rows.",
            )


def _groups_by_column(schema: TableSchema) -> dict[int, tuple[int, ...]]:
    """By the id of a column: the ids of the sequence columns of its group."""
    return {
        schema.field(name).id: tuple(schema.field(each).id for each in group.sequence)
        for group in schema.sequence_groups
        for name in group.columns
    }


def _check_time_range(column: DataField, new_type: DataType) -> None:
    """Nanoseconds hold the years 1677 to 2262 only: a 9999-12-31 would make the column unreadable."""
    old_unit, new_unit = (
        timestamp_unit(kind.precision or 0) if kind.root.startswith("TIMESTAMP") else None
        for kind in (column.type, new_type)
    )
    if new_unit == "ns" and old_unit != "ns":
        raise UnsupportedError(
            f"column {column.name!r}",
            found=f"a change from {column.type} to {new_type}",
            expected="at most 6 digits of the second: more of them hold the years 1677 to 2262 only",
            action="Add a column of the new type instead.",
        )


def _added_fields(schema: TableSchema, change: SchemaChange) -> tuple[list[DataField], int]:
    added, next_id = [], schema.highest_field_id + 1
    for column in change.add_columns:
        if not column.nullable:
            raise InvalidError(
                f"column {column.name!r}",
                found="a new column that is NOT NULL",
                expected="a nullable one: the rows that are there have no value for it",
                action="Add it as nullable.",
            )
        own_id, next_id = next_id, next_id + 1
        numbered, next_id = assign_field_ids(column_type(column, nullable=True), next_id)
        added.append(DataField(own_id, column.name, numbered))
    return added, next_id - 1


def _changed_options(options: Mapping[str, str], change: SchemaChange) -> dict[str, str]:
    renamed: Callable[[str], str] = lambda name: change.rename_columns.get(name, name)  # noqa: E731
    kept = {
        _renamed_key(key, renamed): _renamed_value(key, value, renamed)
        for key, value in options.items()
    }
    for key in change.remove_options:
        kept.pop(key, None)
    return {**kept, **{key: str(value) for key, value in change.set_options.items()}}


def _renamed_key(key: str, renamed: Callable[[str], str]) -> str:
    """`fields.<columns>.<what>` follows its columns."""
    match = FIELD_OPTION.match(key)
    if match is None or key == "fields.default-aggregate-function":
        return key
    return f"fields.{_renamed_list(match['columns'], renamed)}.{match['what']}"


def _renamed_value(key: str, value: str, renamed: Callable[[str], str]) -> str:
    """Values that list columns follow them; a change of an immutable one is refused later on."""
    match = FIELD_OPTION.match(key)
    lists_columns = key in (
        opt.SEQUENCE_FIELD.key,
        opt.ROWKIND_FIELD.key,
        opt.REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
        opt.ROW_DEDUPLICATE_IGNORE_FIELDS.key,
        RECORD_LEVEL_TIME_FIELD.key,
    )
    if lists_columns or (match is not None and match["what"] == "sequence-group"):
        return _renamed_list(value, renamed)
    return value


def _renamed_list(names: str, renamed: Callable[[str], str]) -> str:
    return ",".join(
        name.replace(name.strip(), renamed(name.strip())) if name.strip() else name
        for name in names.split(",")
    )
