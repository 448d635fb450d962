"""The target of a table: made if it is absent, and opened with the names and types of its columns.

A target that the job makes mirrors its table: all columns, the primary key, the options of the job and of the table.
A group is written into a table that must be there. Raises InvalidError for keys and columns that do not fit, and what
making a table raises.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from widetable import Catalog, InvalidError, NotFoundError, Table
from widetable.connector import interval_of
from widetable_cdc.applying.barrier_line import BarrierLine, ClockLine, LsnLine
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.target import BarrierTarget, PlainTarget, Target
from widetable_cdc.evolution.alteration import field_ids
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.checked_sections import check_section, column_types
from widetable_cdc.jobs.clock_barriers import ClockBarriers
from widetable_cdc.jobs.config import Barriers, SyncConfig
from widetable_cdc.jobs.followed_states import FollowedState
from widetable_cdc.jobs.table_config import TableConfig
from widetable_cdc.jobs.target_fit import check_fit
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.key_bounds import key_ranges
from widetable_cdc.source.source_table import SourceTable

_INTERVAL: Final = "widetable.barrier-interval"
_INTERVALS: Final = {Barriers.LSN: "1 ms", Barriers.CLOCK: "10 s"}


def make_target(
    catalog: Catalog, config: SyncConfig, table: SourceTable
) -> tuple[str, dict[int, int]]:
    """Make the target of a table if it is absent. Returns its full name, and the field of each column by attnum."""
    check_section(config, table)
    special = config.of(table.schema, table.name)
    name = config.target_name(table.schema, table.name)
    names, key, types = _names(special, table), _key(special, table), column_types(config, table)
    try:
        target = catalog.table(name)
        empty = pa.array([], pa.large_string())
        arrow = {names[each]: types[each].from_texts(empty).values.type for each in names}
        check_fit(target, name, [names.get(each, each) for each in key], arrow)
    except NotFoundError:
        if special.group is not None:
            raise
        options = {**config.target.options, **special.options}
        if config.target.barriers is not Barriers.NONE:
            options.setdefault(_INTERVAL, _INTERVALS[config.target.barriers])
        target = catalog.create_table(
            name,
            {
                column: kind.target + (" NOT NULL" if column in key else "")
                for column, kind in types.items()
            },
            primary_key=list(key),
            partition_by=list(special.partition),
            options=options,
        )
    return name, field_ids(
        target, {c.attnum: names[c.name] for c in table.columns if c.name in names}
    )


def copied_ranges(config: SyncConfig, table: SourceTable) -> tuple[ChunkRange, ...]:
    """Return the ranges in which a table is read. It is one where the target has the key's column as another type."""
    source, name = config.source, config.name
    if table.key and table.key[0] in config.wishes(table.schema, table.name).types:
        return (ChunkRange(),)
    return key_ranges(source.dsn, name, table, config.limits.chunk_rows)


def opened(
    catalog: Catalog,
    config: SyncConfig,
    state: FollowedState,
    errors: ErrorTable,
    barriers: ClockBarriers,
) -> CapturedTable:
    """Open the target of a table. barriers: of the job, where they are those of the clock."""
    special = config.of(state.form.table.schema, state.form.table.name)
    types = column_types(config, state.form.table)
    names = _names(special, state.form.table)
    line = _line(catalog.table(state.target), config, special, barriers)
    return CapturedTable(
        state=state,
        target=_target(catalog, config, special, state.target, line),
        names=names,
        types={target: types[source] for source, target in names.items()},
        errors=errors,
        clock=line if isinstance(line, ClockLine) else None,
        truncate=config.rules.truncate,
    )


def _line(
    table: Table, config: SyncConfig, special: TableConfig, barriers: ClockBarriers
) -> BarrierLine | None:
    """Return which barriers rounds of a table belong to; None for a table without."""
    if _INTERVAL not in table.schema.options:
        return None
    interval = interval_of(table.schema, table.path)
    # Other streams label their rows by the clock, which an LSN is far below.
    is_alone = special.group is None and interval == 1
    if is_alone and config.target.barriers is Barriers.LSN:
        return LsnLine()
    return barriers.line(interval)


def _target(
    catalog: Catalog,
    config: SyncConfig,
    special: TableConfig,
    name: str,
    line: BarrierLine | None,
) -> Target:
    group = special.group
    sequence = None if group is None else group.sequence
    if line is None:
        return PlainTarget(catalog.table(name), config.user, sequence)
    columns = None if group is None else [*group.columns, group.sequence]
    return BarrierTarget(catalog, name, config.user, line, columns, sequence)


def _names(special: TableConfig, table: SourceTable) -> dict[str, str]:
    """Return the target's name of each column of the source that is applied."""
    columns = [column.name for column in table.columns if not column.is_generated]
    if special.group is None:
        return {name: name for name in columns}
    wanted = (*_key(special, table), *special.group.columns)
    for name in wanted:
        if name not in columns:
            raise InvalidError(
                f"table {table.schema}.{table.name}",
                found=f"no column {name!r} at the source",
                expected=f"one of {', '.join(columns)}",
                action="Correct the columns of the group.",
            )
    return {name: name for name in wanted}


def _key(special: TableConfig, table: SourceTable) -> tuple[str, ...]:
    return special.key or table.key
