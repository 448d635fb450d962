"""Whether the run is right: all tables cell by cell, and the laws of the format, the changelog and what is derived.

In: the workspace with the input files, the tables, their rows. Out: a `DemoVerdict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

import widetable as wt
from examples.flights.audit import (
    Audit,
    audit_hourly,
    audit_rows,
    audit_table,
    expected_departures,
    expected_dimension,
    expected_hourly,
    expected_table,
)
from examples.flights.carrier_hourly import HOURLY_NAME
from examples.flights.departure_records import RECORDS_NAME, audit_records
from examples.flights.dimensions import DIMENSIONS
from examples.flights.weather.departure_weather import DEPARTURES_NAME, DEPARTURES_SCHEMA
from examples.flights.wide_table import KEY, TABLE_NAME, WIDENER
from examples.flights.workspace import Workspace

_KEYS = {group.table: group.key_names for group in DIMENSIONS}


@dataclass(frozen=True)
class DemoVerdict:
    """audits: the cells of each table, by its name. laws: what widetable's own auditor says of the wide one."""

    audits: Mapping[str, Audit]
    laws: wt.AuditReport

    @property
    def passed(self) -> bool:
        """Whether no cell differs and no law is broken."""
        return all(audit.passed for audit in self.audits.values()) and self.laws.ok

    def with_audit(self, name: str, audit: Audit) -> DemoVerdict:
        """With the cells of one more table."""
        return replace(self, audits={**self.audits, name: audit})

    @property
    def wide(self) -> Audit:
        return self.audits[TABLE_NAME]

    @property
    def hourly(self) -> Audit:
        return self.audits[HOURLY_NAME]

    @property
    def departures(self) -> Audit:
        return self.audits[DEPARTURES_NAME]

    @property
    def widened_cell_count(self) -> int:
        """Cells of the wide table that follow the tail number."""
        return self.wide.row_count * len(WIDENER.values)

    @property
    def cell_count(self) -> int:
        return sum(audit.cell_count for audit in self.audits.values())

    @property
    def difference_count(self) -> int:
        """Different cells, and missing, extra and repeated rows."""
        return sum(audit.difference_count for audit in self.audits.values())

    @property
    def check_count(self) -> int:
        """Things that the auditor looked at."""
        return sum(self.laws.checks.values())


def judge(
    workspace: Workspace,
    wide: wt.Table,
    rows: Mapping[str, pa.Table],
    database: Mapping[str, pa.Table],
) -> DemoVerdict:
    """rows: of every table, by its name. database: of those that live in a database, what it had at the end. Raises
    ValueError when one has other columns or types.
    """
    expected = expected_table(workspace)
    departures = expected_departures(workspace)
    audits = {
        TABLE_NAME: audit_table(rows[TABLE_NAME], expected),
        **{
            group.table: audit_rows(
                rows[group.table],
                expected_dimension(group, workspace),
                group.written_schema,
                group.key_names,
            )
            for group in DIMENSIONS
        },
        DEPARTURES_NAME: audit_rows(rows[DEPARTURES_NAME], departures, DEPARTURES_SCHEMA, KEY),
        RECORDS_NAME: audit_records(rows[RECORDS_NAME], workspace),
        HOURLY_NAME: audit_hourly(rows[HOURLY_NAME], expected_hourly(expected)),
        **{
            f"{name} as in the database": audit_rows(
                rows[name], there, rows[name].schema, _KEYS[name]
            )
            for name, there in database.items()
        },
    }
    return DemoVerdict(audits, wide.audit(start=0))
