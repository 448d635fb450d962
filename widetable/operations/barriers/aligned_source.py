"""One source of a derived job: a table under barriers that is read from barrier to barrier, in step with the others.

    (P, T]      the changes after P up to T
    (0, T]      of a query without a checkpoint, whose first batch may come again when its records are in: what the plan
                of T says. The rows as of T, as inserts, of a job that had no records; changes of one that had some

All sources end at the same barrier, whatever the timing: the one that is asked first in a round says what comes next,
publishes that (`barrier_plan`), and the others go by it. Where none is published they stay: a barrier that becomes
available while they are asked must not be taken by some of them. A job that has written goes on where its records are
in its first table, whatever its checkpoint. Progress is a consumer with the job's name: it stands where the changes
after the last batch begin that is surely done. Which revision of the tables counts is taken once (0046).

Barrier 0 is the offset of a query that has read nothing.

Two queries of one job, or one query and what is left of it after a kill, at the same decision:

    A  choices at 20: 30 .. 70, takes 40      publishes 20 -> 40
    B  choices at 20: 30 .. 90, takes 80                         publish fails, reads 40, goes by it

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
    """Of one job. sources: all tables that it reads, `table` among them. lead: the first one that it writes into.
    revision: the last one of that; what was read before another one does not go on here. Not thread-safe.

    One is made for each source of a running query, in the process that plans; its readers are
    picklable and go to tasks. It holds nothing open. columns: None for all; they stay as they are.
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
        # Taken once: all that this query looks at goes by the revisions that were active when it
        # started. A later one is noticed by `decided`, and ends the query, instead of being half
        # followed.
        self._active = active_revision(table)
        self.revision: Final = barrier_views(lead, self._active).newest().revision
        self._plans = BarrierPlans(lead._file_io, lead._paths, job, self.revision)
        self._consumers = ConsumerStore(table._file_io, table._paths)
        self._consumers.check_new(job)

    @property
    def identity(self) -> str:
        """Of the table."""
        return self._source.identity

    def planned(self, barrier: int) -> int | None:
        """What is known to come after a barrier; 0: at the beginning of a query.

        None where no plan says it yet. At the beginning of a new job it records the consumer of
        this source: whoever decided has recorded its own only, and the rows that the batch
        begins with must not expire meanwhile.
        """
        return behind_expiry(self._tables, lambda: self._planned(barrier))

    def _planned(self, barrier: int) -> int | None:
        start = self._start(barrier)
        found = self._plans.after(start)
        if found is not None and start == 0:
            self._keep(found)
        return found

    def decided(self, barrier: int, newest: int | None) -> int | None:
        """What comes after a barrier from now on, newest at most; None where the sources have none in common. Raises
        ConflictError behind a revision that has begun since.

        The newest revision is asked for here, active or not: the lead may have gone back already
        while the others have not, and a plan that is made now would be of neither.
        """
        if newest_revision(self._lead) != self.revision:
            raise revised(self.job, self.revision)
        return behind_expiry(self._tables, lambda: self._decided(barrier, newest))

    def _decided(self, barrier: int, newest: int | None) -> int | None:
        start = self._start(barrier)
        changes = [barrier_changes(source, self._active) for source in self._sources]
        found = [one.choices(start).up_to(newest) for one in changes]
        chosen = next_barrier(found, self._interval, is_first=start == 0)
        if chosen is None or (start == 0 and not self._has_rows(chosen)):
            return None
        # Kept first, published then: a kill in between leaves a consumer too many, the other way
        # round it would leave a plan whose rows may expire before the query comes back.
        if start == 0:
            self._keep(chosen)
        decided = self._plans.decide(start, chosen)
        if decided != chosen and start == 0:
            self._keep(decided)
        return decided

    def newest(self) -> int:
        """The barrier up to which the table is complete."""
        views = partial(barrier_views, self._table, self._active)
        return behind_expiry(self._tables, lambda: views().newest().frontier)

    def reads(self, after: int, barrier: int) -> list[list[StreamRead]]:
        """Readers of what lies between two barriers. What one list has comes in this order; no two lists of the same
        batch share a key, unless they are of the same bucket.

        after: 0 for the first batch of a query. A job without records begins with all rows as of
        `barrier`, one list for each split; else with changes, one list for each bucket,
        snapshots ascending. A first batch that comes again is told from the plan that led to
        `barrier`: by now the job may have records, so they do not say it.
        """
        if after == barrier:
            return []
        return behind_expiry(self._tables, lambda: self._reads(after, barrier))

    def _reads(self, after: int, barrier: int) -> list[list[StreamRead]]:
        # The plan's own start counts, not 0: where a job had records its first batch went on
        # behind those.
        start = after or self._plans.before(barrier)
        if start is None:
            raise NotFoundError(
                f"plan of job {self.job!r} for barrier {barrier}",
                found="none in its first table",
                expected="the one that its first batch was made by",
                action="Start the query with a new checkpoint: the job was dropped meanwhile.",
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
        """All up to a barrier is done with, and the changes after it are yet to be read."""
        if barrier:
            changes = partial(barrier_changes, self._table, self._active)
            # Looked up before it is written: most calls find the same snapshot, which costs no
            # file then. That also leaves the time of the consumer's last progress as it is.
            needed = behind_expiry(self._tables, lambda: changes().first_needed(barrier))
            if needed != self._consumers.next_snapshot(self.job):
                self._consumers.record(self.job, needed)

    def check_alive(self) -> None:
        """Raises InvalidError when another table is there by now, NotFoundError when none is."""
        self._source.check_alive()

    @property
    def _records(self) -> int:
        """Up to which barrier the job's records are in its first table; 0 for a job that has none."""
        member = barrier_views(self._lead, self._active).newest().members.get(self.job)
        return 0 if member is None or member.at is None else member.at

    def _start(self, barrier: int) -> int:
        """Where a query is, whose records say it at its beginning. Each source that these are made of has a consumer
        since before they were written; of another one they lack all rows.

            offset 0, no records          0: begins with the rows
            offset 0, records up to 40    40: goes on with changes, though the checkpoint is new
            offset 40                     40: what a checkpoint says counts, the commit checks it (R10)
        """
        start = barrier or self._records
        if start and not barrier and self._consumers.next_snapshot(self.job) is None:
            raise ConflictError(
                f"job {self.job!r}",
                found=f"{self._table.path}, which its records up to barrier {start} are not made of: it has no "
                "consumer there, or that was deleted or forgotten (consumer.expiration-time)",
                expected="the sources that it had",
                action="Drop the job, make its tables again, and start with a new checkpoint.",
            )
        return start

    def _rows(self, barrier: int) -> list[StreamRead]:
        """With the columns of the changes that follow, which the table need not have had then."""
        schema = self._source.table.schema
        scan = barrier_scan(self._table, barrier, self._source.columns, None, self._active, schema)
        table, columns = self._source.table, self._source.columns
        return [StreamRead(table, split, columns) for split in scan.splits()]

    def _has_rows(self, barrier: int) -> bool:
        """Whether all sources can be read as of a barrier that their changes stop at. The changes may be far behind the
        rows, and the rows of then have expired: a later one will do, once it is there.
        """
        with contextlib.suppress(NotFoundError):
            for source in self._sources:
                barrier_views(source, self._active).view(barrier)
            return True
        return False

    def _keep(self, barrier: int) -> None:
        """What a new job begins with.

        Its consumer keeps the snapshots of the rows as of the barrier, and of all changes after
        it.
        """
        views = barrier_views(self._table, self._active)
        changes = barrier_changes(self._table, self._active)
        self._consumers.record(self.job, first_kept_for(changes, views, barrier))


def revised(job: str, revision: object) -> ConflictError:
    """Of a job whose checkpoint, or run, is of that revision, and its tables of another."""
    return ConflictError(
        f"job {job!r}",
        found=f"a run of revision {revision} of its tables, which went back to a barrier since",
        expected="one that has begun since",
        action="Start it with a new checkpoint when the revision has ended: it goes on at that barrier, or from the "
        "beginning where its tables were cleared.",
    )
