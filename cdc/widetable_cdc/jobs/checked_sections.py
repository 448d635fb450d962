"""Whether the sections of a configuration fit the tables of the source. Pure, but for a warning.

A section whose table is not at the source is warned of if a pattern would take it: it may come later. Raises
InvalidError for a section that no pattern takes, and for entries that do not fit the columns of a table.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from widetable import InvalidError
from widetable.connector import WarningCode, did_you_mean, warn
from widetable_cdc.columns.target_columns import TargetColumns, target_columns
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.source.table_pattern import is_taken

_log = logging.getLogger("widetable")


def check_sections(
    config: SyncConfig, new: Mapping[str, SourceTable], known: Collection[str], database: str
) -> None:
    """Check all sections. new: tables that the job takes in for the first time. known: all that it has or takes.
    database: the name of the source's.
    """
    for name in config.table:
        if name in new:
            check_section(config, new[name], database)
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


def check_section(config: SyncConfig, table: SourceTable, database: str) -> TargetColumns:
    """Check the section of a table, and return the columns of its target."""
    names = [column.name for column in table.columns]
    for name in config.of(table.schema, table.name).types:
        if name not in names:
            raise InvalidError(
                f"the section of the table {table.schema}.{table.name}, entry 'types'",
                found=f"the column {name!r}, which the source does not have",
                expected=f"one of {', '.join(names)}",
                action=did_you_mean(name, names).strip() or "Correct the name.",
            )
    return columns_of(config, table, database)


def columns_of(config: SyncConfig, table: SourceTable, database: str) -> TargetColumns:
    """Return the columns of the target of a table."""
    section = config.of(table.schema, table.name).section
    return target_columns(section, table, config.wishes(table.schema, table.name), database)


def section_text(config: SyncConfig, table: SourceTable, database: str) -> str:
    """Return what a table's target is made by, as a JSON object: empty without a section. `SharedTarget` reads it."""
    special = config.of(table.schema, table.name)
    # A wish for a column that comes later changes nothing until then.
    names = {column.name for column in table.columns}
    said: dict[str, Any] = {
        "types": {name: each for name, each in special.types.items() if name in names},
        "computed": dict(special.computed),
        "metadata": special.metadata,
        "key": special.key,
        "group": None if special.group is None else asdict(special.group),
    }
    said = {name: each for name, each in said.items() if each}
    constants = columns_of(config, table, database).constants if said else {}
    return json.dumps(said | {"constants": constants}, sort_keys=True) if said else ""


def _never_taken(name: str, config: SyncConfig, hint: str) -> InvalidError:
    return InvalidError(
        f'section table."{name}"',
        found="a table that the job does not take",
        expected=f"one that a pattern of the tables names ({', '.join(config.tables)}), and that is not excluded",
        action=hint or "Correct the name of the section, or the patterns.",
    )
