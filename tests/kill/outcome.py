"""What must hold after a kill test: every batch is in once, every cell is right, the changelog keeps its laws, and the
reader that was killed has the totals of the table.
"""

from __future__ import annotations

from collections import Counter

import widetable as wt
from tests.kill.workload import expected_rows, signed_totals, totals_rows


def audit_rows(table: wt.Table, seed: int, batches: dict[int, int]) -> None:
    """Before and after full compactions. batches: how many each writer has sent."""
    appends = [s for s in table.snapshots() if s.commit_kind == "APPEND"]
    committed = Counter((s.commit_user, s.commit_identifier) for s in appends)
    assert committed == Counter((f"writer-{w}", n) for w in batches for n in range(batches[w]))
    expected = expected_rows(seed, batches)
    for _ in range(2):
        rows = {row["k"]: row for row in table.scan().to_arrow().to_pylist()}
        wrong = [k for k in expected.keys() | rows.keys() if rows.get(k) != expected.get(k)]
        assert not wrong, (
            f"seed {seed}, first wrong key {wrong[0]}: {rows.get(wrong[0])} is not {expected.get(wrong[0])}"
        )
        table.compact(full=True)


def audit_changelog(table: wt.Table, totals: wt.Table) -> None:
    """The changelog folds to the table at every snapshot, and the reader has followed all of it."""
    report = table.audit(start=0)
    assert report.ok, "\n".join(str(finding) for finding in report.findings)
    committed = totals.scan().to_arrow().sort_by("bucket")
    rows = table.scan().to_arrow().to_pylist()
    assert committed.equals(totals_rows(signed_totals(rows)))
