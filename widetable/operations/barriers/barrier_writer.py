"""A writer of a table under barriers: one name for one stream of commits, its columns, its barriers.

    w = catalog.writer("shop.users", "crm", ["city"])      the table waits for it from now on
    w.write(rows)          records of a barrier that it goes on with
    w.complete()           all of its records up to that barrier are in
    w.leave()              nobody waits for it any more

What comes of it, with barriers every 10 and the clock at 47:

    made                join                   waited for from the barrier on that is complete, say 30
    write(rows)         label 40, stays open   the clock's barrier
    complete()          completes 40
    write(rows)         label 50               40 is complete: no record comes to it any more
    complete()          nothing                50 is ahead of the clock
    write(.., barrier=40)  label 50            as if 50 had been given

Two processes under one name, so that one of them is refused and none is lost:

    A  joins, run a        writes                            writes: ConflictError, another process
    B                               joins, run b    writes

Before it joins it is registered (`writer_registration`), so that writers whose columns are in each other's way are
refused. All else lies in the snapshots, so whoever reads the table sees it with the rows. The process that was made
last under a name has it; an older one is refused from then on. One that somebody else has let go is registered again
with its next commit. Raises ConflictError where another one is in the way, InvalidError for rows,
columns and barriers that do not fit, and what a commit raises.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from widetable.arguments import LARGEST, flag, names, whole_number
from widetable.commit.barriers.barrier_step import Act, BarrierStep, check_name, check_run
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.writer_registration import WriterRegistration
from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.format.snapshot import COMMIT_KIND_APPEND
from widetable.operations.handle.barrier_scan import barrier_views, newest_revision
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages
from widetable.operations.writes.table_write import write_by
from widetable.runtime.machine_clock import now_millis
from widetable.runtime.not_pickled import not_pickled
from widetable.schema.derived_options import check_not_derived
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.storage.job_names import job_name
from widetable.write.commit_message import CommitMessage

# The next barriers after it are whole numbers of the format, too: a table goes on, its newest rows are seen.
_LATEST: Final = LARGEST >> 1
# Of its name, its columns (None: all) and its run; raises ConflictError where another job is in the way.
Register = Callable[[str, tuple[str, ...] | None, str], WriterRegistration]


class BarrierWriter:
    """One stream of commits into a table under barriers, known by its name.

    `Catalog.writer` makes it. One thread uses it; it holds nothing open. The process that was made last under a name
    has the name; an older one is refused from then on. As a context manager it leaves the table at the end of the
    block. If an error ends the block, the table goes on waiting for the writer.

    Examples
    --------
    >>> import widetable as wt
    >>> options = {"widetable.barrier-interval": "1 s"}
    >>> columns = {"id": "BIGINT", "city": "STRING"}
    >>> catalog = wt.Catalog("warehouse")
    >>> visits = catalog.create_table("shop.visits", columns, primary_key=["id"], options=options)
    >>> writer = catalog.writer("shop.visits", "crm")
    >>> writer.write([{"id": 1, "city": "Oslo"}], identifier=1).rows
    1
    >>> writer.write([{"id": 1, "city": "Oslo"}], identifier=1).committed
    False
    >>> writer.complete().committed
    True
    >>> writer.frontier is None
    False
    """

    __module__ = "widetable"
    __reduce_ex__ = not_pickled

    def __init__(
        self,
        table: OpenTable,
        name: str,
        columns: Sequence[str] | None,
        register: Register | None = None,
    ) -> None:
        """Joins the table, in a commit without files, unless it is waited for already. register: None for a writer that
        nobody is to know of.

        columns: that it writes besides the key, by the names of now; None for all. They are kept
        by field id, so a column that is renamed later stays its own. Takes the revision of this
        moment: behind a later one each commit is refused, and a writer must be made anew.
        """
        schema = table.schema
        self._interval = interval_of(schema, table.path)
        self._table = table
        self._name = job_name(name, "writer")
        self._named = None if columns is None else schema.chosen(names(columns, "columns"))
        check_not_derived(schema, self._named or ())
        self._field_ids = value_ids(schema, self._named)
        self._run = str(uuid.uuid4())
        self._revision = newest_revision(table)
        check_name(self._name, self._run)
        self._register = register
        self._registration: WriterRegistration | None = None
        self._has_joined = False
        try:
            self._commit([], Act.JOIN, None)
        except BaseException:
            self._release()
            raise

    def __repr__(self) -> str:
        return f"BarrierWriter({self._name!r}, {self._table.path!r})"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self._name

    @property
    def frontier(self) -> int | None:
        """The barrier up to which all of its records are in, looked up; None when nobody waits for it."""
        member = barrier_views(self._table).newest().members.get(self._name)
        return None if member is None else member.frontier

    @property
    def last_identifier(self) -> int | None:
        """Of its last commit that had one, looked up; None without. Where a program goes on that was killed."""
        return last_identifier(self._table, self._name)

    def write(
        self,
        data: Any,
        identifier: int | None = None,
        row_kind: str = ROW_KIND_COLUMN,
        *,
        barrier: int | None = None,
        complete: bool = False,
        digest: str | None = None,
        replay: bool = False,
    ) -> CommitResult:
        """Upsert rows in one commit, as `Table.write` does.

        The rows belong to the given barrier, or to the first one after it that this writer has not completed.
        A program that begins behind `last_identifier` needs neither `digest` nor `replay`.

        Parameters
        ----------
        data
            As in `Table.write`.
        identifier : int, default None
            A number that grows from commit to commit of this writer, in all lives of its program. One that comes
            again commits nothing. None: the commit counts each time.
        row_kind
            As in `Table.write`.
        barrier : int, default None
            The barrier, in epoch milliseconds: a positive multiple of the interval. None: that of the clock.
        complete : bool, default False
            With these rows all of that barrier is in, unless they belong to a later one: then call `complete`.
        digest, replay
            As in `Table.write`.

        Returns
        -------
        CommitResult
            What was committed; `committed` is False when nothing was.

        Raises
        ------
        InvalidError
            A column, value or barrier does not fit, or an identifier is that of another commit.
        ConflictError
            Another process has the name, another job writes the columns, or a revision took the table back.
        UnsupportedError
            The data has a form that is not taken, or the table an option that this version does not honour.

        """
        act = Act.WRITE_ALL if flag(complete, "complete") else Act.WRITE
        asked = self._asked(act, barrier)
        by = Identity.of(self._name, identifier, digest, replay)
        commit = partial(self._commit_rows, asked=asked, by=by)
        kind = COMMIT_KIND_APPEND
        try:
            result = write_by(self._table, kind, data, by, row_kind, commit, self._columns)
        except InvalidError:
            self._check_place()  # the commit with that number may be another process's
            raise
        if not result.committed:
            self._check_place()
        return result

    # A repeated identifier commits nothing, so the commit did not look who has the name: a
    # process that was replaced would take what its successor has written under the number for
    # its own, and go on.
    def _check_place(self) -> None:
        """Refuse a writer whose name another process has by now."""
        member = barrier_views(self._table).newest().members.get(self._name)
        if member is not None and self._has_joined:
            check_run(member, self._name, self._run)

    def _columns(self, schema: TableSchema) -> frozenset[str]:
        """That it may write, by the names that they have by now; of one that writes all, all that are there by now."""
        ids = self._field_ids
        owned = (field.name for field in schema.fields if ids is None or field.id in ids)
        return frozenset((*schema.primary_keys, *owned))

    def complete(self, barrier: int | None = None) -> CommitResult:
        """Say that all records of a barrier are in.

        Nothing is committed where that was said before. Rows that were written since then belong to the next
        barrier, which is complete when the clock is in it and this is called again.

        Parameters
        ----------
        barrier : int, default None
            The barrier, in epoch milliseconds: a positive multiple of the interval. None: that of the clock.

        Returns
        -------
        CommitResult
            What was committed; `committed` is False when nothing was.

        Raises
        ------
        InvalidError
            The barrier is none.
        ConflictError
            Another process has the name, another job writes these columns, or the tables were taken back by a
            revision since the writer was made.
        """
        return self._commit([], Act.COMPLETE, barrier)

    def leave(self) -> CommitResult:
        """Say that there will be no records.

        The table goes on without the writer and shows its rows. Whoever writes again under the name joins where
        the table is then.

        Returns
        -------
        CommitResult
            What was committed.

        Raises
        ------
        ConflictError
            Another process has the name, or the tables were taken back by a revision since the writer was made.
        """
        left = self._commit([], Act.LEAVE, None)
        self._release()
        return left

    def __enter__(self) -> BarrierWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave the table; behind an error the table goes on waiting for the writer, so that no barrier is complete
        without its records.
        """
        if kind is None and self._has_joined:
            self.leave()
        self._release()

    def _release(self) -> None:
        if self._registration is not None:
            self._registration.release()
            self._registration = None

    def _commit(self, messages: list[CommitMessage], act: Act, barrier: int | None) -> CommitResult:
        by = Identity.unnamed(self._name)
        return self._commit_rows(messages, asked=self._asked(act, barrier), by=by)

    def _commit_rows(
        self, messages: list[CommitMessage], *, asked: BarrierStep, by: Identity
    ) -> CommitResult:
        if asked.act is Act.WRITE and not messages:
            asked = replace(asked, act=Act.JOIN)  # no rows: no barrier gets any

        def register() -> None:
            self._release()
            self._registered(asked.act)

        result = committed_or_back(
            partial(append_messages, self._table, messages, by),
            asked,
            is_waited_for=lambda: self.frontier is not None,
            register=register,
        )
        # Known for sure only now; while a commit is under way it counts as what it was before.
        self._has_joined = asked.act is not Act.LEAVE
        return result

    def _asked(self, act: Act, barrier: int | None) -> BarrierStep:
        """What the commit is to do. The clock is read here, before rows are written: a write that takes long keeps its
        barrier, if that is still open then; the commit decides it anew behind each snapshot that
        comes between.
        """
        self._registered(act)
        if barrier is not None:
            barrier = whole_number(barrier, "barrier", most=_LATEST)
        tick = now_millis() // self._interval * self._interval
        return BarrierStep(
            act,
            self._name,
            self._run,
            tick,
            barrier,
            revision=self._revision,
            is_member=self._has_joined,
            is_derived=self._registration is not None and bool(self._registration.job.sources),
        )

    def _registered(self, act: Act) -> None:
        if act is not Act.LEAVE and self._registration is None and self._register is not None:
            self._registration = self._register(self._name, self._named, self._run)


