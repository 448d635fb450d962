"""The progress of a joined table. Its own commits record it, so rows and progress are published together.

On disk: never change. A round is commit number n of the user `join`, with the digest

    <left snapshot id>.<right snapshot id>.<snapshot id of the joined table that it was made from>.<fingerprint>

0 for a table that had no snapshot. The fingerprint covers the definition, the columns with their field ids, and the
two snapshots themselves. If it differs, tables or columns were created again or altered, and the progress is unknown.
It is also unknown if a commit other than the join's or a compaction came since. Consumers keep what the next round
needs; they do not record the progress.

Raises what reading snapshots raises, StorageError.

    OUT    5 round n = 3: "8.2.4.<..>"    6 compaction    7 round n = 4: "9.2.6.<..>"    8 compaction

At 8 the last round is 4, made from 6. Snapshot 7 is its own and 8 a compaction, so OUT is the join of A@9 and B@2. An
append of another client as 8 would make that unknown.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from widetable.commit.snapshots.committed import last_of, users_of
from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.changes.column_ids import FieldIds, column_ids
from widetable.derive.changes.fingerprint import fingerprint_of, snapshot_facts
from widetable.derive.joins.joined_plan import JoinedPlan
from widetable.errors import NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import join_options
from widetable.schema.table_schema import TableSchema
from widetable.write.table_state import TableState

JOIN_USER: Final = "join"

ColumnIds: TypeAlias = tuple[dict[str, FieldIds], ...]


class JoinProgress(NamedTuple):
    """The record of the last round. identifier: its number.

    left_id, right_id: the joined snapshots, 0 for none. read_id: the joined table's snapshot with which the join was
    compared, 0 for none.
    """

    identifier: int
    left_id: int
    right_id: int
    read_id: int
    fingerprint: str

    @property
    def digest(self) -> str:
        return f"{self.left_id}.{self.right_id}.{self.read_id}.{self.fingerprint}"


def joined_column_ids(
    plan: JoinedPlan, left: TableSchema, right: TableSchema, out: TableSchema
) -> ColumnIds:
    """Return the ids of the columns of all three tables that a round reads or writes."""
    on = plan.definition
    return (
        column_ids(left, [*plan.left_columns, *on.left_on]),
        column_ids(right, plan.right_read_columns),
        column_ids(out, plan.columns.names),
    )


def last_round(out: OpenTable, base: Snapshot | None) -> tuple[int, JoinProgress | None]:
    """Return the number of the last round as of `base`, 0 before the first, and its progress, None if not recorded."""
    if base is None:
        return 0, None
    last = last_of(users_of(base, out._committer.last_commits.load), JOIN_USER)
    if last is None:
        return 0, None
    numbers = (last.digest or "").split(".")
    if len(numbers) != len(JoinProgress._fields) - 1 or not all(map(str.isdecimal, numbers[:3])):
        return last.identifier, None
    left_id, right_id, read_id = map(int, numbers[:3])
    return last.identifier, JoinProgress(last.identifier, left_id, right_id, read_id, numbers[3])


def fingerprint(
    plan: JoinedPlan, ids: ColumnIds, left: Snapshot | None, right: Snapshot | None
) -> str:
    """Return a text that is equal only for the same join, in the same columns, of the same snapshots.

    `join.max-matches` is left out: it changes which joins are refused, not their rows.
    """
    options = plan.definition.options()
    del options[join_options.MAX_MATCHES.key]
    snapshots = [None if each is None else snapshot_facts(each) for each in (left, right)]
    columns = [[field.name, str(field.type)] for field in plan.columns]
    return fingerprint_of([options, columns, ids, snapshots], sort_keys=True)


def is_sound(
    progress: JoinProgress,
    plan: JoinedPlan,
    ids: ColumnIds,
    tables: tuple[OpenTable, OpenTable, OpenTable],
    base: Snapshot,
) -> bool:
    """Return whether the rows of the joined table at `base` are still those of that round. tables: left, right, joined.

    Unlike for an index, each snapshot since then must exist: an expired one counts as unsound.
    """
    left, right, out = tables
    state = out._state()
    try:
        current = fingerprint(
            plan, ids, _load(left, progress.left_id), _load(right, progress.right_id)
        )
        return current == progress.fingerprint and all(
            _is_of_join(out._committer.snapshots.load(id), state, progress)
            for id in range(progress.read_id + 1, base.id + 1)
        )
    except NotFoundError:
        return False


def keep_snapshots(tables: tuple[OpenTable, OpenTable, OpenTable], ids: tuple[int, ...]) -> None:
    """Let consumers keep these snapshots and all later ones, for the next round.

    ids: of left, right, joined; 0 is left out. A consumer that is there already is not written: an idle round writes
    nothing.
    """
    consumer_id = consumer_of(tables[-1])
    for table, id in zip(tables, ids, strict=True):
        if id and table._consumers.next_snapshot(consumer_id) != id:
            table._consumers.record(consumer_id, id)


def consumer_of(out: OpenTable) -> str:
    """Return the consumer's name in all three tables."""
    return f"join-{name_of(out)}"


def _load(table: OpenTable, id: int) -> Snapshot | None:
    return table._committer.snapshots.load(id) if id else None


def _is_of_join(snapshot: Snapshot, state: TableState, progress: JoinProgress) -> bool:
    user = snapshot.commit_user, snapshot.commit_identifier
    return user == (JOIN_USER, progress.identifier) or not touches_rows(snapshot, state)
