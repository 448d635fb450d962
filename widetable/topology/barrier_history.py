"""What `__meta` says of barriers: those that tables keep, and some that they have let go of. Pure.

    kept       as the snapshots say, of all barriers whose base is there
    let go     as it was said while they were kept, without snapshots; what was not known is asked of it, too
    bounded    the newest MOST of each table, and of each job in a table

What was let go is said nowhere else. A table whose first snapshot is there has let go of nothing, so nothing of one of
the same name that was dropped goes on; of a table that is not there nothing is said. Raises nothing.

    said before                       kept now                    said from now on
    20: base 5, written 21, out 22    -                           20: no ids, 21, 22
    30: base 7, written 31, out -     30: base 7, 31, out 32      30: base 7, 31, 32
    40 in revision 0                  30 in revision 1            both: the key has the revision

A time that is known is never lost by a later look: the oldest snapshot that is kept does not say
when it came to its barriers, which the look before it had seen. A barrier that is ahead of the
table, in revision or number, is left out: the table has not come to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from widetable.topology.barrier_times import BarrierSnapshots, KeptBarriers

# At 10 s a day and four hours.
MOST: Final = 10_000


class BarrierRow(NamedTuple):
    """Of `__META_BARRIER`. Ids are those of BarrierSnapshots, None where it is not exact or has been let go."""

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
    """Of `__META_JOB_BARRIER`: the commit by which a job completes a barrier in one of its tables (`JobCommit`)."""

    job_id: str
    table_name: str
    revision: int
    barrier: int
    begin_time_millis: int | None
    end_time_millis: int
    row_count: int | None


class Reach(NamedTuple):
    """How far a table is. barrier: complete up to here, in that revision. is_whole: it has let go of nothing."""

    revision: int
    barrier: int
    is_whole: bool


_Row = TypeVar("_Row", BarrierRow, JobBarrierRow)


def reach_of(kept: Mapping[str, KeptBarriers]) -> dict[str, Reach]:
    """Of each table."""
    return {name: Reach(one.revision, one.newest, one.is_whole) for name, one in kept.items()}


def barrier_rows(kept: Mapping[str, KeptBarriers]) -> Iterator[BarrierRow]:
    """Of those that are kept."""
    for name, one in kept.items():
        barriers = one.barriers()
        times = one.times(barriers)
        for barrier, found in barriers.items():
            ids = BarrierSnapshots(None, None, None, None) if found is None else found
            written, changes = times.written.get(barrier), times.changes.get(barrier)
            of_table = (name, one.revision, barrier, found is not None)
            yield BarrierRow(*of_table, *ids, written, changes)


def job_barrier_rows(kept: Mapping[str, KeptBarriers]) -> Iterator[JobBarrierRow]:
    """Of those that are kept."""
    for name, one in kept.items():
        for (job, barrier), commit in one.commits().items():
            yield JobBarrierRow(job, name, one.revision, barrier, *commit)


def with_barriers_let_go(
    now: Iterable[BarrierRow], before: Iterable[BarrierRow], reach: Mapping[str, Reach]
) -> set[BarrierRow]:
    """now: what is kept. before: what was said last."""

    def has_come(row: BarrierRow) -> bool:
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

    found = _joined(now, before, reach, lambda row: row[:3], joined)
    return _newest(filter(has_come, found), lambda row: row.table_name)


def with_job_barriers_let_go(
    now: Iterable[JobBarrierRow], before: Iterable[JobBarrierRow], reach: Mapping[str, Reach]
) -> set[JobBarrierRow]:
    """The same of jobs."""

    def joined(new: JobBarrierRow | None, old: JobBarrierRow) -> JobBarrierRow:
        return (
            old
            if new is None
            else new._replace(row_count=old.row_count if new.row_count is None else new.row_count)
        )

    found = _joined(now, before, reach, lambda row: row[:4], joined)
    return _newest(found, lambda row: row[:2])


# `key`: by which a row of now and one of before are of the same barrier. `joined`: what becomes
# of an old row; the new one is None where its barrier is not kept any more. Rows of now that
# were not said before stay as they are.
def _joined(
    now: Iterable[_Row],
    before: Iterable[_Row],
    reach: Mapping[str, Reach],
    key: Callable[[_Row], Hashable],
    joined: Callable[[_Row | None, _Row], _Row],
) -> Sequence[_Row]:
    known = {key(row): row for row in now}
    for row in before:
        of_table = reach.get(row.table_name)
        if of_table is not None and not of_table.is_whole and row.revision <= of_table.revision:
            known[key(row)] = joined(known.get(key(row)), row)
    return list(known.values())


def _newest(rows: Iterable[_Row], group: Callable[[_Row], Hashable]) -> set[_Row]:
    """MOST of each group: those of the last revision first, of these the last barriers."""
    counts: dict[Hashable, int] = {}
    newest = set()
    for row in sorted(rows, key=lambda row: (row.revision, row.barrier), reverse=True):
        counts[group(row)] = counts.get(group(row), 0) + 1
        if counts[group(row)] <= MOST:
            newest.add(row)
    return newest
