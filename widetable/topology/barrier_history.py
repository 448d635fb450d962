"""The rows of `__meta` about barriers: those that tables keep, and some that have expired. Pure.

    kept       by the snapshots, for all barriers whose base is kept
    expired    as they were written while they were kept, without snapshots; they also fill in unknown times
    bounded    the newest MOST of each table, and of each job in a table

Expired barriers are stored nowhere else. If the first snapshot of a table is kept, none of its barriers has expired, so
rows of a dropped table of the same name are not kept; a table that does not exist has no rows. Raises nothing.

    stored before                     kept now                    stored from now on
    20: base 5, written 21, out 22    -                           20: no ids, 21, 22
    30: base 7, written 31, out -     30: base 7, 31, out 32      30: base 7, 31, 32
    40 in revision 0                  30 in revision 1            both: the key has the revision

A known time is never lost later: the oldest kept snapshot does not tell the times of its barriers, but an earlier read
had seen them. A barrier that is ahead of the table, in revision or number, is left out, because the table has not
completed it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from widetable.topology.barrier_times import BarrierSnapshots, KeptBarriers

# With an interval of 10 s this covers a day and four hours.
MOST: Final = 10_000


class BarrierRow(NamedTuple):
    """A row of `__META_BARRIER`. Ids are those of BarrierSnapshots, None if the barrier is not exact or has expired."""

    table_name: str
    revision: int
    barrier: int
    is_exact: bool
    base_id: int | None
    extra_commits: int | None
    snapshot_id: int | None
    changelog_snapshot_id: int | None
    written_time_millis: int | None
    changes_time_millis: int | None


class JobBarrierRow(NamedTuple):
    """A row of `__META_JOB_BARRIER`: the commit by which a job completes a barrier in one table (`JobCommit`)."""

    job_id: str
    table_name: str
    revision: int
    barrier: int
    begin_time_millis: int | None
    end_time_millis: int
    row_count: int | None


class Reach(NamedTuple):
    """Says how far a table is. barrier: complete up to here, in that revision. is_whole: no barrier has expired."""

    revision: int
    barrier: int
    is_whole: bool


_Row = TypeVar("_Row", BarrierRow, JobBarrierRow)


def reach_of(kept: Mapping[str, KeptBarriers]) -> dict[str, Reach]:
    """Return the reach of each table."""
    return {name: Reach(one.revision, one.newest, one.is_whole) for name, one in kept.items()}


def barrier_rows(kept: Mapping[str, KeptBarriers]) -> Iterator[BarrierRow]:
    """Yield the rows of kept barriers."""
    for name, one in kept.items():
        barriers = one.barriers()
        times = one.times(barriers)
        for barrier, snapshots in barriers.items():
            ids = BarrierSnapshots(None, None, None, None) if snapshots is None else snapshots
            written, changes = times.written.get(barrier), times.changes.get(barrier)
            of_table = (name, one.revision, barrier, snapshots is not None)
            yield BarrierRow(*of_table, *ids, written, changes)


def job_barrier_rows(kept: Mapping[str, KeptBarriers]) -> Iterator[JobBarrierRow]:
    """Yield the rows of kept commits of jobs."""
    for name, one in kept.items():
        for (job, barrier), commit in one.commits().items():
            yield JobBarrierRow(job, name, one.revision, barrier, *commit)


def with_expired_barriers(
    now: Iterable[BarrierRow], before: Iterable[BarrierRow], reach: Mapping[str, Reach]
) -> set[BarrierRow]:
    """Add expired barriers to the rows of kept ones. now: the kept rows. before: the stored rows."""

    def is_completed(row: BarrierRow) -> bool:
        of_table = reach[row.table_name]
        return (row.revision, row.barrier) <= (of_table.revision, of_table.barrier)

    def joined(new: BarrierRow | None, old: BarrierRow) -> BarrierRow:
        if new is None:
            return BarrierRow(*old[:4], None, None, None, None, *old[8:])
        written, changes = new.written_time_millis, new.changes_time_millis
        return new._replace(
            written_time_millis=old.written_time_millis if written is None else written,
            changes_time_millis=old.changes_time_millis if changes is None else changes,
        )

    rows = _joined(now, before, reach, lambda row: row[:3], joined)
    return _newest(filter(is_completed, rows), lambda row: row.table_name)


def with_expired_job_barriers(
    now: Iterable[JobBarrierRow], before: Iterable[JobBarrierRow], reach: Mapping[str, Reach]
) -> set[JobBarrierRow]:
    """Add expired commits of jobs to the rows of kept ones."""

    def joined(new: JobBarrierRow | None, old: JobBarrierRow) -> JobBarrierRow:
        return (
            old
            if new is None
            else new._replace(row_count=old.row_count if new.row_count is None else new.row_count)
        )

    rows = _joined(now, before, reach, lambda row: row[:4], joined)
    return _newest(rows, lambda row: row[:2])


# `key`: identifies the barrier of a row. `joined`: combines a new and an old row; the new one is None if its barrier
# has expired. New rows without an old one stay unchanged.
def _joined(
    now: Iterable[_Row],
    before: Iterable[_Row],
    reach: Mapping[str, Reach],
    key: Callable[[_Row], Hashable],
    joined: Callable[[_Row | None, _Row], _Row],
) -> Sequence[_Row]:
    by_key = {key(row): row for row in now}
    for row in before:
        of_table = reach.get(row.table_name)
        if of_table is not None and not of_table.is_whole and row.revision <= of_table.revision:
            by_key[key(row)] = joined(by_key.get(key(row)), row)
    return list(by_key.values())


def _newest(rows: Iterable[_Row], group: Callable[[_Row], Hashable]) -> set[_Row]:
    """Return at most MOST rows of each group: the newest by revision, then by barrier."""
    counts: dict[Hashable, int] = {}
    newest = set()
    for row in sorted(rows, key=lambda row: (row.revision, row.barrier), reverse=True):
        counts[group(row)] = counts.get(group(row), 0) + 1
        if counts[group(row)] <= MOST:
            newest.add(row)
    return newest
