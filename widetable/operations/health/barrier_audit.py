"""Laws of barriers (docs/consistency.md): the barriers of a snapshot follow from those of the one before.

    a table's complete barrier and its highest label never go back
    records have a label above the complete barrier before them and above their writer's, and at most the highest one
    the complete barrier is that of the slowest writer, or the one before if that is later
    a compaction does not change them, and takes no file of a barrier that is not complete
    `waiting` is the lowest label of the files at level 0
    a revision is an overwrite; the whole table goes back to one complete barrier, or to none

In: snapshots in the order of their ids. Out: findings. Raises what loading snapshots raises.

    COMPACT that states its barriers  all is as before, except `moved` and `waiting`
    another revision than before      the state is what `BarrierState.revised` makes of the one before
    all others                        the numbers are compared one by one

Snapshot 1 is compared with the empty table. If earlier snapshots have expired, the first one is compared with nothing.
`Level0Labels` reads the waiting labels from the delta of each snapshot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from widetable.commit.barriers.barrier_state import (
    BARRIERS,
    UNKNOWN,
    WRITER,
    BarrierState,
    label_of,
    state_at,
)
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import COMMIT_KIND_COMPACT, COMMIT_KIND_OVERWRITE, Snapshot
from widetable.operations.health.audit_report import Finding, Findings
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.table_schema import TableSchema

_LAW: Final = "barriers"


class BarrierAudit:
    """Checks one snapshot after the other; it has no findings for a table without barriers."""

    def __init__(self, schema: TableSchema, level0: Level0Labels, findings: Findings) -> None:
        self._interval = schema.typed_options.get(BARRIER_INTERVAL)
        self._level0 = level0
        self._findings = findings
        self._before: BarrierState | None = None

    def check(self, snapshot: Snapshot) -> None:
        """Check one snapshot against the previous one."""
        if self._interval is None:
            return
        self._findings.checked(_LAW)
        try:
            after = state_at(snapshot, self._level0.load, self._interval)
            label = label_of(snapshot, self._level0.load, self._interval)
        except DamagedError as error:
            self._find(snapshot, error.expected, error.found)
            return
        except NotFoundError:
            return  # another client made it, and the snapshots of ours before it have expired
        # The state is kept before it is compared, so that a snapshot that breaks a law is one finding and not one at
        # each later snapshot.
        before = self._before or (BarrierState.new(self._interval) if snapshot.id == 1 else None)
        self._before = after
        if before is not None:
            self._compare(snapshot, before, after, label)
        if BARRIERS in snapshot.properties and after.waiting != UNKNOWN:
            waiting = self._level0.at(snapshot, self._interval).lowest(after.waiting)
            if waiting != after.waiting:
                self._find(snapshot, f"{waiting} waiting at level 0", f"{after.waiting}")

    def _compare(
        self, snapshot: Snapshot, before: BarrierState, after: BarrierState, label: int | None
    ) -> None:
        if snapshot.commit_kind == COMMIT_KIND_COMPACT and BARRIERS in snapshot.properties:
            same = replace(before, moved=after.moved, waiting=after.waiting)
            if after != same:
                self._find(snapshot, f"{same.to_json()} after a compaction", after.to_json())
            if not before.moved <= after.moved <= max(before.moved, before.frontier):
                expected = f"a cut from {before.moved} to {before.frontier}"
                self._find(snapshot, expected, f"a cut at {after.moved}")
            return
        if after.revision != before.revision:
            self._compare_revised(snapshot, before, after)
            return
        for name in ("frontier", "highest"):
            old, new = getattr(before, name), getattr(after, name)
            if new < old:
                self._find(snapshot, f"a {name} of {old} or later", f"{new}")
        slowest = min((m.frontier for m in after.members.values()), default=before.frontier)
        if after.frontier != max(before.frontier, slowest):
            expected = f"complete up to {max(before.frontier, slowest)}"
            self._find(snapshot, expected, f"complete up to {after.frontier}")
        # After another client's append the label is the first incomplete one, and no writer bounds it from below.
        if label is not None and snapshot.delta_record_count:
            member = before.members.get(snapshot.properties.get(WRITER, ""))
            least = max(before.frontier, member.frontier if member else 0)
            if not least < label <= after.highest:
                expected = f"records of a barrier after {least}, up to {after.highest}"
                self._find(snapshot, expected, f"records of barrier {label}")

    def _compare_revised(
        self, snapshot: Snapshot, before: BarrierState, after: BarrierState
    ) -> None:
        # A snapshot does not name the derived writers that took part: they are those with a barrier of their sources.
        came = [name for name, member in after.members.items() if member.at is not None]
        expected = before.revised(max(after.revision, before.revision), after.frontier, came)
        expected = replace(expected, waiting=after.waiting)
        if after != expected:
            self._find(snapshot, expected.to_json(), after.to_json())
        if after.frontier > before.frontier or snapshot.commit_kind != COMMIT_KIND_OVERWRITE:
            actual = f"a commit of kind {snapshot.commit_kind} to {after.frontier}"
            self._find(snapshot, f"an overwrite that goes back from {before.frontier}", actual)

    def _find(self, snapshot: Snapshot, expected: str, actual: str) -> None:
        self._findings.add(Finding(_LAW, snapshot.id, expected, actual))
