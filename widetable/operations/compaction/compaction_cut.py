"""Decides which files compactions of a table under barriers may take: level 0 up to a cut (`barrier_cut.py`), except
for files that are in order with later ones, and all levels above it.

In: the newest snapshot and its live entries. Out: the cuts, one after the other, and the entries that a compaction up
to one may use; all of them in a table without barriers. Raises what reading snapshots and manifests raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.commit.barriers.barrier_cut import cuts
from widetable.commit.transaction.committer import Committer
from widetable.format.bucket_id import BucketId
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.lsm.bucket_plan import Scope
from widetable.lsm.levels import looks_up_rows
from widetable.merge.order_dependence import ordered_ids
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.write.table_state import TableState

# Every label is higher: level 0 stays as it is.
_NOTHING: Final = 0


@dataclass(frozen=True)
class CutScope:
    """One compaction. barrier: that of its cut; None without a cut."""

    scope: Scope
    barrier: int | None


def cut_scopes(state: TableState, committer: Committer, scope: Scope) -> Iterator[CutScope]:
    """Yield the compactions to do, one after the other.

    Those before the last do no more than is due: they make the changes up to their barriers, so they exist only in
    tables with a lookup changelog.

        waiting 10, complete up to 30    FULL, lookup       (DUE, 20) (FULL, 30)
                                         COMMIT, lookup     (COMMIT, 20) (COMMIT, 30)
                                         FULL, no lookup    (FULL, 30)
        nothing to be taken              FULL               (FULL, 0): what lies above level 0
        no barriers, or REST             one without a cut
    """
    interval = state.options.get(BARRIER_INTERVAL)
    if interval is None or scope is Scope.REST:
        yield CutScope(scope, None)
        return
    barriers = cuts(committer.level0.state(committer.snapshots.latest(), interval))
    if looks_up_rows(state.schema):
        earlier = Scope.COMMIT if scope is Scope.COMMIT else Scope.DUE
        yield from (CutScope(earlier, barrier) for barrier in barriers[:-1])
    yield CutScope(scope, barriers[-1] if barriers else _NOTHING)


def last_cut(state: TableState, committer: Committer, snapshot: Snapshot | None) -> int | None:
    """Return the barrier up to which all files of a snapshot may be taken; None: all files."""
    interval = state.options.get(BARRIER_INTERVAL)
    if interval is None:
        return None
    barriers = cuts(committer.level0.state(snapshot, interval))
    return barriers[-1] if barriers else _NOTHING


def entries_up_to(
    state: TableState,
    committer: Committer,
    snapshot: Snapshot | None,
    entries: Sequence[ManifestEntry],
    barrier: int | None,
) -> list[ManifestEntry]:
    """Return the live entries that a compaction may use. barrier: that of the cut, None for all."""
    interval = state.options.get(BARRIER_INTERVAL)
    if interval is None or barrier is None or snapshot is None or not entries:
        return list(entries)
    level0 = committer.level0.at(snapshot, interval)
    stays = level0.staying(entries, barrier, ordered=ordered_ids(state.schema))
    return [entry for entry in entries if entry.file.file_name not in stays]


def waiting_buckets(
    state: TableState, committer: Committer, snapshot: Snapshot | None
) -> frozenset[BucketId]:
    """Return the buckets with waiting files that may be taken, in a table under barriers."""
    interval, barrier = state.options.get(BARRIER_INTERVAL), last_cut(state, committer, snapshot)
    if interval is None or barrier is None or snapshot is None:
        return frozenset()
    if barrier == _NOTHING:  # most commits complete no barrier
        committer.level0.keep_up(snapshot, interval)
        return frozenset()
    return committer.level0.at(snapshot, interval).buckets_up_to(barrier)
