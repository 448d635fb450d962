"""Writes the versions of a table into its history: a round of the maintainer.

    base                  history
    snapshots 7, 8, 9     one commit of the user history/<base>, with the identifier 9 and the versions of all three
    ── killed here ──     the consumer of the base is still at 6, and keeps 6 and later ones unnecessarily
    next round            reads from the history's own commits that it has 9, moves the consumer, and is done

The consumer `history` of the base keeps the last snapshot that the history has: the next round compares with it. It is
recorded before the history is made, so that the snapshot with which that begins stays. A round is a function of the
snapshots, so two rounds at once write equal versions under equal keys, and each is there once.

Raises NotFoundError for a history whose next snapshot has expired because somebody deleted its consumer, InvalidError
for one whose snapshots the base has lost, what snapshot_versions raises, and the errors of writing and committing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from widetable.commit.transaction.touched_keys import touches_rows
from widetable.derive.changes.equal_keys import distinct_rows
from widetable.derive.changes.followed_until import following
from widetable.derive.versions.history_table import (
    beginning_of,
    beginning_with,
    find_history,
    history_name,
    made_history,
    user_of,
    written_until,
)
from widetable.derive.versions.snapshot_versions import (
    first_versions,
    rows_as_versions,
    snapshot_versions,
)
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.neighbour import name_of
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.writes.table_commit import append_messages, discard
from widetable.operations.writes.table_write import any_writer
from widetable.schema.history_columns import FROM

CONSUMER: Final = "history"
# The property of its commits: the snapshot of the base up to which the history goes.
SOURCE: Final = "widetable.history.source"
# Snapshots of one commit.
_SNAPSHOTS_AT_ONCE: Final = 64


class HistoryRound(NamedTuple):
    """The result of a round. source_id: the base's snapshot up to which the history goes now. rows: those written."""

    source_id: int
    rows: int


def feed_history(base: OpenTable) -> HistoryRound | None:
    """Bring the history up to the newest snapshot; None if it is there, or another process is at work."""
    name = history_name(base)
    oldest = base._committer.snapshots.earliest()
    if name is None or oldest is None:
        return None
    lease = f"{base._paths.service_dir}/widetable-history-lease-{name}"
    with held_lease(base._state(), path=lease) as is_ours, held(base._state(), oldest.id):
        return _round(base, name, oldest) if is_ours else None


def _round(base: OpenTable, name: str, oldest: Snapshot) -> HistoryRound | None:
    if find_history(base) is None:
        base._consumers.record(CONSUMER, oldest.id)
    history = made_history(base, name, beginning_with(base, oldest))
    done_id, first_id = end_of(base, history, oldest), beginning_of(history).snapshot_id
    rows, until_id = 0, done_id
    for snapshots in _bundles(base, done_id, first_id):
        rows += _written(base, history, snapshots, first_id)
        until_id = snapshots[-1].id
        base._consumers.record(CONSUMER, until_id)
    if until_id == done_id:
        if done_id and base._consumers.next_snapshot(CONSUMER) != done_id:
            base._consumers.record(CONSUMER, done_id)
        return None
    return HistoryRound(until_id, rows)


def end_of(base: OpenTable, history: OpenTable, oldest: Snapshot) -> int:
    """Return the snapshot up to which the history goes, 0 before its first commit.

    oldest: of the base. Raises NotFoundError if the snapshot that the history needs next has expired.
    """
    done_id = written_until(base, history, history._committer.snapshots.latest())
    needed_id = done_id or beginning_of(history).snapshot_id
    if needed_id < oldest.id:
        raise _lost(base, name_of(history), needed_id, oldest)
    return done_id


def _bundles(base: OpenTable, done_id: int, first_id: int) -> Iterator[list[Snapshot]]:
    """Yield the snapshots that one commit takes, those that add versions. One of a wrong clock stands alone.

    done_id: the last one that was written, 0 for none. first_id: the one with which the history begins.
    """
    store, state = base._committer.snapshots, base._state()
    last_id = store.latest_id() or 0
    before = store.load(done_id) if done_id else None
    bundle: list[Snapshot] = []
    for id in range(done_id + 1 if done_id else first_id, last_id + 1):
        snapshot = store.load(id)
        falls = before is not None and snapshot.time_millis < before.time_millis
        before = snapshot
        if bundle and (falls or len(bundle) == _SNAPSHOTS_AT_ONCE):
            yield bundle
            bundle = []
        if falls:
            yield [snapshot]
        elif touches_rows(snapshot, state) or id == first_id:
            bundle.append(snapshot)
    if bundle:
        yield bundle


def _written(base: OpenTable, history: OpenTable, snapshots: list[Snapshot], first_id: int) -> int:
    """Write and commit the versions of the snapshots; return their number."""
    rows = 0
    with any_writer(history, history.schema.names) as writer:
        for snapshot in snapshots:
            for versions in _versions(base, history, snapshot, first_id):
                writer.write(versions)
                rows += versions.num_rows
        messages = writer.finish()
    last = snapshots[-1]
    by = following(user_of(base), last)
    # Without a property a commit without rows would not be made, and the history would not know how far it goes.
    properties = {SOURCE: str(last.id)}
    try:
        done = append_messages(history, messages, by, properties=properties)
    except (ConflictError, InvalidError):
        discard(history, messages)
        raise
    if not done.committed and messages:
        discard(history, messages)
    return rows if done.committed else 0


def _versions(
    base: OpenTable, history: OpenTable, snapshot: Snapshot, first_id: int
) -> Iterator[pa.Table]:
    if snapshot.id == first_id:
        yield from first_versions(base, snapshot)
        return
    yield from snapshot_versions(base, snapshot)
    before = base._committer.snapshots.load(snapshot.id - 1)
    if snapshot.time_millis < before.time_millis:
        keys = _keys_after(base, history, snapshot.time_millis)
        if keys.num_rows:
            yield rows_as_versions(base, keys, snapshot)


def _keys_after(base: OpenTable, history: OpenTable, millis: int) -> pa.Table:
    """Return the keys that have a version of a later time."""
    time = pa.scalar(millis, pa.int64()).cast(pa.timestamp("ms"))
    scan = chosen_state(history).scan(list(base.schema.primary_keys), pc.field(FROM) > time)
    return distinct_rows(scan.to_arrow())


def _lost(base: OpenTable, name: str, start_id: int, oldest: Snapshot) -> NotFoundError:
    return NotFoundError(
        f"history {name!r} of {name_of(base)!r}",
        found=f"snapshot {start_id}, which it needs, expired; the oldest is {oldest.id}",
        expected=f"all snapshots from {start_id} on, which the consumer {CONSUMER!r} keeps",
        action="Name a new table in history.table: it begins with the oldest snapshot. Do not delete the consumer.",
        code=ErrorCode.SNAPSHOT_EXPIRED,
    )
