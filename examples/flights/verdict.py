"""Whether the run is right: both tables cell by cell, and the laws of the format and the changelog.

In: the workspace with the input files, the wide table, the rows of both tables. Out: a `DemoVerdict`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

import widetable as wt
from examples.flights.audit import Audit, audit_hourly, audit_table, expected_hourly, expected_table
from examples.flights.workspace import Workspace


@dataclass(frozen=True)
class DemoVerdict:
    """wide, hourly: cells of the two tables. laws: what widetable's own auditor says of the wide one."""

    wide: Audit
    hourly: Audit
    laws: wt.AuditReport

    @property
    def passed(self) -> bool:
        """Whether no cell differs and no law is broken."""
        return self.wide.passed and self.hourly.passed and self.laws.ok

    @property
    def cell_count(self) -> int:
        return self.wide.cell_count + self.hourly.cell_count

    @property
    def difference_count(self) -> int:
        """Different cells, and missing, extra and repeated rows."""
        return self.wide.difference_count + self.hourly.difference_count

    @property
    def check_count(self) -> int:
        """Things that the auditor looked at."""
        return sum(self.laws.checks.values())


def judge(
    workspace: Workspace, table: wt.Table, rows: pa.Table, hourly_rows: pa.Table
) -> DemoVerdict:
    """rows: of `table`, the wide one. Raises ValueError when a table has other columns or types."""
    expected = expected_table(workspace)
    return DemoVerdict(
        wide=audit_table(rows, expected),
        hourly=audit_hourly(hourly_rows, expected_hourly(expected)),
        laws=table.audit(start=0),
    )
