"""What keeps a table in good order, what shows whether it is, and what mends it. A base of `Table`.

Raises what the modules it calls raise; see there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from widetable.arguments import called, flag, instance, names
from widetable.errors import InvalidError
from widetable.operations.alteration import alter
from widetable.operations.audit import FOLDED_ROWS, audit
from widetable.operations.audit_report import FINDINGS_PER_LAW, AuditReport
from widetable.operations.doctor import DoctorReport, doctor
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
from widetable.operations.repair import RepairResult, repair
from widetable.operations.rollback import RollbackResult, rollback
from widetable.operations.schema_change import SchemaChange
from widetable.operations.snapshot_choice import choose_snapshot
from widetable.operations.table_history import TableHistory
from widetable.option_checks import option_texts


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
        while snapshot 1 is there; None: the oldest that is left. findings_per_law: how many are named of each law, the
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
        """What state the table is in: snapshots, files per level, what waits, who reads and compacts, which files are
        damaged as far as a listing shows it, and warnings.
        """
        return inspect(self._state(self.schema), self._committer)

    def doctor(self, deep: bool = False) -> DoctorReport:
        """Everything that is wrong with the table, each with what is concerned and what to do. Nothing is changed.

        deep: read every live data file and every changelog file, instead of looking at their sizes. What cannot be
        looked at is a finding, not an error.
        """
        return doctor(self._state(self.schema), self._committer, deep=flag(deep, "deep"))

    def repair(self, dry_run: bool = False, *, deep: bool = True) -> RepairResult:
        """Take damaged live data files out of the table, keep what can be read of them, and say what is gone: which
        rows, by key and sequence number, and which commits wrote them.

        One commit that goes forward, an overwrite that readers of changes pass by; without damage there is none. deep:
        read every live file to find the damaged ones; else what a listing shows, and what compactions of this process
        have met. dry_run: only say. Restore a file from a copy instead where there is one. A newer row that is lost
        gives way to the older one of its key.
        """
        is_deep, is_dry = flag(deep, "deep"), flag(dry_run, "dry_run")
        return repair(self._state(self.schema), self._committer, deep=is_deep, dry_run=is_dry)

    def rollback(
        self,
        snapshot_id: int | None = None,
        timestamp: int | datetime | None = None,
        tag: str | None = None,
        *,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Give the table the rows of an older snapshot: one of snapshot_id, timestamp (as in `scan`) and tag.

        One commit that goes forward, an overwrite: the snapshots in between stay until they expire, and the newest
        columns stay. What is undone is not written again by streams that repeat their batches; write it under another
        commit user. Readers of changes get nothing: let them start anew. dry_run: only say. Raises DamagedError when
        files of the snapshot are gone. For a table that has lost its newest snapshots see `accept_lost_snapshots`.
        """
        if snapshot_id is None and timestamp is None and tag is None:
            raise InvalidError(
                "snapshot_id, timestamp and tag",
                found="none of them",
                expected="one of them",
                action="Say to which snapshot the table is to go back.",
            )
        is_dry = flag(dry_run, "dry_run")
        store = self._committer.snapshots
        state = self._state(self.schema)
        target = choose_snapshot(store, self._tags, snapshot_id, timestamp, tag)
        assert target is not None
        return rollback(state, self._committer, target, dry_run=is_dry)

    def alter_options(
        self, set_options: Mapping[str, str] | None = None, remove_options: Sequence[str] = ()
    ) -> None:
        """Set and remove options, in one step; `Catalog.alter_table` changes columns too. Who has the table open sees
        them in what it does next.
        """
        change = SchemaChange(
            set_options=option_texts(set_options, "set_options"),
            remove_options=names(remove_options, "remove_options"),
        )
        alter(self._file_io, self._paths, change)

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
        on_round: given what each round did. Rounds that fail are logged and done again, unless only the user can help:
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
