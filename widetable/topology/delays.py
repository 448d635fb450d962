"""The delays of tables and jobs after each barrier, and the slowest job of a path. Pure.

    a table    written - T, changes - T                        until its rows, and its changes, up to T were available
    a job      wait  = begin - changes(T) of its last source   until its batch was planned
               cost  = end - begin                             until it was committed in all of its sinks
               share = wait + cost                             what it adds to the delay of its sinks
    a path     to a table: the job that ended last in it, the last source of that job, and so on to a root

The delay of a table is the sum of the shares of a path, changes(T) - T of its root, and the compactions in between.
All are differences of snapshot times, so they are as exact as the clocks of the
writers, and may be negative. Source: F35 of FLIP-276. Raises nothing.

clicks writes a, j1 makes b from a, j2 makes c from a and b; barrier 10,000, times after it in
milliseconds:

    a     written 400, changes 900       path -         delay 400
    j1    begins 1,000, ends 2,000       last source a  wait 100, cost 1,000, share 1,100
    b     written 2,000, changes 2,300   path j1        delay 2,000
    j2    begins 2,500, ends 3,500       last source b  wait 200, cost 1,000, share 1,200
    c     written 3,500                  path j1, j2    delay 3,500, the slowest is j2

3,500 is the sum of 900, when a's changes were available, the shares 1,100 and 1,200, and 300 from b's rows to b's
changes, which the compaction takes and no job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from widetable.commit.barriers.writer_registration import DERIVED, Job
from widetable.operations.inspection.inspected_frame import frame_of_rows, frame_schema

_TABLES: Final = frame_schema(
    "barrier int64, table string, written_delay_millis int64, changes_delay_millis int64?, path list, "
    "slowest_job string?"
)
_JOBS: Final = frame_schema(
    "barrier int64, job string, last_source string?, begin_time time?, end_time time, wait_millis int64?, "
    "cost_millis int64?, share_millis int64?"
)


class JobCommit(NamedTuple):
    """Describes the commit by which a job completes a barrier; times are epoch milliseconds.

    begin_millis: None if the commit does not state it. rows: records of this commit and the job's other commits since
    its previous barrier; None if some of these have expired.
    """

    begin_millis: int | None
    end_millis: int
    rows: int | None = None


@dataclass(frozen=True)
class BarrierTimes:
    """Holds the times of one table. written, changes: barrier to epoch milliseconds, if known. commits: by job and
    barrier.
    """

    written: Mapping[int, int]
    changes: Mapping[int, int]
    commits: Mapping[tuple[str, int], JobCommit]


@dataclass(frozen=True)
class TableDelay:
    """How long after a barrier one table was complete.

    Attributes
    ----------
    barrier : int
        The barrier, in epoch milliseconds.
    table : str
        `db.name` of the table.
    written_delay_millis : int
        Milliseconds from the barrier until the table was complete.
    changes_delay_millis : int or None
        Milliseconds from the barrier until its changes were published. None: they are not, or do not end at the
        barrier.
    path : tuple of str
        The jobs on the way to the table, the first one first; empty for the table of a root job.
    slowest_job : str or None
        The job on that way with the largest share. None: there is none.
    """

    __module__ = "widetable"

    barrier: int
    table: str
    written_delay_millis: int
    changes_delay_millis: int | None
    path: tuple[str, ...]
    slowest_job: str | None


@dataclass(frozen=True)
class JobDelay:
    """What one derived job took of the delay of one barrier. Times are epoch milliseconds. None: unknown.

    Attributes
    ----------
    barrier : int
        The barrier, in epoch milliseconds.
    job : str
        The name of the job.
    last_source : str or None
        The source whose changes came last.
    begin_time_millis : int or None
        When the batch of the job was planned.
    end_time_millis : int
        When the batch was committed in all sinks of the job.
    wait_millis : int or None
        Milliseconds from the changes of the last source to the begin.
    cost_millis : int or None
        Milliseconds from begin to end.
    share_millis : int or None
        Wait and cost together: what the job adds to the delay of what it derives.
    """

    __module__ = "widetable"

    barrier: int
    job: str
    last_source: str | None
    begin_time_millis: int | None
    end_time_millis: int
    wait_millis: int | None
    cost_millis: int | None
    share_millis: int | None


@dataclass(frozen=True)
class Delays:
    """How long tables and jobs took after barriers, in ascending order of barriers.

    A table is left out at a barrier that it has not reached, that one of its jobs skipped, or whose snapshots have
    expired. A job is left out at a barrier that it did not commit in all of its sinks.

    Attributes
    ----------
    tables : tuple of TableDelay
        One entry for each table and barrier, by layer and name within a barrier.
    jobs : tuple of JobDelay
        One entry for each derived job and barrier, each job after those that feed it.
    """

    __module__ = "widetable"

    tables: tuple[TableDelay, ...]
    jobs: tuple[JobDelay, ...]

    def tables_to_arrow(self) -> pa.Table:
        """Return the delays of tables as an Arrow table.

        Returns
        -------
        pyarrow.Table
            One row for each of `tables`; its fields are the columns.
        """
        return frame_of_rows(_TABLES, map(astuple, self.tables), "delays of tables")

    def jobs_to_arrow(self) -> pa.Table:
        """Return the delays of jobs as an Arrow table.

        Returns
        -------
        pyarrow.Table
            One row for each of `jobs`; its fields are the columns, and times are timestamps.
        """
        return frame_of_rows(_JOBS, map(astuple, self.jobs), "delays of jobs")


def newest_delays(delays: Delays, limit: int) -> Delays:
    """Return the delays of the newest barriers that tables completed. limit: how many barriers; 0 for none."""
    barriers = sorted({one.barrier for one in delays.tables})
    shown = set(barriers[max(0, len(barriers) - limit) :])
    return Delays(
        tuple(one for one in delays.tables if one.barrier in shown),
        tuple(one for one in delays.jobs if one.barrier in shown),
    )


def delays_of(
    times: Mapping[str, BarrierTimes],
    jobs: Iterable[Job],
    layers: Sequence[Sequence[str]],
    barriers: Iterable[int],
) -> Delays:
    """Compute delays. times: of the tables under barriers. layers: of these and others, which are left out. jobs: roots
    are skipped. barriers: in any order, with repeats; barriers that nobody has completed add nothing.
    """
    order = [table for layer in layers for table in sorted(layer) if table in times]
    place = {table: at for at, table in enumerate(order)}
    derived = sorted(
        (job for job in jobs if job.kind == DERIVED),
        key=lambda job: (max(place.get(table, 0) for table in job.tables), job.name),
    )
    tables: list[TableDelay] = []
    done: list[JobDelay] = []
    for barrier in sorted(set(barriers)):
        delays = [(job, _job_delay(job, barrier, times)) for job in derived]
        made = [(job, delay) for job, delay in delays if delay is not None]
        done += [delay for _, delay in made]
        tables += _table_delays(order, barrier, times, made)
    return Delays(tuple(tables), tuple(done))


def _job_delay(job: Job, barrier: int, times: Mapping[str, BarrierTimes]) -> JobDelay | None:
    """Measure a job from its first begin to its last end over all sinks; None if a sink lacks the barrier. If the
    changes of one source are unknown, so is the last source, and there is no wait and no share.
    """
    sinks = [
        times[table].commits.get((job.name, barrier)) for table in job.tables if table in times
    ]
    commits = [commit for commit in sinks if commit is not None]
    if not commits or len(commits) < len(job.tables):
        return None
    begins = [commit.begin_millis for commit in commits if commit.begin_millis is not None]
    begin, end = min(begins, default=None), max(commit.end_millis for commit in commits)
    ready = {
        table: times[table].changes[barrier]
        for table in job.sources
        if table in times and barrier in times[table].changes
    }
    last = None
    if len(ready) == len(job.sources):
        last = max(sorted(ready), key=lambda table: ready[table], default=None)
    share = None if last is None else end - ready[last]
    cost = None if begin is None else end - begin
    wait = None if share is None or cost is None else share - cost
    return JobDelay(barrier, job.name, last, begin, end, wait, cost, share)


def _table_delays(
    order: Sequence[str],
    barrier: int,
    times: Mapping[str, BarrierTimes],
    made: Sequence[tuple[Job, JobDelay]],
) -> Iterable[TableDelay]:
    paths: dict[str, tuple[JobDelay, ...]] = {}
    for table in order:
        # Its sources come before it in the order, so their paths exist.
        into = [delay for job, delay in made if table in job.tables]
        last = max(into, key=lambda delay: delay.end_time_millis, default=None)
        if last is None:
            paths[table] = ()
        else:
            paths[table] = (*paths.get(last.last_source or "", ()), last)
        written = times[table].written.get(barrier)
        changes = times[table].changes.get(barrier)
        if written is not None:
            yield TableDelay(
                barrier,
                table,
                written - barrier,
                None if changes is None else changes - barrier,
                tuple(delay.job for delay in paths[table]),
                _slowest(paths[table]),
            )


def _slowest(path: Sequence[JobDelay]) -> str | None:
    shares = {delay.job: delay.share_millis for delay in path if delay.share_millis is not None}
    return max(shares, key=lambda job: shares[job], default=None)
