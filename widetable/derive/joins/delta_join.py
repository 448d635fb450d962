"""Keeps a table equal to the join of two others, one round at a time, with no state but the tables.

    read the joined table ─► pin both sources ─► rows that differ ─► look up old and new ─► commit the difference
          (o, round n)           (a, b)          since (a0, b0)                              with (a, b), as n + 1

The law: at each commit of the joined table with properties (a, b), its rows are those of A@a joined with B@b. It holds
whatever other processes do: see docs/decisions/0027-derived-tables-are-kept-by-difference.md. Memory: the keys that
changed since the last round, and the rows of a piece of them.

Raises InvalidError and UnsupportedError for a definition that does not fit the tables, InvalidError for a join key with
too many rows, NotFoundError for a missing source, and what lookups, scans and commits raise. A round that another
joiner finished first raises nothing.

Why the joined table is read before the sources are pinned:

    slow    pins a = 10                                  reads o = 6 (n = 4)    commits 5 of a = 10: back in time
    fast                 pins a = 12, commits 4 (o = 6)

    slow    reads o = 5 (n = 3)    pins a = 10                                  commits 4: refused, it is taken
    fast                                        reads o = 5, pins a = 12, commits 4

A round that is killed before its commit leaves orphans. After a kill that follows the commit, consumers still hold the
snapshots of the round before, which is more than necessary; the next round moves them, even if it has nothing else to
do.
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
    KeyAccess,
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
    """What one round of a delta join did.

    Attributes
    ----------
    left_snapshot, right_snapshot : int
        The snapshots whose join the table now holds; 0 for a table without snapshots.
    rows_added : int
        How many rows are new or changed.
    rows_removed : int
        How many rows were removed.
    snapshot_id : int or None
        The commit of the round. None: both tables were as before.
    gave_way : bool
        Whether another joiner was at work, so that this round did nothing.
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
    """The state with which a round begins.

    ids: the column ids, read before any row. tables: left, right, joined. base: the joined table's newest snapshot,
    read before anything else. number: the last round in it. done: the progress of that round if it is still valid,
    else None: the round compares all rows.
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
    """Bring a joined table to the newest snapshots of its sources. Return None for a table that holds no join.

    If the sources are unchanged since the last round, it takes no lease, and only finishes what a killed round left
    undone. The lease only saves work: the number of the round keeps two joiners apart.
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
    """Return the state with which a round begins. Only metadata is read; the audit uses it, too.

    The column ids are read before any row. So after an alteration in between, the fingerprint does not fit in the next
    round, which then compares all rows.
    """
    base = out._committer.snapshots.latest()
    left = neighbour(out, definition.left, f"option {join_options.LEFT.key!r}")
    right = neighbour(out, definition.right, f"option {join_options.RIGHT.key!r}")
    schema, left_schema, right_schema = out.schema, left.schema, right.schema
    plan = join_plan(definition, left_schema, right_schema, schema.names)
    check_joined(plan, schema)
    ids = joined_column_ids(plan, left_schema, right_schema, schema)
    number, done = last_round(out, base)
    tables = (left, right, out)
    if base is None or done is None or not is_sound(done, plan, ids, tables, base):
        done = None
    return Joining(plan, ids, tables, base, number, done)


def _round(joining: Joining) -> JoinRound:
    """Run one round. It holds o, then (a0, b0), then (a, b): it looks up rows in all five, so none may expire.

    The fingerprint covers the pinned snapshots, not the newest ones at its end.
    """
    left, right, out = joining.tables
    with contextlib.ExitStack() as stack:
        try:
            if joining.base is not None:
                stack.enter_context(held(out._state(), joining.base_id))
        except NotFoundError:  # another process has committed, and the snapshot has expired
            return _GAVE_WAY
        done = _held_progress(joining, stack)
        plan = joining.plan
        on = plan.definition
        try:
            (a, a_index), (b, b_index) = (
                _pinned(stack, left, plan.left_access, on.left_on, plan.left_columns),
                _pinned(stack, right, plan.right_access, on.right_on, plan.right_read_columns),
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
        except DamagedError as damage:  # in rows of the last round: a repair may leave that behind
            if since is None:
                raise
            warn(
                _log,
                WarningCode.DERIVED_COMPARED_FULLY,
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
    way: KeyAccess,
    on: Sequence[str],
    columns: Sequence[str],
) -> tuple[Snapshot | None, IndexView | None]:
    """Pin the newest snapshot, or the newest one that the index fits after it is fed; return None if there is none.

    Raises ConflictError while another feeder feeds the index for the first time.
    """
    if way is not KeyAccess.INDEX:
        return stack.enter_context(held_newest(table._state(), table._committer)), None
    if table._committer.snapshots.latest_id() is None:
        return None, None  # no index fits a first snapshot that is committed from here on
    option = index_for(table, on)
    fed = feed_index(table, option)
    try:
        view = stack.enter_context(contextlib.closing(IndexView(table, option, columns)))
    except NotFoundError as missing:
        if fed is not None:
            raise
        raise ConflictError(
            missing.subject,
            found="an index that another process is feeding for the first time",
            expected="an index that fits a snapshot",
            action="Run the join again when the index is fed.",
        ) from missing
    return table._committer.snapshots.load(view.snapshot_id), view


def _held_progress(joining: Joining, stack: contextlib.ExitStack) -> JoinProgress | None:
    """Return the progress of the last round if its snapshots still exist; from here on the stack holds them.

    Otherwise return None: the rows before the change cannot be looked up, so all rows are compared.
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
    """Write all pieces; return their files, and the numbers of rows added and removed. An error leaves no files."""
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
    """Commit all files at once, even if there are none: (a, b) moves on.

        ConflictError                         another commit wrote keys of it since o: give way
        InvalidError, the number has moved    another joiner was first, with another digest: give way
        InvalidError, it has not              the commit itself is wrong: raised
        not committed                         another joiner has published just this round

    Other errors leave the files, because the commit may have been published.
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
