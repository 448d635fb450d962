"""The past of a table: its history, if it has one, and the snapshots that are still there, while a read holds both.

    history                      snapshots that are kept
    10:00 .. 10:40, up to s 7    s 7 (10:40), s 8 (10:50), s 9 (11:00)
    a time of s 8 or s 9 is looked up there; an earlier one is found among the versions

First a lease keeps the oldest snapshot, then the newest commit of the history says how far that goes: so no snapshot is
missing in between, whatever the maintainer does. Raises NotFoundError for a time before both, and for snapshots that
are in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import rows_at
from widetable.derive.versions.history_table import beginning_of, find_history, written_until
from widetable.derive.versions.known_rows import known_rows
from widetable.derive.versions.snapshot_moments import (
    Oldest,
    SnapshotMoments,
    check_not_before,
    snapshot_moments,
)
from widetable.derive.versions.version_rows import known_versions, version_rows
from widetable.errors import NotFoundError
from widetable.kernels.array_types import Mask, Positions
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable

# A try fails only if the oldest snapshot expires between two requests.
_TRIES: Final = 5


class FedHistory(NamedTuple):
    """A history with versions. snapshot_id: its newest snapshot. until_id: the base's snapshot up to which it goes."""

    table: OpenTable
    snapshot_id: int
    until_id: int
    oldest: Oldest


class HeldPast(NamedTuple):
    """What is kept of a table. history: None without one, or before its first commit."""

    table: OpenTable
    moments: SnapshotMoments
    history: FedHistory | None

    @property
    def oldest(self) -> Oldest:
        return self.moments.oldest if self.history is None else self.history.oldest

    @property
    def until_id(self) -> int:
        """The snapshot up to which the history goes, 0 without one."""
        return 0 if self.history is None else self.history.until_id

    def places_of(self, at_micros: Positions) -> tuple[Positions, Mask]:
        """Return the place of the snapshot of each time, -1 for none, and whether the history does not have it.

        Raises NotFoundError for a time that neither the history nor the snapshots cover.
        """
        places = self.moments.chosen(self.table, at_micros)
        is_recent = np.append(self.moments.ids, 0)[places] > self.until_id
        check_not_before(
            self.oldest, at_micros, ~is_recent & (at_micros < self.oldest.millis * 1000)
        )
        return places, is_recent

    def known_rows(
        self, keys: pa.RecordBatch, at_micros: Positions, columns: Sequence[str]
    ) -> pa.Table:
        """Return the row of each key as it was known at its time; nulls where it was not there."""
        places, is_recent = self.places_of(at_micros)
        ids = np.append(self.moments.ids, 0)[places]
        recent = np.flatnonzero(is_recent)
        read_ids = np.append(self.moments.ids, 0)[self.moments.read_at(places[recent])]
        rows = known_rows(self.table, keys.take(pa.array(recent)), read_ids, columns)
        if self.history is None or len(recent) == len(ids):
            return _spread(rows, recent, len(ids))
        older = np.flatnonzero(~is_recent)
        history = self.history
        versions, chosen = known_versions(
            version_rows(history.table, history.snapshot_id, keys.take(pa.array(older)), columns),
            at_micros[older],
        )
        chosen[np.append(versions.is_deleted, True)[chosen]] = -1
        past = rows_at(versions.rows.select(list(columns)), chosen).cast(rows.schema)
        order = np.empty(len(ids), np.int64)
        order[recent], order[older] = np.arange(len(recent)), len(recent) + np.arange(len(older))
        return rows_at(pa.concat_tables([rows, past]), order)


def held_past(table: OpenTable, stack: ExitStack) -> HeldPast:
    """Return what is kept of a table; leases keep it while the stack is open."""
    moments = _held_moments(table, stack)
    history = find_history(table)
    if history is None:
        return HeldPast(table, moments, None)
    latest = stack.enter_context(held_newest(history._state(), history._committer))
    until_id = written_until(table, history, latest)
    if latest is None or not until_id:
        return HeldPast(table, moments, None)
    if moments.oldest.snapshot_id > until_id + 1:
        raise NotFoundError(
            f"history of {table.path}",
            found=f"versions up to snapshot {until_id}, and snapshots from {moments.oldest.snapshot_id} on",
            expected="the snapshots after the history, which its consumer keeps",
            action="Name a new table in history.table: it begins with the oldest snapshot.",
            code=ErrorCode.SNAPSHOT_EXPIRED,
        )
    begins = beginning_of(history)
    oldest = Oldest(begins.snapshot_id, begins.millis)
    return HeldPast(table, moments, FedHistory(history, latest.id, until_id, oldest))


def _spread(rows: pa.Table, places: Positions, count: int) -> pa.Table:
    """Return `count` rows: these at their places, and nulls elsewhere."""
    order = np.full(count, -1, np.int64)
    order[places] = np.arange(len(places))
    return rows_at(rows, order)


def _held_moments(table: OpenTable, stack: ExitStack) -> SnapshotMoments:
    """Return the snapshots that are kept; a lease keeps the oldest and all later ones."""
    for tries_left in reversed(range(_TRIES)):
        with table._same_table():
            moments = snapshot_moments(table)
        if not len(moments.ids):
            return moments
        try:
            stack.enter_context(held(table._state(), moments.oldest.snapshot_id))
        except NotFoundError:
            if not tries_left:
                raise
        else:
            return moments
    raise AssertionError("the last try returns or raises")
