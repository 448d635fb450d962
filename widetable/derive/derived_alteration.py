"""Alters tables together with what their options make of others: `Table.alter_options`, and `Catalog.alter_table`.

A new option `widen.<fk>` brings its columns, in the types of the dimension, and their sequence group. Raises what
`operations/alteration` and `widen_schema` raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from widetable.arguments import names
from widetable.derive.widen_at_barrier import let_wideners_leave
from widetable.derive.widen_schema import widened_columns
from widetable.derived_options import widen_options
from widetable.operations.alteration import alter
from widetable.operations.column_path import quoted
from widetable.operations.neighbour import name_of, neighbour
from widetable.operations.open_table import OpenTable
from widetable.operations.schema_change import SchemaChange
from widetable.option_checks import option_texts


def alter_options(
    table: OpenTable,
    set_options: Mapping[str, str] | None = None,
    remove_options: Sequence[str] = (),
) -> None:
    """Set and remove options, in one step; `Catalog.alter_table` changes columns too. Who has the table open sees
    them in what it does next. A new `widen.<fk>` adds its columns.
    """
    change = SchemaChange(
        set_options=option_texts(set_options, "set_options"),
        remove_options=names(remove_options, "remove_options"),
    )
    alter_table(table, change)


def alter_table(table: OpenTable, change: SchemaChange) -> None:
    """Publish the changed schema; all changes are one step."""
    if widen_options(change.set_options):
        change = _widened(table, change)
    before = widen_options(table.schema.options)
    alter(table._file_io, table._paths, change)
    if before:
        let_wideners_leave(table)


def _widened(table: OpenTable, change: SchemaChange) -> SchemaChange:
    """With the columns that its new options ask for."""
    fields = pa.schema([*table.schema.arrow_schema(), *change.add_columns])
    added, groups = widened_columns(
        name_of(table),
        fields,
        change.set_options,
        lambda dim: neighbour(table, dim, "option 'widen'").schema,
        table.schema.typed_options,
    )
    return replace(
        change,
        add_columns=(*change.add_columns, *(each.with_name(quoted(each.name)) for each in added)),
        set_options={**groups, **change.set_options},
    )
