"""Whether the sections of a configuration fit the tables of the source. Pure, but for a warning.

A section whose table is not at the source is warned of if a pattern would take it: it may come later. Raises
InvalidError for a section that no pattern takes, and for entries that do not fit the columns of a table.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from widetable import InvalidError
from widetable.connector import WarningCode, did_you_mean, warn
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.table_pattern import is_taken
from widetable_cdc.values.column_type import TargetType

_log = logging.getLogger("widetable")


def check_sections(
    config: SyncConfig, new: Mapping[str, SourceTable], known: Collection[str]
) -> None:
    """Check all sections. new: tables that the job takes in for the first time. known: all that it has or takes."""
    for name in config.table:
        if name in new:
            check_section(config, new[name])
        elif name not in known:
            hint, (schema, _, table) = did_you_mean(name, known).strip(), name.partition(".")
            if not is_taken(schema, table, config.tables, config.exclude):
                raise _never_taken(name, config, hint)
            warn(
                _log,
                WarningCode.SECTION_WITHOUT_TABLE,
                "%s: the source has no table %s, of which there is a section. %s",
                config.name,
                name,
                hint,
            )


def check_section(config: SyncConfig, table: SourceTable) -> None:
    """Check the section of a table, if it has one."""
    names = [column.name for column in table.columns]
    for name in config.of(table.schema, table.name).types:
        if name not in names:
            raise InvalidError(
                f"the section of the table {table.schema}.{table.name}, entry 'types'",
                found=f"the column {name!r}, which the source does not have",
                expected=f"one of {', '.join(names)}",
                action=did_you_mean(name, names).strip() or "Correct the name.",
            )
    column_types(config, table)


def column_types(config: SyncConfig, table: SourceTable) -> Mapping[str, TargetType]:
    """Return the types of the target's columns, by their names at the source."""
    wishes = config.wishes(table.schema, table.name)
    return {column.name: wishes.type_of(column.name, column.type) for column in table.columns}


def _never_taken(name: str, config: SyncConfig, hint: str) -> InvalidError:
    return InvalidError(
        f'section table."{name}"',
        found="a table that the job does not take",
        expected=f"one that a pattern of the tables names ({', '.join(config.tables)}), and that is not excluded",
        action=hint or "Correct the name of the section, or the patterns.",
    )
