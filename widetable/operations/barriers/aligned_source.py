"""One source of a derived job: a table under barriers that is read from barrier to barrier, in step with the others.

    (P, T]      the changes after P up to T
    (0, T]      a query without a checkpoint: the plan of T decides, because the first batch may be replayed when its
                records are committed: the rows as of T, as inserts, for a job that had no records; changes for one that
                had some

All sources end at the same barrier, whatever the timing: the first source of a round decides the next barrier and
publishes it (`barrier_plan`), and the others follow. If none is published they wait, so that they never use a barrier
that becomes available in the middle of a round. A job that has written continues after its records in its first table,
whatever its checkpoint. Its progress is a consumer with the job's name, at the first change after the last batch that
is certainly done. The revision of the tables is read once (0046).

Barrier 0 is the offset of a query that has read nothing.

Two queries of one job, or one query and the remains of a killed one, at the same decision:

    A  choices at 20: 30 .. 70, takes 40      publishes 20 -> 40
    B  choices at 20: 30 .. 90, takes 80                         publish fails, reads 40 and follows it

Source: rules R8, R9, R12, R19 and R20 of docs/consistency.md. Raises NotFoundError for barriers that have expired,
InvalidError for sources under different barriers, and what reading a table raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

from widetable.commit.barriers.barrier_plan import BarrierPlans
from widetable.commit.barriers.barrier_table import one_interval
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.errors import ConflictError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.barrier_scan import (
    active_revision,
    barrier_changes,
    barrier_scan,
    barrier_views,
    behind_expiry,
    first_kept_for,
    newest_revision,
)
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.changes import change_source
from widetable.read.change_read import StreamRead
from widetable.read.next_barrier import next_barrier
from widetable.read.stream_plan import Piece
from widetable.schema.barrier_options import BARRIER_INTERVAL


class AlignedSource:
    """Plans the reads of one source of a job. Not thread-safe.

    sources: all tables that the job reads, including `table`. lead: the first table that it writes. columns: None for
    all; they are fixed. revision: the last one of the lead; reads from before another revision do not continue here.

    The planning process makes one object for each source of a running query; the readers are picklable and go to
    tasks. It keeps no resources open.
    """

    def __init__(
        self,
        job: str,
        table: OpenTable,
        sources: Sequence[OpenTable],
        lead: OpenTable,
        columns: Sequence[str] | None,
    ) -> None:
        self.job: Final = job
        self._table = table
        self._sources = sources
        self._lead = lead
        self._tables = (*sources, lead)
        self._source = change_source(table, columns)
        intervals = {one.path: one.schema.typed_options.get(BARRIER_INTERVAL) for one in sources}
        self._interval = one_interval("sources", intervals)
        # This is read once: the query uses the revisions that were active when it started. `decided` notices a later
        # revision, which ends the query; otherwise parts of it would follow each revision.
        self._active = active_revision(table)
        self.revision: Final = barrier_views(lead, self._active).newest().revision
        self._plans = BarrierPlans(lead._file_io, lead._paths, job, self.revision)
        self._consumers = ConsumerStore(table._file_io, table._paths)
        self._consumers.check_new(job)

    @property
    def identity(self) -> str:
        """Identify the table."""
        return self._source.identity

    def planned(self, barrier: int) -> int | None:
        """Return the planned barrier after a barrier, None if there is no plan yet. barrier: 0 at the start of a query.

        At the start of a new job this records the consumer of this source. The source that decided has recorded only
        its own consumer, and the rows with which the batch begins must not expire meanwhile.
        """
        return behind_expiry(self._tables, lambda: self._planned(barrier))

    def _planned(self, barrier: int) -> int | None:
        start = self._start(barrier)
        next_planned = self._plans.after(start)
        if next_planned is not None and start == 0:
            self._keep(next_planned)
        return next_planned

    def decided(self, barrier: int, newest: int | None) -> int | None:
        """Decide the barrier after a barrier, at most `newest`; None if the sources have none in common. Raises
        ConflictError after a revision that has begun since.

        This checks the newest revision, active or not: the lead may have gone back already while the other tables have
        not, and a plan that is made now would fit neither.
        """
        if newest_revision(self._lead) != self.revision:
            raise revised(self.job, self.revision)
        return behind_expiry(self._tables, lambda: self._decided(barrier, newest))

    def _decided(self, barrier: int, newest: int | None) -> int | None:
        start = self._start(barrier)
        changes = [barrier_changes(source, self._active) for source in self._sources]
        choices = [one.choices(start).up_to(newest) for one in changes]
        chosen = next_barrier(choices, self._interval, is_first=start == 0)
        if chosen is None or (start == 0 and not self._has_rows(chosen)):
            return None
        # The consumer is recorded before the plan is published. A kill in between leaves an unused consumer; the other
        # order would leave a plan whose rows may expire before the query returns.
        if start == 0:
            self._keep(chosen)
        decided = self._plans.decide(start, chosen)
        if decided != chosen and start == 0:
            self._keep(decided)
        return decided

    def newest(self) -> int:
        """Return the barrier up to which the table is complete."""
        views = partial(barrier_views, self._table, self._active)
        return behind_expiry(self._tables, lambda: views().newest().frontier)

    def reads(self, after: int, barrier: int) -> list[list[StreamRead]]:
        """Return readers of the records between two barriers. The readers of one list run in its order; two lists of a
        batch share keys only if they belong to the same bucket.

        after: 0 for the first batch of a query. A job without records begins with all rows as of `barrier`, one list
        for each split; otherwise with changes, one list for each bucket, snapshots ascending. The plan that led to
        `barrier` decides how a replayed first batch begins, because the job may have records by now.
        """
        if after == barrier:
            return []
        return behind_expiry(self._tables, lambda: self._reads(after, barrier))

    def _reads(self, after: int, barrier: int) -> list[list[StreamRead]]:
        # The start of the plan is used, not 0: the first batch of a job that had records began after those.
        start = after or self._plans.before(barrier)
        if start is None:
            raise NotFoundError(
                f"plan of job {self.job!r} for barrier {barrier}",
                found="no such plan in its first table, because the job was dropped meanwhile",
                expected="the plan of its first batch",
                action="Start the query with a new checkpoint.",
            )
        if start == 0:
            return [[read] for read in self._rows(barrier)]
        after = start
        ids = barrier_changes(self._table, self._active).snapshot_ids(after, barrier)
        by_bucket: dict[object, list[StreamRead]] = {}
        for id in ids:
            step = self._source.step(id, False)
            for read in self._source.reads(Piece(step, 0, len(step.splits))):
                by_bucket.setdefault(read.split.bucket, []).append(read)
        return list(by_bucket.values())

    def record(self, barrier: int) -> None:
        """Record that all changes up to a barrier are processed."""
        if barrier:
            changes = partial(barrier_changes, self._table, self._active)
            # Most calls meet an unchanged snapshot, and then write no file. That also keeps the time of the consumer's
            # last progress.
            needed = behind_expiry(self._tables, lambda: changes().first_needed(barrier))
            if needed != self._consumers.next_snapshot(self.job):
                self._consumers.record(self.job, needed)

    def check_alive(self) -> None:
        """Raise InvalidError if another table has replaced this one, NotFoundError if the table is gone."""
        self._source.check_alive()

    @property
    def _records(self) -> int:
        """The barrier up to which the first table has the job's records; 0 for a job without records."""
        member = barrier_views(self._lead, self._active).newest().members.get(self.job)
        return 0 if member is None or member.at is None else member.at

    def _start(self, barrier: int) -> int:
        """Return the position of a query, which its records give at its start. Each source of these records has a
        consumer since before they were written; from a source without one, the records lack all rows.

            offset 0, no records          0: begins with the rows
            offset 0, records up to 40    40: continues with changes, although the checkpoint is new
            offset 40                     40: the checkpoint counts, and the commit checks it (R10)
        """
        start = barrier or self._records
        if start and not barrier and self._consumers.next_snapshot(self.job) is None:
            raise ConflictError(
                f"job {self.job!r}",
                found=f"{self._table.path}, which is no source of its records up to barrier {start}: it has no "
                "consumer there, or the consumer was deleted or has expired (consumer.expiration-time)",
                expected="the sources that it had before",
                action="Drop the job, make its tables again, and start with a new checkpoint.",
            )
        return start

    def _rows(self, barrier: int) -> list[StreamRead]:
        """Return readers of all rows as of a barrier, with the columns of the changes that follow; the table need not
        have had these columns then.
        """
        schema = self._source.table.schema
        scan = barrier_scan(self._table, barrier, self._source.columns, None, self._active, schema)
        table, columns = self._source.table, self._source.columns
        return [StreamRead(table, split, columns) for split in scan.splits()]

    def _has_rows(self, barrier: int) -> bool:
        """Whether the rows of all sources can be read as of a barrier. The changes may lag far behind the rows, so that
        the rows of the barrier have expired; then a later barrier is used once it is available.
        """
        with contextlib.suppress(NotFoundError):
            for source in self._sources:
                barrier_views(source, self._active).view(barrier)
            return True
        return False

    def _keep(self, barrier: int) -> None:
        """Record the consumer of a new job, which keeps the rows as of the barrier and all changes after it."""
        views = barrier_views(self._table, self._active)
        changes = barrier_changes(self._table, self._active)
        self._consumers.record(self.job, first_kept_for(changes, views, barrier))


def revised(job: str, revision: object) -> ConflictError:
    """Make the error for a job whose checkpoint, or run, belongs to another revision than its tables.

    Parameters
    ----------
    job : str
        The name of the job.
    revision : object
        The revision of the job.

    Returns
    -------
    ConflictError
        The error.
    """
    return ConflictError(
        f"job {job!r}",
        found=f"a run of revision {revision} of its tables, which have gone back to a barrier since",
        expected="a run that began after that",
        action="Start it with a new checkpoint when the revision has ended: it continues at that barrier, or from the "
        "beginning if its tables were cleared.",
        code=ErrorCode.REVISION_BEGAN,
    )
