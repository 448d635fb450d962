"""Commit the batches of a job into one of its tables. The job's query numbers its batches and replays the last one.

    root        its records belong to the barrier of the clock when the batch is planned, and complete it; those
                of a second batch within it belong to the next barrier, which stays open
    derived     records of the sources after P up to T belong to T, and complete it
    follower    another table of a root: its records belong to the barrier that they belong to in the first table

Interval 10 s, a root that plans at 12 s, 17 s and 21 s: labels 10, 20, 20. The second batch of
the interval belongs to barrier 20 and does not complete it; the third one, whose tick is 20,
does. A follower uses `lead.last` as its barrier, and completes it if the first table has
(`lead.frontier` is not before it). So the two tables always agree, even if the process dies between
the commits: the batch is replayed, the first table has it already, and the follower does as before.

A query takes its job over with the first batch that it commits; an earlier query is refused from then on, and
so is one whose batches are not the next ones, or that began before a revision of its tables. Source: rules R4 to
R6, R10 and R20 of docs/consistency.md. Raises ConflictError for these, and what a commit raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from widetable.commit.barriers.barrier_plan import BarrierPlans
from widetable.commit.barriers.barrier_state import Member
from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.barriers.barrier_table import interval_of, tick_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError
from widetable.operations.barriers.barrier_writer import commit_or_rejoin, last_identifier
from widetable.operations.handle.barrier_scan import barrier_views, newest_revision
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.double_count import warn_of_new_query
from widetable.operations.writes.table_commit import append_messages
from widetable.runtime.machine_clock import now_millis
from widetable.write.commit_message import CommitMessage


@dataclass(frozen=True)
class JobBatch:
    """Describes one batch of a query. Only the number and the digest matter to a table under no barriers.

    Attributes
    ----------
    number : int
        Its number in the query, from 0.
    begin_millis : int
        When it was planned, epoch milliseconds.
    digest : str or None
        A text that identifies its content, equal when it is replayed.
    span : tuple of int or None
        For a derived job: the barriers (P, T] of its sources.
    watermark : int or None
        As in `Table.commit_append`.
    revision : int or None
        For a derived job: the revision in which its sources are read.
    is_first : bool
        Whether it is the first of its query that belongs to a barrier, whatever its number.
    lead : Member or None
        For a follower: the root's progress in its first table, after this batch.
    """

    number: int
    begin_millis: int
    digest: str | None = None
    span: tuple[int, int] | None = None
    watermark: int | None = None
    revision: int | None = None
    is_first: bool = False
    lead: Member | None = None


class JobWriter:
    """Commits the batches of one query into one table. For one thread; it keeps no resources open.

    Each process of the query makes its own object. The query joins the table with its first batch, so that a query
    that is only planned blocks nobody.

    Parameters
    ----------
    table : OpenTable
        The table, which is under barriers.
    job : str
        The name of the job.
    run : str
        The id of the query, equal after a restart from its checkpoint.
    columns : list of str or None
        The columns that the job writes besides the key. None: all.
    register : callable, default None
        As in `BarrierWriter`: called with the job, its columns and the run before the job joins. None: nothing is
        registered.
    user : str, default None
        The commit user. None: the run.

    Raises
    ------
    InvalidError
        The table is not under barriers.
    """

    def __init__(
        self,
        table: OpenTable,
        job: str,
        run: str,
        columns: Sequence[str] | None,
        register: Callable[[str, tuple[str, ...] | None, str], object] | None = None,
        user: str | None = None,
    ) -> None:
        self.table: Final = table
        self.interval_millis: Final = interval_of(table.schema, table.path)
        self._job = job
        self._run = run
        self._user = user
        self._columns = None if columns is None else tuple(columns)
        self._register = register
        # Whether this object has taken the job over; from then on it must stay a member.
        self._has_joined = False
        # The revision of the table when the query began: a root is refused after a later one.
        self._revision = newest_revision(table)

    @property
    def member(self) -> Member | None:
        """The job's progress in the newest snapshot of the table; None if the table does not wait for it."""
        return barrier_views(self.table).newest().members.get(self._job)

    def commit(self, messages: list[CommitMessage], batch: JobBatch) -> CommitResult:
        """Commit a batch once, however often it is replayed.

        Parameters
        ----------
        messages : list of CommitMessage
            Messages of writers with `named`; none for a batch without rows, which shows the progress of the job.
        batch : JobBatch
            The batch.

        Returns
        -------
        CommitResult
            What was committed.

        Raises
        ------
        InvalidError
            Another batch has the number, or the messages do not fit the table.
        ConflictError
            Another query has the job, the batch is not the next one, or a revision has begun.
        """
        self._take_over(batch)
        act, barrier = Act.WRITE_ALL, None
        if batch.span is not None:
            barrier = batch.span[1]
        elif batch.lead is not None:
            act = Act.WRITE_ALL if batch.lead.frontier >= batch.lead.last else Act.WRITE
            barrier = batch.lead.last
        tick = tick_of(batch.begin_millis, self.interval_millis)
        step = BarrierStep(
            act,
            self._job,
            self._run,
            tick,
            barrier,
            batch.span,
            batch.begin_millis,
            self._revision_of(batch),
            is_member=True,
        )
        by = Identity.of(self._user or self._run, batch.number, batch.digest)
        commit = partial(append_messages, self.table, messages, by, watermark=batch.watermark)
        return self._committed(commit, step)

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch that the table has, read now; None without one."""
        return last_identifier(self.table, self._run)

    def has(self, batch: JobBatch) -> bool:
        """Tell whether the table has a batch already.

        Parameters
        ----------
        batch : JobBatch
            The batch.

        Returns
        -------
        bool
            Whether its number and digest are committed.
        """
        committer = self.table._committer
        by = Identity.of(self._run, batch.number, batch.digest)
        return committer.replay_of(by, committer.refresh()) is not None

    def plans(self, revision: int | None) -> BarrierPlans:
        """Return the plans of the job, whose first table this is.

        Parameters
        ----------
        revision : int or None
            The revision of its tables. None: there was none.

        Returns
        -------
        BarrierPlans
            Which barriers its batches join.
        """
        return BarrierPlans(self.table._file_io, self.table._paths, self._job, revision or 0)

    def complete(self, barrier: int | None = None) -> CommitResult:
        """Declare that the table has all records of a root up to a barrier.

        Parameters
        ----------
        barrier : int, default None
            The barrier. None: that of the clock.

        Returns
        -------
        CommitResult
            What was committed.
        """
        tick = tick_of(now_millis(), self.interval_millis)
        step = BarrierStep(
            Act.COMPLETE,
            self._job,
            self._run,
            tick,
            barrier,
            revision=self._revision,
            is_member=True,
        )
        by = Identity.unnamed(self._job)
        return self._committed(partial(append_messages, self.table, [], by), step)

    def _committed(self, commit: Callable[..., CommitResult], step: BarrierStep) -> CommitResult:
        """Commit. If somebody has let the job leave meanwhile, it is registered again and joins with this commit."""
        return commit_or_rejoin(
            commit, step, is_waited_for=lambda: self.member is not None, register=self._registered
        )

    def _registered(self) -> None:
        if self._register is not None:
            self._register(self._job, self._columns, self._run)

    def _take_over(self, batch: JobBatch) -> None:
        """Take the job over for this query, before the first commit of this object.

        Only a first batch takes the name from another query. If the name was taken since, a later batch must not take
        it back: its commit meets the run of the other query, and is refused. The job is registered before it joins, so
        that a job that conflicts with another is refused before the table waits for it.
        """
        if self._has_joined:
            return
        member = self.member
        self._check_earlier_records(batch, member)
        is_first = batch.number == 0 or batch.is_first
        if member is None or (is_first and member.run != self._run):
            # The tables of a derived job say where it begins.
            if batch.span is None and self._user is None:
                warn_of_new_query(self.table, self._run, self._columns or self.table.schema.names)
            self._registered()
            revision = self._revision_of(batch)
            tick = tick_of(batch.begin_millis, self.interval_millis)
            step = BarrierStep(
                Act.JOIN, self._job, self._run, tick, span=batch.span, revision=revision
            )
            append_messages(self.table, [], Identity.unnamed(self._job), barrier=step)
        self._has_joined = True

    def _revision_of(self, batch: JobBatch) -> int | None:
        """Return the revision that the table must have. A root reads no tables, so it uses the one of its start."""
        return self._revision if batch.span is None else batch.revision

    def _check_earlier_records(self, batch: JobBatch, member: Member | None) -> None:
        """Raise ConflictError if the table lacks the earlier records of a derived job: it was made again, or is new to
        the job. A job that left may return, because the table has its commits.
        """
        if batch.span is None or not batch.span[0]:
            return
        is_new = member is None or member.at is None
        if is_new and last_identifier(self.table, self._run) is None:
            raise ConflictError(
                f"job {self._job!r}",
                found=f"records after barrier {batch.span[0]} of its sources, for {self.table.path}, "
                "which has no earlier ones",
                expected="all records from the beginning",
                action="Drop the job, make its tables again, and start with a new checkpoint.",
            )