def committed_or_back(
    commit: Callable[..., CommitResult],
    asked: BarrierStep,
    *,
    is_waited_for: Callable[[], bool],
    register: Callable[[], object],
) -> CommitResult:
    """A commit of a writer. One that had joined, and that somebody else has let go since, is registered, and joins,
    again: who has its columns by now is told by that. commit: takes `barrier`.

        commit refused, it is waited for    another process has the name: raised
        commit refused, it is not           register (raises where its columns are taken), commit as one that joins

    The first commit was refused as a whole, so the second has the same files. One more refusal
    is raised.
    """
    try:
        return commit(barrier=asked)
    except ConflictError:
        if not asked.is_member or is_waited_for():
            raise
    register()
    return commit(barrier=replace(asked, is_member=False))


def last_identifier(table: OpenTable, user: str) -> int | None:
    """Of the last commit of a user that had one, looked up; None without."""
    committer = table._committer
    last = last_of(users_of(committer.snapshots.latest(), committer.last_commits.load), user)
    return None if last is None else last.identifier


def value_ids(schema: TableSchema, columns: Collection[str] | None) -> frozenset[int] | None:
    """Of the value columns among these. None: all, those that are added later, too, which are not
    those of a writer that names all of today's.
    """
    if columns is None:
        return None
    wanted = set(columns).difference(schema.primary_keys)
    return frozenset(field.id for field in schema.fields if field.name in wanted)


def let_leave(table: OpenTable, name: str) -> CommitResult:
    """Say for a writer that has ended that there will be no records. Raises NotFoundError where nobody waits for it,
    ConflictError where it came back meanwhile.
    """
    members = barrier_views(table).newest().members
    member = members.get(name)
    if member is None:
        raise nobody_waits_for(name, table.path, members)
    asked = BarrierStep(Act.LEAVE, name, member.run)
    return append_messages(table, [], Identity.unnamed(name), barrier=asked)


def nobody_waits_for(name: str, table: str, members: Iterable[str]) -> NotFoundError:
    """Of a writer that is none of those that the table waits for."""
    return NotFoundError(
        f"writer {name!a}",
        found=f"no such writer that {table} waits for",
        expected=f"one of {', '.join(sorted(members)) or 'none'}",
        action="Correct the name, or do nothing: it has left.",
    )
