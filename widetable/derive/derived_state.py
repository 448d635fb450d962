"""How far what is made of a table has got: `Table.inspect`, with its indexes and widened columns.

Raises what inspections raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from widetable.commit.committed import last_of, users_of
from widetable.derive.index_progress import source_of
from widetable.derive.index_table import find_index
from widetable.derive.widen_progress import PIECES, last_round, user_of, widening_of
from widetable.derive.widening import MILLIS, ROWS
from widetable.derived_options import WidenOption, index_options, widen_options
from widetable.errors import NotFoundError
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.operations.inspection import DerivedState, Inspection, inspect_table
from widetable.operations.neighbour import name_of, neighbour
from widetable.operations.open_table import OpenTable


def inspect(table: OpenTable) -> Inspection:
    """What state the table is in: snapshots, files per level, what waits, who reads and compacts, which files are
    damaged as far as a listing shows it, how far indexes and widened columns have got, and warnings.
    """
    return replace(inspect_table(table), derived=tuple(_derived(table)))


def _derived(table: OpenTable) -> Iterator[DerivedState]:
    options = table.schema.options
    for index in index_options(options):
        made = find_index(table, index)
        latest = None if made is None else made._committer.snapshots.latest()
        source_id = None if made is None else source_of(made, table, index, latest)
        yield DerivedState(index.key, {name_of(table): _behind(table, source_id)})
    for widen in widen_options(options):
        yield _widened(table, widen)


def _widened(fact: OpenTable, option: WidenOption) -> DerivedState:
    try:
        dim = neighbour(fact, option.table, f"option {option.key!r}")
    except NotFoundError:
        return DerivedState(option.key, {option.table: None})
    latest = fact._committer.snapshots.latest()
    done = last_round(widening_of(fact, dim, option), latest)[1]
    behind = {
        name_of(fact): None if done is None else _of_others(fact, done.fact_id, user_of(option)),
        name_of(dim): _behind(dim, None if done is None else done.dim_id),
    }
    last = last_of(users_of(latest, fact._committer.last_commits.load), user_of(option))
    if last is None:
        return DerivedState(option.key, behind)
    state = DerivedState(option.key, behind, last.identifier // PIECES)
    try:
        found = fact._committer.snapshots.load(last.snapshot_id)
    except NotFoundError:
        return state
    if not {ROWS, MILLIS} <= found.properties.keys():
        return state
    return replace(
        state,
        ended_millis=found.time_millis,
        rows=int(found.properties[ROWS]),
        duration_millis=int(found.properties[MILLIS]),
    )


def _of_others(fact: OpenTable, done_id: int, user: str) -> int:
    """Snapshots that are news to the widener: not its own, nor compactions."""
    store = fact._committer.snapshots
    newer = (store.load(id) for id in range(done_id + 1, (store.latest_id() or 0) + 1))
    return sum(s.commit_kind != COMMIT_KIND_COMPACT and s.commit_user != user for s in newer)


def _behind(source: OpenTable, done_id: int | None) -> int | None:
    return None if done_id is None else (source._committer.snapshots.latest_id() or 0) - done_id
