"""What keeps a table in good order, and what tells whether it is: audit, inspection, maintenance. A base of `Table`.

Raises what the modules it calls raise; see there.
"""

from __future__ import annotations

from widetable.operations.audit import FINDINGS_PER_LAW, FOLDED_ROWS, audit
from widetable.operations.audit_report import AuditReport
from widetable.operations.table_history import TableHistory


class TableUpkeep(TableHistory):
    """Picklable; holds nothing open."""

    def audit(
        self,
        start: int | str | None = None,
        findings_per_law: int = FINDINGS_PER_LAW,
        folded_rows: int = FOLDED_ROWS,
    ) -> AuditReport:
        """Check the laws of the format, and those of the changelog where the table keeps one, from `start` on.

        start: the id of a snapshot or the name of a tag, onto whose rows the changelog is folded; 0: the empty table,
        while snapshot 1 is there; None: the oldest that is left. findings_per_law: how many are told of each law, the
        others are counted. folded_rows: how many rows may be read to fold whole buckets. Nothing is changed but that
        a lease keeps the snapshots for as long as it takes. Raises NotFoundError for a start that is not there.
        """
        return audit(
            self._state(self.schema),
            self._committer,
            start=start,
            findings_per_law=findings_per_law,
            folded_rows=folded_rows,
        )
