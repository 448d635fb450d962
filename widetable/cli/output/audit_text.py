"""Reports of audits as lines for people.

Each law has a line, whether it holds or not, so that the reader of "ok" sees what was checked. Then come the skipped
laws, the findings that the report lists, and the number of further ones. The report of a served log has the counts,
the snapshots that are gone, and the values that differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from widetable.derive.served.served_report import ServedReport
from widetable.messages.counted import counted
from widetable.operations.health.audit_report import LAWS, AuditReport


def audit_lines(report: AuditReport) -> Iterator[tuple[str, str]]:
    """Yield (line, style), with the styles of `console`."""
    yield f"{report.path}, {_span(report)}, changelog-producer={report.producer}", "plain"
    for law, count in report.checks.items():
        broken = report.found.get(law, 0)
        verdict = f"{broken} broken" if broken else "ok"
        style = "error" if broken else "plain"
        yield f"  {law:<16}{count:>12} checked  {verdict:<12} {LAWS[law]}", style
    for reason in report.skipped:
        yield f"  not checked: {reason}", "warning"
    for finding in report.findings:
        yield f"  {finding}", "error"
    unnamed = sum(report.found.values()) - len(report.findings)
    if unnamed:
        yield f"  and {unnamed} more", "error"
    if report.ok:
        yield "ok: every law holds wherever it was checked", "good"
    else:
        yield counted(sum(report.found.values()), "finding"), "error"


def served_lines(report: ServedReport) -> Iterator[tuple[str, str]]:
    """Yield (line, style), with the styles of `console`."""
    yield f"{report.path}, served as logged in {report.log}", "plain"
    requests = counted(report.requests, "request")
    yield (
        f"  {requests}, {counted(report.rows, 'key')}: {counted(report.cells, 'cell')} compared",
        "plain",
    )
    if report.other_rows:
        yield f"  {counted(report.other_rows, 'row')} of other tables or branches", "plain"
    for gone in report.gone:
        answered = counted(gone.requests, "request")
        yield f"  not compared: {answered} of snapshot {gone.snapshot_id}: {gone.reason}", "error"
    for cell in report.cells_listed:
        yield f"  {cell}", "error"
    unnamed = report.differing - len(report.cells_listed)
    if unnamed:
        yield f"  and {unnamed} more", "error"
    if report.ok:
        yield "ok: 0 cells differ", "good"
        return
    line = counted(report.differing, "cell differs", "cells differ")
    if report.gone:
        line += f", {counted(report.gone_requests, 'request')} not compared"
    yield line, "error"


def _span(report: AuditReport) -> str:
    """Return the snapshots over which the changelog was folded. 0 is the empty table before the first."""
    if report.last_snapshot_id is None:
        return "no snapshots"
    start = report.first_snapshot_id
    first = f"snapshot {start}" if start else "the empty table"
    return f"from {first} to snapshot {report.last_snapshot_id}"
