"""Alters tables together with their derived columns: `Table.alter_options`, and `Catalog.alter_table`.

A new option `widen.<fk>` adds its columns, in the types of the dimension, and their sequence group. A table that is
put under barriers also records that in a snapshot; its dims must be under the same barriers. Raises what
`operations/ddl/alteration`, `operations/ddl/barrier_beginning` and `widen_schema` raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from widetable.arguments import names
from widetable.derive.widening.widen_at_barrier import let_wideners_leave
from widetable.derive.widening.widen_schema import check_one_interval, widened_columns
from widetable.operations.ddl.alteration import alter
from widetable.operations.ddl.barrier_beginning import begin_barriers
from widetable.operations.ddl.column_path import quoted
from widetable.operations.ddl.schema_change import SchemaChange
from widetable.operations.handle.neighbour import name_of, neighbour
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import widen_options
from widetable.schema.option_checks import option_texts
from widetable.schema.options import TableOptions


def alter_options(
    table: OpenTable,
    set_options: Mapping[str, str] | None = None,
    remove_options: Sequence[str] = (),
) -> None:
    """Set and remove options, in one step.

    `Catalog.alter_table` changes columns too. Open tables use the options from their next operation on. A new option
    `widen.<fk>` adds its columns.

    Parameters
    ----------
    set_options : dict of str to str, default None
        Options to set (docs/options.md). None: none.
    remove_options : list of str, default ()
        Options to remove. It may name options that are not set.

    Raises
    ------
    InvalidError
        An option has a wrong value, cannot be altered, or does not fit the columns.
    UnsupportedError
        This version does not honour an option.
    NotFoundError
        An option `widen.<fk>` names a table that does not exist.
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
    is_under_barriers = BARRIER_INTERVAL.key in change.set_options
    if is_under_barriers:
        _check_dims(table, change)
    alter(table._file_io, table._paths, change)
    if is_under_barriers:
        begin_barriers(table)
    if before:
        let_wideners_leave(table)


def _check_dims(table: OpenTable, change: SchemaChange) -> None:
    """Refuse dims that are not under the barriers that the table gets."""
    kept = {k: v for k, v in table.schema.options.items() if k not in change.remove_options}
    options = {**kept, **change.set_options}
    for widen in widen_options(options):
        dim = neighbour(table, widen.table, f"option {widen.key!r}")
        check_one_interval(widen, name_of(table), TableOptions(options), dim.schema)


def _widened(table: OpenTable, change: SchemaChange) -> SchemaChange:
    """Return the change with the columns and options that its new options `widen.<fk>` need."""
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
