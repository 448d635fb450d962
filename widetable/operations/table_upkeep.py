"""What keeps a table in good order, and what tells whether it is: audit, inspection, maintenance. A base of `Table`.

Raises what the modules it calls raise; see there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from widetable.arguments import called, flag, instance
from widetable.operations.audit import FINDINGS_PER_LAW, FOLDED_ROWS, audit
from widetable.operations.audit_report import AuditReport
from widetable.operations.inspection import Inspection, inspect
from widetable.operations.maintenance import (
    INTERVAL_MILLIS,
    Compact,
    Maintainer,
    MaintenanceResult,
    Upkeep,
    compact_here,
    maintain,
)
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

    def inspect(self) -> Inspection:
        """What state the table is in: snapshots, files per level, what waits, who reads and compacts, and warnings."""
        return inspect(self._state(self.schema), self._committer)

    def maintain(
        self,
        *,
        once: bool = False,
        interval_millis: int = INTERVAL_MILLIS,
        full_compaction_interval_millis: int | None = None,
        expire: bool = True,
        orphans_older_than_millis: int | None = None,
        stop: threading.Event | None = None,
        on_round: Callable[[MaintenanceResult], None] | None = None,
    ) -> MaintenanceResult:
        """Compact what is due, with the table's changelog, and let old snapshots go: round after round until `stop` is
        set, or (once) everything now.

        interval_millis: between two looks at the table. full_compaction_interval_millis: how often everything is
        compacted when something is new; None: never, but every minute for the producer `full-compaction`.
        orphans_older_than_millis: remove files that nothing names and that are so old, once a day; None: leave them.
        on_round: told what each round did. Rounds that fail are logged and done again, unless only the user can help:
        then the error is raised, and with `once` always. Waits while another maintainer has the lease (not with
        `once`); several at once are safe.
        """
        once = flag(once, "once")
        if stop is not None:
            instance(stop, threading.Event, "stop")
        if on_round is not None:
            called(on_round, "on_round")
        upkeep = Upkeep(
            interval_millis, full_compaction_interval_millis, expire, orphans_older_than_millis
        )
        with self.maintainer(upkeep) as maintainer:
            return maintain(maintainer, once=once, stop=stop, on_round=on_round)

    def maintainer(self, upkeep: Upkeep, compact: Compact = compact_here) -> Maintainer:
        """For loops of others: one round at a time, compacted by `compact`."""
        instance(upkeep, Upkeep, "upkeep")
        called(compact, "compact")
        return Maintainer(lambda: self._state(self.schema), self._committer, upkeep, compact)
