"""Gives a target its next schema, as actions say, and makes the rows that fill a new column.

    alter_target     drops, renames, widenings and additions, in one step of `Catalog.alter_table`
    filled_rows      the live rows in which an added column is null, with the value that the source gave its old rows

Both may be repeated after a crash. Columns are found by field id, which a rename keeps, so two names that were swapped
are not swapped back. A column that the source dropped stays, and is null from then on, unless `drops` is set or another
column takes its name: then it is dropped. Raises what `Catalog.alter_table` raises, and what scans raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widetable import Catalog, Table
from widetable.connector import TableSchema
from widetable_cdc.evolution.actions import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaAction,
    WidenType,
)
from widetable_cdc.values.source_type import SourceType


@dataclass
class _Alteration:
    """The arguments of `alter_table`, and the names that columns have after it."""

    drops: list[str] = field(default_factory=list)
    renames: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    adds: dict[str, str] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        return {
            "drop_columns": self.drops,
            "rename_columns": self.renames,
            "change_types": self.types,
            "add_columns": self.adds,
        }


def field_ids(table: Table, names: Mapping[int, str]) -> dict[int, int]:
    """Return the field id of each column. names: of the columns, by attnum."""
    ids = {each.name: each.id for each in table.schema.fields}
    return {attnum: ids[name] for attnum, name in names.items()}


def alter_target(
    catalog: Catalog,
    name: str,
    actions: Sequence[SchemaAction],
    fields: Mapping[int, int],
    target_of: Callable[[str, SourceType], str],
    *,
    drops: bool = False,
) -> tuple[Table, dict[int, int]]:
    """Carry out what is not done yet, and return the table with the fields of the columns after it.

    fields: the field id of each column before the actions, by attnum. drops: a column that the source dropped is
    dropped here.
    """
    table = catalog.table(name)
    alteration = _alteration(table.schema, actions, fields, target_of, drops=drops)
    arguments = {key: value for key, value in alteration.arguments().items() if value}
    if arguments:
        table = catalog.alter_table(name, **arguments)
    added = {a.attnum: a.name for a in actions if isinstance(a, AddColumn)}
    return table, {**fields, **field_ids(table, added)}


def _alteration(
    schema: TableSchema,
    actions: Sequence[SchemaAction],
    fields: Mapping[int, int],
    target_of: Callable[[str, SourceType], str],
    *,
    drops: bool,
) -> _Alteration:
    now = {each.id: each for each in schema.fields}
    wanted = _Alteration()
    for action in actions:
        there = now.get(fields.get(action.attnum, -1))
        if isinstance(action, DropColumn) and drops and there is not None:
            wanted.drops.append(there.name)
        elif isinstance(action, RenameColumn) and there is not None:
            if there.name != action.new_name:
                wanted.renames[there.name] = action.new_name
        elif isinstance(action, WidenType) and there is not None:
            wanted.types[there.name] = target_of(action.name, action.type)
    ours = set(fields.values())
    added = {each.name for each in schema.fields if each.id not in ours}
    for action in actions:
        if isinstance(action, AddColumn) and action.name not in added:
            wanted.adds[action.name] = target_of(action.name, action.type)
    # A column that takes a name ends one that was only kept for its old values.
    names = {each.name for each in schema.fields}
    for new_name in (*wanted.adds, *wanted.renames.values()):
        if new_name in names - set(wanted.renames) - set(wanted.drops):
            wanted.drops.append(new_name)
    return wanted


def filled_rows(
    table: Table,
    fills: Mapping[str, pa.Array],
    columns: Sequence[str] | None = None,
    own: pc.Expression | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows in which a column is null that has a fill, with the fill.

    fills: arrays of one value, of the column's type. columns: those that a row must have, for a group: its own ones and
    its sequence, whose value must be there; None for all. own: the condition of the rows of this source, if others fill
    the table as well.
    """
    condition = None
    for name in fills:
        is_null = pc.field(name).is_null()
        condition = is_null if condition is None else condition | is_null
    if condition is None:
        return
    condition = condition if own is None else condition & own
    for batch in table.scan(columns=columns, filter=condition).to_batches():
        for name, fill in fills.items():
            at = batch.schema.get_field_index(name)
            column = batch.column(at)
            filled = pc.if_else(column.is_null(), fill.cast(column.type)[0], column)
            batch = batch.set_column(at, batch.schema.field(at), filled)
        yield batch
