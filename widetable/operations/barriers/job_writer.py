"""A job's commits into one of its tables, batch by batch: of a query that numbers its batches and replays the last one.

    root        its records belong to the barrier that the clock is in when the batch is planned, and complete it; those
                of a second batch within it to the next one, which stays open
    derived     those of the sources after P up to T belong to T, and complete it
    follower    another table of a root: its records belong to the barrier that they belong to in the first table

Interval 10 s, a root that plans at 12 s, 17 s and 21 s: labels 10, 20, 20. The second batch of
the interval is put off to barrier 20 and does not complete it; the third one, whose tick is 20,
does. A follower takes `lead.last` for its barrier and completes it where the first table has
(`lead.frontier` is not behind it), so the two never part, also where the process dies between
them: the batch comes again, is in in the first table, and the follower does as before.

A query takes its job over with the first batch that it commits; one that was there before is refused from then on, and
so is one whose batches are not those that come next, or that began before a revision of its tables. Source: rules R4 to
R6, R10 and R20 of docs/consistency.md. Raises ConflictError for these, and what a commit raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from widetable.commit.barriers.barrier_state import Member
from widetable.commit.barriers.barrier_step import Act, BarrierStep
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError
from widetable.operations.barriers.barrier_writer import committed_or_back, last_identifier
from widetable.operations.handle.barrier_scan import barrier_views, newest_revision
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.double_count import warn_of_new_query
from widetable.operations.writes.table_commit import append_messages
from widetable.runtime.machine_clock import now_millis
from widetable.write.commit_message import CommitMessage


@dataclass(frozen=True)
class JobBatch:
    """number: by the query, from 0. begin_millis: when it was planned, epoch. digest: what it is made of, the same when
    it comes again. span: of a derived job, the barriers (P, T] of its sources. watermark: as of `commit_append`.
    revision: of a derived job, the one of its tables that its sources are read in.
    is_first: of its query, whatever its number: those before it belonged to no barrier.
    """

    number: int
    begin_millis: int
    digest: str | None = None
    span: tuple[int, int] | None = None
    watermark: int | None = None
    revision: int | None = None
    is_first: bool = False


class JobWriter:
    """Of one query. run: its id, the same when it is started again from its checkpoint. columns: that the job writes
    besides the key, None for all. register: see `BarrierWriter`.

    One thread uses it; it holds nothing open. Made anew in each process of the query, which joins
    the table no sooner than with its first batch: a query that is only planned is in nobody's
    way. A table without barriers is an InvalidError.
    """

    def __init__(
        self,
        table: OpenTable,
        job: str,
        run: str,
        columns: Sequence[str] | None,
        register: Callable[[str, tuple[str, ...] | None, str], object] | None = None,
    ) -> None:
        self.table: Final = table
        self._interval = interval_of(table.schema, table.path)
        self._job = job
        self._run = run
        self._columns = None if columns is None else tuple(columns)
        self._register = register
        # Whether this object has taken the job over; from then on it is an error to be a member no more.
        self._is_in = False
        # That the table had when the query began: a root is refused if it is taken back meanwhile.
        self._revision = newest_revision(table)

    @property
    def member(self) -> Member | None:
        """How far the job is in the table, as its newest snapshot says; None when nobody waits for it."""
        return barrier_views(self.table).newest().members.get(self._job)

    def commit(
        self,
        messages: list[CommitMessage],
        batch: JobBatch,
        lead: Member | None = None,
        user: str | None = None,
    ) -> CommitResult:
        """Once, however often the batch comes. lead: how far the root is in its first table, behind this batch. user:
        under which name it is known that the batch is in, by default its run (`has` and `last_batch` ask for the run).

        messages: of writers with `named`; none for a batch without rows, which is committed all
        the same, as it says how far the job is.
        """
        self._take_over(batch, is_named=user is not None)
        act, barrier = Act.WRITE_ALL, None
        if batch.span is not None:
            barrier = batch.span[1]
        elif lead is not None:
            act = Act.WRITE_ALL if lead.frontier >= lead.last else Act.WRITE
            barrier = lead.last
        tick = batch.begin_millis // self._interval * self._interval
        asked = BarrierStep(
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
        by = Identity.of(user or self._run, batch.number, batch.digest)
        commit = partial(append_messages, self.table, messages, by, watermark=batch.watermark)
        return self._committed(commit, asked)

    @property
    def last_batch(self) -> int | None:
        """The number of its last batch that the table has, looked up; None without."""
        return last_identifier(self.table, self._run)

    def has(self, batch: JobBatch) -> bool:
        """Whether the table has the batch already."""
        committer = self.table._committer
        by = Identity.of(self._run, batch.number, batch.digest)
        return committer.replay_of(by, committer.refresh()) is not None

    def complete(self, barrier: int | None = None) -> CommitResult:
        """Say that a root has no records up to a barrier that are not in; None: up to the one that the clock is in."""
        tick = now_millis() // self._interval * self._interval
        asked = BarrierStep(
            Act.COMPLETE,
            self._job,
            self._run,
            tick,
            barrier,
            revision=self._revision,
            is_member=True,
        )
        by = Identity.unnamed(self._job)
        return self._committed(partial(append_messages, self.table, [], by), asked)

    def _committed(self, commit: Callable[..., CommitResult], asked: BarrierStep) -> CommitResult:
        """Where somebody has let the job leave meanwhile it is registered again, and joins with this commit."""

        def register() -> None:
            if self._register is not None:
                self._register(self._job, self._columns, self._run)

        return committed_or_back(
            commit, asked, is_waited_for=lambda: self.member is not None, register=register
        )

    def _take_over(self, batch: JobBatch, *, is_named: bool) -> None:
        """Before the first commit of this object: the job is this query's from now on.

        Only a first batch takes the name from another query. A later one of a query whose name
        was taken since must not take it back: its commit finds the other's run, and is refused.
        Registered before it joins: a job that is in another's way is refused before the table
        waits for it.
        """
        if self._is_in:
            return
        member = self.member
        self._check_has_all_before(batch, member)
        is_first = batch.number == 0 or batch.is_first
        if member is None or (is_first and member.run != self._run):
            if batch.span is None and not is_named:  # a derived job begins where its tables say
                warn_of_new_query(self.table, self._run, self._columns or self.table.schema.names)
            if self._register is not None:
                self._register(self._job, self._columns, self._run)
            revision = self._revision_of(batch)
            tick = batch.begin_millis // self._interval * self._interval
            asked = BarrierStep(
                Act.JOIN, self._job, self._run, tick, span=batch.span, revision=revision
            )
            append_messages(self.table, [], Identity.unnamed(self._job), barrier=asked)
        self._is_in = True

    def _revision_of(self, batch: JobBatch) -> int | None:
        """That the table must have: a root, which reads no tables, goes by the one that it began with."""
        return self._revision if batch.span is None else batch.revision

    def _check_has_all_before(self, batch: JobBatch, member: Member | None) -> None:
        """A derived job goes on only where its records are: a table that was made again, or that the job had not, has
        none of those before. A job that left may come back: its commits are known.
        """
        if batch.span is None or not batch.span[0]:
            return
        is_new = member is None or member.at is None
        if is_new and last_identifier(self.table, self._run) is None:
            raise ConflictError(
                f"job {self._job!r}",
                found=f"records after barrier {batch.span[0]} of its sources, for {self.table.path}, "
                "which has none before",
                expected="all of them from the beginning on",
                action="Drop the job, make its tables again, and start with a new checkpoint.",
            )
