"""Measures what waits in a table, and decides when it is too much: one rule for `inspect` and `doctor`.

In: live entries, snapshots from the newest back to the last compaction, consumers, the lease. Out: values and verdicts.
A writer's warning that no one compacts the table is the same verdict from fewer facts (`unattended`). Raises
what reading snapshots, consumers and leases raises.

    is_slow          more than 5 times the trigger of level-0 files in one bucket
    is_stuck         the oldest of them has waited for more than a minute
    awaits_changelog the same, in a table where each commit makes its changelog at once
    is_untended      write-only, a bucket has been due for an hour, and no process has the lease
    unattended_by    a changelog waits for a maintainer (`unattended`)
    is_far_behind    a consumer is 10 times as far behind as the snapshots that expiry keeps
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.uncompacted import MADE_BY_COMPACTION
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_COMPACT, Snapshot
from widetable.operations.compaction.unattended import Waiting, unattended_warning
from widetable.operations.handle.open_table import OpenTable
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.options import TableOptions
from widetable.write.table_state import TableState

# Level-0 files of one bucket, in terms of the compaction trigger, that make reads slow.
_SLOW_TRIGGERS: Final = 5
_STUCK_MILLIS: Final = 60_000
# A timer that maintains the table may leave due work for this long.
_UNTENDED_MILLIS: Final = 3_600_000
# How far behind a consumer is before it is reported, in terms of the snapshots that expiry keeps anyway.
_FAR_BEHIND: Final = 10


@dataclass(frozen=True)
class Backlog:
    """The backlog of level 0.

    most_in_a_bucket: in files. oldest_age_millis: since the first commit after the last compaction, or since that
    compaction if it left files; None: nothing waits.
    """

    files: int
    rows: int
    buckets: int
    most_in_a_bucket: int
    oldest_age_millis: int | None


@dataclass(frozen=True)
class ConsumerLag:
    """The lag of a consumer. next_snapshot_id: the first unread one. behind: the number of snapshots from it on.

    It is counted by ids: 0 for a consumer that has read all, or that is ahead (the table was rolled back).
    """

    next_snapshot_id: int
    behind: int


def backlog_of(entries: Sequence[ManifestEntry], began_millis: int | None) -> Backlog:
    """Measure the backlog. began_millis: the time of the first commit after the last compaction."""
    fresh = [entry for entry in entries if entry.file.level == 0]
    per_bucket = Counter(entry.bucket_id for entry in fresh)
    # By times of snapshots, because those of files are local times of their writers.
    age_millis = None if began_millis is None else max(now_millis() - began_millis, 0)
    return Backlog(
        files=len(fresh),
        rows=sum(entry.file.row_count for entry in fresh),
        buckets=len(per_bucket),
        most_in_a_bucket=max(per_bucket.values(), default=0),
        oldest_age_millis=age_millis if fresh else None,
    )


class SinceCompaction(NamedTuple):
    """The commits since the last compaction.

    compaction: the newest one, None when none is kept. commits: the number of newer ones. began_millis: the time of
    the oldest of these, or of the compaction.
    """

    compaction: Snapshot | None
    commits: int
    began_millis: int | None


def since_compaction(
    committer: Committer, latest: Snapshot | None, earliest_id: int | None
) -> SinceCompaction:
    """Find the last compaction among the kept snapshots.

    It reads snapshots one by one from the newest back, so it costs as many small reads as there are commits since the
    last compaction; none where that is the newest.

        5 APPEND (t=50)  6 COMPACT (t=60)  7 APPEND (t=70)  8 APPEND (t=80)    (6, 2, 70)
        5 APPEND (t=50)  6 COMPACT (t=60)                                      (6, 0, 60)
        7 APPEND (t=70)  8 APPEND (t=80), nothing before is kept               (None, 2, 70)

    Overwrites count as commits.
    """
    if latest is None or earliest_id is None:
        return SinceCompaction(None, 0, None)
    snapshot = latest
    began_millis = latest.time_millis
    while snapshot.commit_kind != COMMIT_KIND_COMPACT:
        began_millis, newer = snapshot.time_millis, latest.id - snapshot.id + 1
        if snapshot.id <= earliest_id:
            return SinceCompaction(None, newer, began_millis)
        try:
            snapshot = committer.snapshots.load(snapshot.id - 1)
        except NotFoundError:  # expired since the ends were looked up
            return SinceCompaction(None, newer, began_millis)
    return SinceCompaction(snapshot, latest.id - snapshot.id, began_millis)


def commits_without_changelog(table: OpenTable, start_id: int, end_id: int) -> int:
    """Count the commits of records, after one snapshot up to another, whose changelog no compaction has made yet.

    It is 0 for a producer that needs no compaction. Snapshots are read from the newest back to the last such
    compaction.
    """
    producer = table.schema.typed_options.get(opt.CHANGELOG_PRODUCER)
    if producer not in MADE_BY_COMPACTION:
        return 0
    snapshots = table._committer.snapshots
    waiting = 0
    for id in range(snapshots.latest_id() or 0, start_id, -1):
        try:
            snapshot = snapshots.load(id)
        except NotFoundError:  # expired since the ends were looked up
            break
        if snapshot.commit_kind == COMMIT_KIND_COMPACT and (
            producer == "lookup" or snapshot.changelog_manifest_list is not None
        ):
            break
        is_of_records = snapshot.commit_kind == COMMIT_KIND_APPEND and snapshot.delta_record_count
        waiting += bool(is_of_records and id <= end_id)
    return waiting


def consumer_lags(state: TableState, latest: Snapshot | None) -> dict[str, ConsumerLag]:
    """Return the lag of each consumer by its name. latest: the newest snapshot."""
    end = 1 if latest is None else latest.id + 1
    stored = ConsumerStore(state.file_io, state.paths).all()
    return {name: ConsumerLag(id, max(end - id, 0)) for name, id in stored.items()}


def unattended_by(
    path: str, options: TableOptions, backlog: Backlog, since: SinceCompaction, *, is_leased: bool
) -> str | None:
    """Return the warning about level-0 files that no one compacts, or None."""
    waiting = Waiting(backlog.files, since.commits, backlog.oldest_age_millis)
    return unattended_warning(path, options, waiting, is_leased=is_leased)


def is_slow(backlog: Backlog, options: TableOptions) -> bool:
    """Whether reads have to merge many files of one bucket."""
    trigger = options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    return backlog.most_in_a_bucket > _SLOW_TRIGGERS * max(trigger, 1)


def is_stuck(backlog: Backlog) -> bool:
    """Whether the backlog is older than the usual time until a compaction."""
    return (backlog.oldest_age_millis or 0) > _STUCK_MILLIS


def awaits_changelog(backlog: Backlog, options: TableOptions) -> bool:
    """Whether files wait for a changelog that their commits should have made at once."""
    is_due_at_once = (
        options.get(opt.CHANGELOG_PRODUCER) == "lookup"
        and options.get(opt.LOOKUP_COMPACT) == "radical"
        and not options.get(opt.WRITE_ONLY)
    )
    return is_due_at_once and is_stuck(backlog)


def is_untended(backlog: Backlog, options: TableOptions, *, is_leased: bool) -> bool:
    """Whether writers leave compaction to others, and a bucket has been due for too long without one."""
    due = backlog.most_in_a_bucket >= options.get(opt.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    is_left = (backlog.oldest_age_millis or 0) > _UNTENDED_MILLIS
    return options.get(opt.WRITE_ONLY) and due and is_left and not is_leased


def is_far_behind(lag: ConsumerLag, options: TableOptions) -> bool:
    """Whether expiry keeps many snapshots for a consumer."""
    return lag.behind > _FAR_BEHIND * options.get(retention.SNAPSHOT_NUM_RETAINED_MIN)
