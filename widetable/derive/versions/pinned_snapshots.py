"""Snapshots that a read of other processes has planned on: kept for an hour, and checked before and after each task.

    planner    leases on the snapshots            task    the table is the same one, and its snapshot too ─► reads

In: tables and snapshots, or a past that is held. Out: leases; a block that runs between two checks. Raises InvalidError
for a table that was made again, NotFoundError for snapshots that have expired or that a rollback has removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from widetable.commit.holds.lookup_pin import hold_for_job
from widetable.commit.holds.read_lease import ReadLease
from widetable.commit.snapshots.table_identity import check_identity
from widetable.derive.versions.held_past import HeldPast
from widetable.errors import NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.open_table import OpenTable


class PlannedSnapshot(NamedTuple):
    """The newest snapshot of a table that a read needs. Picklable."""

    table: OpenTable
    id: int
    millis: int


def tables_of(past: HeldPast) -> list[OpenTable]:
    """Return the table and its history."""
    return [past.table] if past.history is None else [past.table, past.history.table]


def newest_of(past: HeldPast) -> list[PlannedSnapshot]:
    """Return the newest snapshot of a past, none before the first one."""
    moments = past.moments
    ends = zip(moments.ids[-1:].tolist(), moments.millis[-1:].tolist(), strict=True)
    return [PlannedSnapshot(past.table, id, millis) for id, millis in ends]


def leases_on(past: HeldPast) -> list[ReadLease]:
    """Keep for an hour what the read needs: all snapshots, or those that the history does not have, and the history."""
    moments, history = past.moments, past.history
    needed: list[tuple[OpenTable, int]] = []
    if len(moments.ids):
        place = 0
        if history is not None:
            last = int(moments.ids.searchsorted(history.until_id))
            place = int(moments.read_at(np.array([min(last, len(moments.ids) - 1)]))[0])
            needed.append((history.table, history.snapshot_id))
        needed.append((past.table, int(moments.ids[place])))
    return leases_for(needed)


def leases_for(needed: Sequence[tuple[OpenTable, int]]) -> list[ReadLease]:
    """Keep snapshots for an hour, by tables and ids, where the storage takes leases."""
    taken = [hold_for_job(table._file_io, table._paths, id) for table, id in needed]
    return [lease for lease in taken if lease is not None]


@contextlib.contextmanager
def same_tables(
    tables: Sequence[OpenTable], identities: Sequence[str], newest: Sequence[PlannedSnapshot]
) -> Iterator[None]:
    """Check before and after the block that tables and snapshots are those of the plan."""
    _check(tables, identities, newest)
    yield
    _check(tables, identities, newest)


def _check(
    tables: Sequence[OpenTable], identities: Sequence[str], newest: Sequence[PlannedSnapshot]
) -> None:
    for table, identity in zip(tables, identities, strict=True):
        check_identity(table._file_io, table._paths, identity)
    for table, id, millis in newest:
        if table._committer.snapshots.load(id).time_millis != millis:
            raise NotFoundError(
                f"snapshot {id} of {table.path}",
                found="another snapshot with its id, which a rollback has given free",
                expected="the snapshot that was the newest when the read was planned",
                action="Make the call again.",
                code=ErrorCode.SNAPSHOT_NOT_FOUND,
            )
