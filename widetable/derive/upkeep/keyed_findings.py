"""Adds a finding of an audit for each of some keys: few with their texts, the others counted. Raises nothing."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from widetable.format.printed_value import printed_rows
from widetable.operations.health.audit_report import Finding, Findings


def add_each(findings: Findings, finding: Finding, keys: pa.Table) -> None:
    """Add the finding once for each row of `keys`."""
    named = keys.slice(0, findings.wanted(finding.law))
    for row in printed_rows(named):
        findings.add(replace(finding, key=row))
    findings.count(finding.law, keys.num_rows - named.num_rows)
