"""The target of a table: made if it is absent, and opened with the names and types of its columns.

A target that the job makes mirrors its table: all columns, the primary key, the options of the job and of the table.
A group is written into a table that must be there. Raises InvalidError for keys and columns that do not fit, and what
making a table raises.
"""

from __future__ import annotations

from typing import Final

from widetable import Catalog, InvalidError, NotFoundError, Table, UnsupportedError
from widetable.connector import interval_of, last_identifier
from widetable_cdc.applying.barrier_line import BarrierLine, ClockLine, LsnLine
from widetable_cdc.applying.error_rows import ErrorTable
from widetable_cdc.applying.target import BarrierTarget, PlainTarget, Target
from widetable_cdc.columns.target_columns import TargetColumns
from widetable_cdc.columns.target_fit import check_fit
from widetable_cdc.evolution.alteration import field_ids
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.checked_sections import check_section, columns_of, section_text
from widetable_cdc.jobs.clock_barriers import ClockBarriers
from widetable_cdc.jobs.config import Barriers, SyncConfig
from widetable_cdc.jobs.followed_states import FollowedState
from widetable_cdc.jobs.shared_target import conflict, other_fillers
from widetable_cdc.jobs.table_config import TableConfig
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.key_bounds import key_ranges
from widetable_cdc.source.lsn import lsn_text
from widetable_cdc.source.source_table import SourceTable

_INTERVAL: Final = "widetable.barrier-interval"
_INTERVALS: Final = {Barriers.LSN: "1 ms", Barriers.CLOCK: "10 s"}


def make_target(
    catalog: Catalog, config: SyncConfig, table: SourceTable, database: str
) -> tuple[str, dict[int, int]]:
    """Make the target of a table if it is absent. Returns its full name, and the field of each column by attnum."""
    columns = check_section(config, table, database)
    special = config.of(table.schema, table.name)
    name = config.target_name(table.schema, table.name)
    try:
        target = catalog.table(name)
        arrow = {each: columns.kind(each).arrow for each in columns.names}
        check_fit(target, name, columns.key, arrow)
    except NotFoundError:
        if special.group is not None:
            raise
        options = {**config.target.options, **special.options}
        if config.target.barriers is not Barriers.NONE:
            options.setdefault(_INTERVAL, _INTERVALS[config.target.barriers])
        target = catalog.create_table(
            name,
            {
                column: kind + (" NOT NULL" if column in columns.key else "")
                for column, kind in _declared(config, table, columns).items()
            },
            primary_key=list(columns.key),
            partition_by=list(special.partition),
            options=options,
        )
    return name, field_ids(
        target, {c.attnum: c.name for c in table.columns if c.name in columns.source}
    )


def _declared(config: SyncConfig, table: SourceTable, columns: TargetColumns) -> dict[str, str]:
    """Return the types of all columns of a mirror, in their order: generated ones, which are null, among them."""
    wishes = config.wishes(table.schema, table.name)
    types = {each.name: wishes.type_of(each.name, each.type).target for each in table.columns}
    return types | {name: each.kind.target for name, each in columns.computed.items()}


def copied_ranges(config: SyncConfig, table: SourceTable) -> tuple[ChunkRange, ...]:
    """Return the ranges in which a table is read. It is one where the target's key does not have the first column of
    the source's as it is.
    """
    columns = columns_of(config, table, "")
    if not table.key or columns.key_of(table.key[0]) is None:
        return (ChunkRange(),)
    return key_ranges(config.source.dsn, config.name, table, config.limits.chunk_rows)


def opened(
    catalog: Catalog,
    config: SyncConfig,
    state: FollowedState,
    errors: ErrorTable,
    barriers: ClockBarriers,
    database: str,
) -> CapturedTable:
    """Open the target of a table. barriers: of the job, where they are those of the clock. database: of the source."""
    special = config.of(state.form.table.schema, state.form.table.name)
    columns = columns_of(config, state.form.table, database)
    line = _line(catalog.table(state.target), config, special, barriers)
    return CapturedTable(
        state=state,
        target=_target(catalog, config, special, state.target, line),
        names={name: name for name in columns.types},
        columns=columns,
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


def leave_target(catalog: Catalog, config: SyncConfig, state: FollowedState) -> None:
    """Let the target of a table go on without the job, if its barriers are those of the clock.

    The form of a table that is left out may not fit its target or its section any more: it is not opened.
    """
    special = config.of(state.form.table.schema, state.form.table.name)
    try:
        table = catalog.table(state.target)
        line = _line(table, config, special, ClockBarriers(config.user))
        writers = table.inspect.barriers()["writer"].to_pylist() if line is not None else []
        if isinstance(line, ClockLine) and config.user in writers:
            # Its targets may be at different barriers: the next start copies them again.
            catalog.topology().leave(state.target, config.user, force=True)
    except NotFoundError:
        return  # somebody dropped it


def fitting_target(
    catalog: Catalog, config: SyncConfig, table: SourceTable, database: str, highest: int
) -> tuple[str, dict[int, int]] | str:
    """Make the target of a table, or open it, as `make_target` does; return why none fits. highest: the LSN that no
    target of this server is ahead of.
    """
    target = config.target_name(table.schema, table.name)
    relation = f"{table.schema}.{table.name}"
    try:
        others = other_fillers(catalog, config, relation, target)
        section = section_text(config, table, database)
        problem = conflict(catalog, config.name, target, section, others)
        if problem is not None:
            return problem
        made = make_target(catalog, config, table, database)
        _check_position(catalog, target, config.user, highest)
    except (InvalidError, UnsupportedError) as error:
        return str(error).rstrip(".")
    return made


def _check_position(catalog: Catalog, target: str, user: str, highest: int) -> None:
    """Refuse a target that has changes of a server whose log went further: it would skip those of this one."""
    position = last_identifier(catalog.table(target), user) or 0
    if position > highest:
        raise InvalidError(
            f"table {target}",
            found=f"changes of this job up to {lsn_text(position)}, from another server",
            expected=f"none behind {lsn_text(highest)}, where the log of this server begins",
            action="Drop the table, or give the job another name or another target.",
        )
