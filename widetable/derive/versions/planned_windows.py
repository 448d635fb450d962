"""Windows of time that are planned in one process and computed in others: `PlannedWindows`, which travels pickled.

    planner    planned_windows ─► the snapshot of each table, and the past if a time needs it     leases for an hour
    task       answered(rows), with these snapshots: later commits change nothing

Rows are divided among tasks by the bucket of their entity (`task_numbers`). In: tables and the arguments of
`Table.windows`. Out: as said. Raises what that raises, and what `pinned_snapshots` raises; the number of a row in an
error counts within the rows that were given at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable.arguments import flag, text
from widetable.commit.holds.read_lease import ReadLease
from widetable.derive.versions.held_past import HeldPast, held_past
from widetable.derive.versions.pinned_snapshots import (
    PlannedSnapshot,
    leases_for,
    leases_on,
    newest_of,
    same_tables,
    tables_of,
)
from widetable.derive.versions.task_numbers import task_count, task_numbers
from widetable.derive.versions.timed_windows import (
    TimedTiles,
    checked_coarse,
    chosen_tiles,
    metadata_of,
    reads_past,
    timed_windows,
    window_plans,
)
from widetable.operations.handle.chosen_state import ChosenState, chosen_state
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.entity_rows import entity_columns, entity_rows
from widetable.operations.queries.table_at import state_at
from widetable.operations.queries.table_windows import WindowCall
from widetable.operations.windows.feature_columns import check_names
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class PlannedWindows:
    """A planned call. Picklable.

    tables: the tile table, then the coarse ones. ids: their snapshots, 0 for none. is_chosen: whether the caller chose
    the snapshot. sizes: of coarse tiles, as given. entity: the key columns that rows have. pinned: the newest snapshot
    of each table that the read needs. identities: of all tables, those of the past last.
    """

    call: WindowCall
    tables: tuple[OpenTable, ...]
    ids: tuple[int, ...]
    is_chosen: bool
    sizes: tuple[Any, ...]
    past: HeldPast | None
    entity: tuple[str, ...]
    pinned: tuple[PlannedSnapshot, ...]
    identities: tuple[str, ...]
    added: tuple[pa.Field, ...]
    tasks: int
    metadata: dict[str, str]

    @property
    def schema(self) -> TableSchema:
        """The columns of the table, by which rows are numbered."""
        return self.tables[0].schema

    @property
    def key_columns(self) -> list[str]:
        """The columns of the rows that hold the entity."""
        return list(entity_columns(self.entity, self.call.on).values())

    def task_numbers(self, rows: pa.Table, schema: TableSchema) -> npt.NDArray[np.int32]:
        """Return int32[n]: the task of each row."""
        keys = entity_rows(rows, schema, self.entity, self.call.at, self.call.on).keys
        return task_numbers(keys.select(self.entity), schema, self.tasks)

    def answered(self, rows: pa.Table) -> pa.Table:
        """Return the rows with their features, in their order."""
        with same_tables(_all_tables(self.tables, self.past), self.identities, self.pinned):
            read = [
                chosen_state(table, id) if self.is_chosen else state_at(table, id)
                for table, id in zip(self.tables, self.ids, strict=True)
            ]
            return timed_windows(rows, self.call, TimedTiles(read, self.sizes, self.past))


def planned_windows(
    left: pa.Schema,
    tables: tuple[OpenTable, Any],
    call: WindowCall,
    snapshot_id: int | None,
    same_name: Callable[[str], str],
    tasks: int,
) -> tuple[PlannedWindows, Sequence[ReadLease]]:
    """Plan a call for rows with these columns, and take leases. tables: the tile table, and the coarse ones as given.
    tasks: how many, where buckets do not say.
    """
    table, coarse = tables
    flag(call.empty_zero, "empty_zero")
    larger = checked_coarse(call, coarse, snapshot_id)
    with ExitStack() as stack:
        past = held_past(table, stack) if reads_past(call) else None
        chosen, larger = chosen_tiles(table, larger, snapshot_id)
        all_tables = (table, *(each for _, each in larger))
        read = TimedTiles(chosen, tuple(size for size, _ in larger), past)
        plan = window_plans(read, call)[0]
        prefix = text(call.prefix, "prefix")
        given = entity_rows(left.empty_table(), plan.schema, plan.entity, call.at, call.on).given
        check_names(given, plan, prefix, same_name)
        pinned = _pinned(all_tables, chosen)
        leases = leases_for([(each.table, each.id) for each in pinned])
        leases += [] if past is None else leases_on(past)
    every = _all_tables(all_tables, past)
    planned = PlannedWindows(
        call=call,
        tables=all_tables,
        ids=tuple(0 if each.snapshot is None else each.snapshot.id for each in chosen),
        is_chosen=snapshot_id is not None,
        sizes=tuple(read.sizes),
        past=past,
        entity=plan.entity,
        pinned=(*pinned, *([] if past is None else newest_of(past))),
        identities=tuple(each._committer.identity for each in every),
        added=tuple(pa.field(prefix + each.name, each.type) for each in plan.windows),
        tasks=task_count(plan.schema, plan.entity, tasks),
        metadata=metadata_of(read, call),
    )
    return planned, leases


def _all_tables(tables: Sequence[OpenTable], past: HeldPast | None) -> list[OpenTable]:
    return [*tables, *([] if past is None else tables_of(past))]


def _pinned(tables: Sequence[OpenTable], chosen: Sequence[ChosenState]) -> list[PlannedSnapshot]:
    pairs = zip(tables, chosen, strict=True)
    return [
        PlannedSnapshot(table, each.snapshot.id, each.snapshot.time_millis)
        for table, each in pairs
        if each.snapshot is not None
    ]
