"""Keeps a table equal to the join of two others, with no state but the tables: one round at a time.

    read the joined table ─► pin both sources ─► rows that differ ─► look up old and new ─► commit the difference
          (o, round n)           (a, b)          since (a0, b0)                              with (a, b), as n + 1

The law: at each commit of the joined table with properties (a, b), its rows are those of A@a joined with B@b. Why it
holds whoever else is at work stands in docs/decisions/0027-derived-tables-are-kept-by-difference.md. Memory: the keys
that changed since the last round, and the rows of a piece of them.

Raises InvalidError and UnsupportedError for a definition that does not fit the tables, InvalidError for a join key with
too many rows, NotFoundError for a source that is gone, and what lookups, scans and commits raise. A round that another
joiner was faster with raises nothing.

Why the joined table is read before the sources are pinned:

    slow    pins a = 10                                  reads o = 6 (n = 4)    commits 5 of a = 10: back in time
    fast                 pins a = 12, commits 4 (o = 6)

    slow    reads o = 5 (n = 3)    pins a = 10                                  commits 4: refused, it is taken
    fast                                        reads o = 5, pins a = 12, commits 4

Killed before the commit, a round leaves files that nothing names. Killed behind it, consumers
still hold the snapshots of the round before, which is more than need be; the next round moves
them on, even if it has nothing else to do.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.indexes.index_lookup import IndexView, index_for
from widetable.derive.indexes.index_table import feed_index
from widetable.derive.joins.join_difference import JoinDifference
from widetable.derive.joins.join_progress import (
    JOIN_USER,
    ColumnIds,
    JoinProgress,
    fingerprint,
    is_sound,
    joined_column_ids,
    keep_snapshots,
    last_round,
)
from widetable.derive.joins.joined_plan import (
    JoinDefinition,
    JoinedPlan,
    KeyWay,
    check_joined,
    definition_of,
    join_plan,
)
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import neighbour
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import any_writer
from widetable.schema import join_options
from widetable.schema.row_kind import TEXTS, UPDATE_BEFORE
from widetable.schema.table_schema import ROW_KIND_COLUMN
from widetable.write.commit_message import CommitMessage

LEFT_PROPERTY: Final = "join.left"
RIGHT_PROPERTY: Final = "join.right"
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class JoinRound:
    """What a round did. left_snapshot, right_snapshot: which the joined table now holds the join of, 0 for a table
    without one. rows_added: that are new or changed, rows_removed: that are gone. snapshot_id: what it committed, None
    when both tables were as before. gave_way: another joiner was at it; nothing was done.
    """

    __module__ = "widetable"

    left_snapshot: int = 0
    right_snapshot: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    snapshot_id: int | None = None
    gave_way: bool = False


_GAVE_WAY: Final = JoinRound(gave_way=True)


class Joining(NamedTuple):
    """ids: of the columns, read before any row. base: the joined table's newest snapshot, read before anything else.
    number: of the last round in it. done: what that round did, as far as it still holds; None: begin from nothing.
    tables: left, right, joined.
    """

    plan: JoinedPlan
    ids: ColumnIds
    tables: tuple[OpenTable, OpenTable, OpenTable]
    base: Snapshot | None
    number: int
    done: JoinProgress | None

    @property
    def base_id(self) -> int:
        return 0 if self.base is None else self.base.id


def join_round(out: OpenTable) -> JoinRound | None:
    """Bring a joined table to the newest snapshots of its sources. None for a table that holds no join.

    Where these are the snapshots of the last round it takes no lease, and writes nothing but
    what a round that was killed left undone. The lease spares work; what keeps two joiners
    apart is the number of the round.
    """
    definition = definition_of(out.schema)
    if definition is None:
        return None
    joining = joining_of(out, definition)
    left, right, _ = joining.tables
    newest = tuple(table._committer.snapshots.latest_id() or 0 for table in (left, right))
    done = joining.done
    if done is not None and newest == (done.left_id, done.right_id):
        keep_snapshots(joining.tables, (*newest, done.read_id))
        return JoinRound(*newest)
    with held_lease(out._state(), path=out._paths.join_lease) as is_ours:
        return _round(joining) if is_ours else _GAVE_WAY


def joining_of(out: OpenTable, definition: JoinDefinition) -> Joining:
    """What a round begins with.
    Only metadata is read; the audit asks for it, too.

    The ids of the columns are taken before any row: an alteration in between shows as a
    fingerprint that does not fit in the next round, which then begins from nothing.
    """
    base = out._committer.snapshots.latest()
    left = neighbour(out, definition.left, f"option {join_options.LEFT.key!r}")
    right = neighbour(out, definition.right, f"option {join_options.RIGHT.key!r}")
    schema, of_left, of_right = out.schema, left.schema, right.schema
    plan = join_plan(definition, of_left, of_right, schema.names)
    check_joined(plan, schema)
    ids = joined_column_ids(plan, of_left, of_right, schema)
    number, done = last_round(out, base)
    tables = (left, right, out)
    if base is None or done is None or not is_sound(done, plan, ids, tables, base):
        done = None
    return Joining(plan, ids, tables, base, number, done)


def _round(joining: Joining) -> JoinRound:
    """Holds o, then (a0, b0), then (a, b): all five are looked up in, and none may expire
    meanwhile.

    The fingerprint is of the pinned snapshots, not of the newest ones at its end.
    """
    left, right, out = joining.tables
    with contextlib.ExitStack() as stack:
        try:
            if joining.base is not None:
                stack.enter_context(held(out._state(), joining.base_id))
        except NotFoundError:  # somebody has committed, and expired it
            return _GAVE_WAY
        done = _held_progress(joining, stack)
        plan = joining.plan
        on = plan.definition
        try:
            (a, a_index), (b, b_index) = (
                _pinned(stack, left, plan.left_way, on.left_on, plan.left_columns),
                _pinned(stack, right, plan.right_way, on.right_on, plan.asked_of_right),
            )
        except ConflictError:
            return _GAVE_WAY
        a_id, b_id = (0 if snapshot is None else snapshot.id for snapshot in (a, b))
        difference = JoinDifference(
            plan, joining.tables, (a_id, b_id, joining.base_id), (a_index, b_index)
        )
        stack.callback(difference.close)
        since = None if done is None else (done.left_id, done.right_id)
        try:
            messages, counts = _written(out, difference.pieces(since))
        except DamagedError as damage:  # of rows of the last round, which a repair may have left
            if since is None:
                raise
            warn(
                _log,
                WarningCode.DERIVED_COMPARED_WHOLE,
                "the join %s is compared from the first row to the last: %s",
                out,
                damage,
            )
            messages, counts = _written(out, difference.pieces(None))
        progress = JoinProgress(
            joining.number + 1, a_id, b_id, joining.base_id, fingerprint(plan, joining.ids, a, b)
        )
        return _committed(joining, messages, progress, counts)


def _pinned(
    stack: contextlib.ExitStack,
    table: OpenTable,
    way: KeyWay,
    on: Sequence[str],
    columns: Sequence[str],
) -> tuple[Snapshot | None, IndexView | None]:
    """The newest snapshot, or the newest one that the index knows, which is fed for it; None without any. Raises
    ConflictError while somebody else feeds it for the first time.
    """
    if way is not KeyWay.INDEX:
        return stack.enter_context(held_newest(table._state(), table._committer)), None
    if table._committer.snapshots.latest_id() is None:
        return None, None  # also when it gets its first one now: no index knows that
    option = index_for(table, on)
    fed = feed_index(table, option)
    try:
        view = stack.enter_context(contextlib.closing(IndexView(table, option, columns)))
    except NotFoundError as missing:
        if fed is not None:
            raise
        raise ConflictError(
            missing.subject,
            found="an index that somebody else is feeding",
            expected="one that fits a snapshot",
            action="Join again when it is fed.",
        ) from missing
    return table._committer.snapshots.load(view.snapshot_id), view


def _held_progress(joining: Joining, stack: contextlib.ExitStack) -> JoinProgress | None:
    """What the last round did, where the snapshots that it was made of are kept.

    From here on the stack holds them. Else None: rows before the change cannot be looked up, so
    all rows are compared.
    """
    left, right, out = joining.tables
    done = joining.done
    try:
        if done is not None:
            for table, id in ((left, done.left_id), (right, done.right_id)):
                if id:
                    stack.enter_context(held(table._state(), id))
    except NotFoundError:
        done = None
    if done is None and joining.base is not None:
        _log.info("the join %s is compared with its tables from the first row to the last", out)
    return done


def _written(
    out: OpenTable, differences: Iterable[pa.Table]
) -> tuple[list[CommitMessage], tuple[int, int]]:
    """The files of all pieces, and how many rows they add and remove. Nothing is left behind when one raises."""
    added = removed = 0
    with any_writer(out, [*out.schema.names, ROW_KIND_COLUMN]) as writer:
        for rows in differences:
            if rows.num_rows:
                kinds = rows.column(ROW_KIND_COLUMN)
                adds = pc.sum(pc.is_in(kinds, value_set=pa.array(["+I", "+U"]))).as_py()
                added += adds
                befores = pc.sum(pc.equal(kinds, TEXTS[UPDATE_BEFORE])).as_py()
                removed += rows.num_rows - adds - befores
                writer.write(rows)
        return writer.finish(), (added, removed)


def _committed(
    joining: Joining, messages: list[CommitMessage], progress: JoinProgress, counts: tuple[int, int]
) -> JoinRound:
    """All files in one commit, also none: (a, b) moves on.

        ConflictError                         somebody wrote keys of it since o: give way
        InvalidError, the number has moved    another joiner was faster, with another digest: give way
        InvalidError, it has not              the commit itself is wrong: raised
        not committed                         just this round is in already, by another joiner

    Other errors leave the files: a commit of which one is not told may be in.
    """
    out = joining.tables[-1]
    by = Identity.of(JOIN_USER, progress.identifier, progress.digest)
    properties = {
        LEFT_PROPERTY: str(progress.left_id),
        RIGHT_PROPERTY: str(progress.right_id),
    }
    try:
        result = append_messages(
            out, messages, by, properties=properties, read_snapshot_id=joining.base_id
        )
    except (ConflictError, InvalidError) as error:
        discard(out, messages)
        if isinstance(error, InvalidError) and _newest_number(out) == joining.number:
            raise
        _log.info("round %d of the join %s gave way: %s", progress.identifier, out, error)
        return _GAVE_WAY
    if not result.committed:
        discard(out, messages)
        return _GAVE_WAY
    keep_snapshots(joining.tables, (progress.left_id, progress.right_id, progress.read_id))
    return JoinRound(progress.left_id, progress.right_id, *counts, result.snapshot_id)


def _newest_number(out: OpenTable) -> int:
    return last_round(out, out._committer.snapshots.latest())[0]
