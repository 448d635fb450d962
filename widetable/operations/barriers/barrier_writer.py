"""A writer of a table under barriers: one name for one stream of commits, its columns, its barriers.

    w = catalog.writer("shop.users", "crm", ["city"])      the table waits for it from now on
    w.write(rows)          records of a barrier, which stays open
    w.complete()           the table has all of its records up to that barrier
    w.leave()              the table no longer waits for it

The effect, with barriers every 10 and the clock at 47:

    made                join                   the table waits for it from the complete barrier on, say 30
    write(rows)         label 40, stays open   the clock's barrier
    complete()          completes 40
    write(rows)         label 50               40 is complete: it takes no more records
    complete()          nothing                50 is ahead of the clock
    write(.., barrier=40)  label 50            as if 50 had been passed

If two processes use one name, one of them is refused and no record is lost:

    A  joins, run a        writes                            writes: ConflictError, another process
    B                               joins, run b    writes

A writer is registered before it joins (`writer_registration`), so that writers whose columns conflict are refused. All
other state is in the snapshots, so that readers of the table see it with the rows. The process that was made last under
a name owns it; an older one is refused from then on. A writer that somebody else has let leave is registered again
with its next commit. Raises ConflictError for a conflict with another writer, InvalidError for rows,
columns and barriers that do not fit, and what a commit raises.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from widetable.arguments import LARGEST, flag, items, names, whole_number
from widetable.commit.barriers.barrier_step import Act, BarrierStep, check_name, check_run
from widetable.commit.barriers.barrier_table import interval_of, tick_of
from widetable.commit.barriers.writer_registration import WriterRegistration
from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_result import CommitResult
from widetable.errors import ConflictError, InvalidError
from widetable.format.snapshot import COMMIT_KIND_APPEND
from widetable.operations.handle.barrier_scan import barrier_views, newest_revision
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages
from widetable.operations.writes.table_write import write_by
from widetable.runtime.machine_clock import now_millis
from widetable.runtime.not_pickled import not_pickled
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema
from widetable.storage.job_names import job_name
from widetable.write.commit_message import CommitMessage
from widetable.write.owned_columns import callers_columns, check_owned

# The barriers after the latest one must fit the format's numbers, too, so that the table can continue.
_LATEST: Final = LARGEST >> 1
# Registers a writer by its name, its columns (None: all) and its run; raises ConflictError if another job conflicts.
Register = Callable[[str, tuple[str, ...] | None, str], WriterRegistration]


class BarrierWriter:
    """One stream of commits into a table under barriers, known by its name.

    `Catalog.writer` makes it. It is for one thread, and keeps no resources open. The process that was made last under a
    name owns the name; an older one is refused from then on. As a context manager the writer leaves the
    table at the end of the block. If an error ends the block, the table goes on waiting for the writer.

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
        """Join the table, in a commit without files, unless the table waits for the writer already.

        columns: those that it writes besides the key, by their current names; None for all. They are remembered by
        field id, so the writer keeps a column that is renamed later. register: None for a writer that is not
        registered. The writer uses the current revision: after a later one each commit is refused, and a new writer
        must be made.
        """
        schema = table.schema
        self._interval = interval_of(schema, table.path)
        self._table = table
        self._name = job_name(name, "writer")
        self._named = None if columns is None else schema.chosen(names(columns, "columns"))
        check_owned(schema, self._named or (), callers_columns(schema))
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
        """The name of the writer in the table."""
        return self._name

    @property
    def frontier(self) -> int | None:
        """The barrier up to which the table has all its records, read now; None if the table does not wait for it."""
        member = barrier_views(self._table).newest().members.get(self._name)
        return None if member is None else member.frontier

    @property
    def last_identifier(self) -> int | None:
        """The identifier of its last commit that had one, read now; None without. A killed program continues there."""
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
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        written_columns: str | None = None,
    ) -> CommitResult:
        """Upsert rows in one commit, as `Table.write` does.

        The rows belong to the given barrier, or to the first one after it that this writer has not completed.
        A program that continues after `last_identifier` needs neither `digest` nor `replay`.

        Parameters
        ----------
        data
            As in `Table.write`.
        identifier : int, default None
            A number that grows from commit to commit of this writer, also after restarts of its program. A repeated
            one commits nothing. None: the commit is never a repeat.
        row_kind
            As in `Table.write`.
        barrier : int, default None
            The barrier, in epoch milliseconds: a positive multiple of the interval. None: that of the clock.
        complete : bool, default False
            Complete the barrier with these rows. If they belong to a later barrier, call `complete` instead.
        digest, replay, properties, watermark, written_columns
            As in `Table.write`. A watermark is that of this writer if the commit has an identifier.

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
            The data has a form that is not supported, or the table an option that this version does not honour.
        """
        step = self._step(Act.WRITE_ALL if flag(complete, "complete") else Act.WRITE, barrier)
        by = Identity.of(self._name, identifier, digest, replay)
        noted = partial(self._commit_rows, properties=properties, watermark=watermark)
        commit = partial(noted, step=step, by=by)
        rest = (row_kind, commit, written_columns, self._columns)
        return self._owned(partial(write_by, self._table, COMMIT_KIND_APPEND, data, by, *rest))

    def commit_append(
        self,
        messages: Iterable[CommitMessage],
        identifier: int | None = None,
        *,
        barrier: int | None = None,
        complete: bool = False,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
    ) -> CommitResult:
        """Commit the files of writers, those of `Table.new_writer` with `named`, as `Table.commit_append` does.

        Parameters
        ----------
        messages : iterable of CommitMessage
            The messages of the writers of all tasks.
        identifier, barrier, complete, properties, watermark
            As in `write`.

        Returns
        -------
        CommitResult
            What was committed; `committed` is False when nothing was: then nothing names the files.

        Raises
        ------
        InvalidError
            An item is no message, a barrier does not fit, or an identifier is that of another commit.
        ConflictError
            Another process has the name, another job writes the columns, or a revision took the table back.
        """
        messages = list(items(messages, CommitMessage, "messages"))
        step = self._step(Act.WRITE_ALL if flag(complete, "complete") else Act.WRITE, barrier)
        by = Identity.of(self._name, identifier)
        noted = partial(self._commit_rows, properties=properties, watermark=watermark)
        commit = partial(noted, messages, step=step, by=by)
        return self._owned(commit)

    def _owned(self, commit: Callable[[], CommitResult]) -> CommitResult:
        """Commit, and check that a commit that was made already is this process's."""
        try:
            result = commit()
        except InvalidError:
            self._check_run()  # the commit with that number may be another process's
            raise
        if not result.committed:
            self._check_run()
        return result

    # A repeated identifier commits nothing, so the commit did not check who owns the name. Without this check, a
    # process that was replaced would take the commit of its successor with that number for its own, and continue.
    def _check_run(self) -> None:
        """Raise ConflictError if another process has taken the name."""
        member = barrier_views(self._table).newest().members.get(self._name)
        if member is not None and self._has_joined:
            check_run(member, self._name, self._run)

    def _columns(self, schema: TableSchema) -> frozenset[str]:
        """Return the columns that the writer may write, by their current names. A writer of all columns may write those
        that were added since, too.
        """
        ids = self._field_ids
        return frozenset(f.name for f in schema.fields if ids is None or f.id in ids)

    def complete(self, barrier: int | None = None) -> CommitResult:
        """Declare that the table has all records of a barrier.

        If the barrier is complete already, nothing is committed. Rows that were written since then belong to the next
        barrier: call this again when the clock is in it.

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
            The barrier is not a positive multiple of the interval.
        ConflictError
            Another process has the name, another job writes these columns, or the tables were taken back by a
            revision since the writer was made.
        """
        return self._commit([], Act.COMPLETE, barrier)

    def leave(self) -> CommitResult:
        """Declare that there will be no more records.

        The table no longer waits for the writer, and shows its rows. A later writer of the name joins at the table's
        frontier.

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
        return self._commit_rows(messages, step=self._step(act, barrier), by=by)

    def _commit_rows(
        self,
        messages: list[CommitMessage],
        *,
        step: BarrierStep,
        by: Identity,
        **noted: Any,
    ) -> CommitResult:
        if step.act is Act.WRITE and not messages:
            step = replace(step, act=Act.JOIN)  # no barrier gets rows

        def register() -> None:
            self._release()
            self._registered(step.act)

        result = commit_or_rejoin(
            partial(append_messages, self._table, messages, by, **noted),
            step,
            is_waited_for=lambda: self.frontier is not None,
            register=register,
        )
        # This is certain only after the commit; during a commit the previous value counts.
        self._has_joined = step.act is not Act.LEAVE
        return result

    def _step(self, act: Act, barrier: int | None) -> BarrierStep:
        """Return what the commit does to the barriers. The clock is read here, before rows are written, so that a long
        write keeps its barrier if that is still open. The commit decides again after each snapshot of others.
        """
        self._registered(act)
        if barrier is not None:
            barrier = whole_number(barrier, "barrier", most=_LATEST)
        tick = tick_of(now_millis(), self._interval)
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


def commit_or_rejoin(
    commit: Callable[..., CommitResult],
    step: BarrierStep,
    *,
    is_waited_for: Callable[[], bool],
    register: Callable[[], object],
) -> CommitResult:
    """Commit for a writer. If somebody else has let a joined writer leave, it registers and joins again; registering
    detects whether another writer has its columns by now. commit: takes `barrier`.

        commit refused, the table waits for it    raise: another process has the name
        commit refused, it does not               register (raises if its columns are taken), commit and join

    The first commit was refused as a whole, so the second one has the same files. A second refusal is raised.
    """
    try:
        return commit(barrier=step)
    except ConflictError:
        if not step.is_member or is_waited_for():
            raise
    register()
    return commit(barrier=replace(step, is_member=False))


def last_identifier(table: OpenTable, user: str) -> int | None:
    """Return the identifier of a user's last commit that had one, read now.

    Parameters
    ----------
    table : OpenTable
        The table.
    user : str
        The commit user.

    Returns
    -------
    int or None
        The identifier; None without such a commit.
    """
    committer = table._committer
    last = last_of(users_of(committer.snapshots.latest(), committer.last_commits.load), user)
    return None if last is None else last.identifier


def value_ids(schema: TableSchema, columns: Collection[str] | None) -> frozenset[int] | None:
    """Return the field ids of the value columns among `columns`.

    None: all, including columns that are added later; a writer that names all of today's columns does not own those.
    """
    if columns is None:
        return None
    values = set(columns).difference(schema.primary_keys)
    return frozenset(field.id for field in schema.fields if field.name in values)
