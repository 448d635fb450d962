"""Finds the snapshot that a reader requests: by id, time, tag or watermark, the newest by default.

    snapshot                1        2        3
    committed at            100      200      300        timestamp 250: 2; 300: 3; 900: 3; 99: NotFoundError
    watermark               -        50       80         watermark 50: 2; 51: 3; 81: NotFoundError

A time looks back, at the table of that time; a watermark looks forward, to a snapshot with all rows before it.

Raises NotFoundError, which names the existing ones, InvalidError for an invalid choice, and DamagedError for a time
whose snapshots are lost.
"""

from __future__ import annotations

from widetable.arguments import whole_number
from widetable.commit.holds.tag_store import TagStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.runtime.moment import Moment, epoch_millis


def choose_snapshot(
    store: SnapshotStore,
    tags: TagStore,
    snapshot_id: int | None,
    timestamp: Moment | None,
    tag: str | None,
    watermark: Moment | None = None,
) -> Snapshot | None:
    """Return the requested snapshot, by default the newest, or None for a table without snapshots.

    timestamp, watermark: epoch milliseconds, a datetime or an ISO text (without a zone: local time). tag: may name a
    snapshot that has expired. Nothing keeps the snapshot from expiry.
    """
    check_one_choice(snapshot_id=snapshot_id, timestamp=timestamp, tag=tag, watermark=watermark)
    if snapshot_id is not None:
        return load_snapshot(store, snapshot_id)
    if tag is not None:
        return tags.load(tag)
    if watermark is not None:
        return store.by_watermark(epoch_millis(watermark, "watermark"))
    if timestamp is not None:
        return store.by_timestamp(epoch_millis(timestamp, "timestamp"))
    return store.latest()


def named_snapshot(
    store: SnapshotStore,
    tags: TagStore,
    snapshot_id: int | None,
    timestamp: Moment | None,
    tag: str | None,
    action: str,
) -> Snapshot:
    """Return the requested snapshot, and refuse a call that names none. action: the action of that error."""
    if snapshot_id is None and timestamp is None and tag is None:
        raise InvalidError(
            "snapshot_id, timestamp and tag",
            found="none of them",
            expected="one of them",
            action=action,
        )
    snapshot = choose_snapshot(store, tags, snapshot_id, timestamp, tag)
    assert snapshot is not None  # one is named
    return snapshot


def check_one_choice(**choices: object) -> None:
    """Refuse more than one of these arguments."""
    names = [name for name, value in choices.items() if value is not None]
    if len(names) > 1:
        raise InvalidError(
            " and ".join(names),
            found="more than one of them",
            expected="one at most",
            action="Leave the others out.",
        )


def load_snapshot(store: SnapshotStore, snapshot_id: int) -> Snapshot:
    """Load the snapshot of that id. Raises NotFoundError, which gives the range of ids."""
    snapshot_id = whole_number(snapshot_id, "snapshot_id")
    try:
        return store.load(snapshot_id)
    except NotFoundError as cause:
        first, last = store.earliest_id(), store.latest_id()
        expected, action = f"an id from {first} to {last}", "Choose one of these, or a tag."
        if first is None:
            expected, action = "a table with snapshots; it has none yet", "Write to it first."
        raise NotFoundError(
            f"snapshot {snapshot_id}",
            found="no such snapshot",
            expected=expected,
            action=action,
            code=ErrorCode.SNAPSHOT_NOT_FOUND,
        ) from cause
