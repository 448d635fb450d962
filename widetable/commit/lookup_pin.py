"""Pins of lookup joins: which snapshot a micro-batch of a query joins, the first time and whenever it comes again.

On disk (other clients never look there), one file per query, join of it and batch:

    service/widetable-lookup-pin-<query id>-<join>-<batch id> = JSON object
        {"snapshot_id": what the batch joins, or 0: the table had no snapshot,
         "schema_id", "time_millis": of that snapshot, 0 where there was none,
         "partitions": of those that it joins the BinaryRows in hex digits, newest first, between commas, or null: all,
         "expires_millis": wall clock since the epoch}

The first task of a batch publishes the file, by exclusive create; all others, and those of a replay, read it. Until it
is there the publisher holds the snapshot by a read lease, so expiry sees the one or the other (`snapshot_holds`;
docs/decisions/0009-expiry.md), and a pin that somebody has read is never taken back. Who publishes the pin of batch n
removes those up to n-2: they were committed, or n would not have begun.

A pin whose time is up holds nothing, but says what it pinned: the newest of a join stays for a year after its time, as
the mark of how far the query has come. So a replay is told from a first run:

    pin of the batch        its snapshot is there           that one
                            it has expired, or another      NotFoundError
                            snapshot has its id now
    no pin of the batch     there is one of a later batch   NotFoundError: this batch is over, or was
                            there is none                   the first run: the newest snapshot

Not seen is only the replay of a batch whose pin was removed by hand, or a year after its time, or with the whole
table, while no later batch has one. Raises NotFoundError, DamagedError for a pin that cannot be read, InvalidError,
StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable.commit.clock import Clock, SystemClock
from widetable.commit.json_note import JsonNote, is_id, is_text, is_whole
from widetable.commit.lease_term import Force, LeaseTerm
from widetable.commit.passed_over import pass_over
from widetable.commit.read_lease import ReadLease, hold
from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.paths import (
    TEMPORARY_BYTES,
    TablePaths,
    check_name,
    lookup_pin_of,
)
from widetable.storage.file_io import FileIO

# How often a snapshot is chosen anew because an expiry was about to take it: newer ones have come then.
_LOOKS: Final = 10
# For how long a pin whose time is up stays as a mark.
_MARK_MILLIS: Final = 365 * 86_400_000
# Of a file's name around that of the join: prefix, query id, batch id.
_AROUND_BYTES: Final = 21 + 36 + 1 + 1 + 19


def _is_snapshot(value: Any) -> bool:
    return (value == 0 and is_whole(value)) or is_id(value)


def _is_partitions(value: Any) -> bool:
    if value is None:
        return True
    try:
        return is_text(value) and bool(bytes.fromhex(value.replace(",", "")) or True)
    except ValueError:
        return False


_NOTE: Final = JsonNote(
    "pin of a lookup join",
    {
        "snapshot_id": _is_snapshot,
        "schema_id": is_whole,
        "time_millis": is_whole,
        "partitions": _is_partitions,
        "expires_millis": is_whole,
    },
    "Delete it if its batch may join the newest snapshot; else start the query with a new checkpoint.",
)


@dataclass(frozen=True)
class PinnedBatch:
    """A micro-batch of one join. join: the name of the join within the query."""

    query_id: str
    join: str
    batch_id: int

    @property
    def series(self) -> str:
        """Of all batches of the join."""
        return f"{check_name(self.query_id, 'query id')}-{check_join(self.join)}"

    def __str__(self) -> str:
        return f"batch {self.batch_id} of query {self.query_id}, lookup join {self.join!r}"


@dataclass(frozen=True)
class LookupPin:
    """What a batch joins. snapshot_id: 0 where the table had none. partitions: BinaryRows, newest first; None: all."""

    snapshot_id: int
    schema_id: int
    time_millis: int
    partitions: tuple[bytes, ...] | None


# Of a table that had none: nothing is found.
NO_SNAPSHOT: Final = LookupPin(0, 0, 0, None)
# The partitions of a snapshot that a join reads, None for all.
Partitions = tuple[bytes, ...] | None
ChoosePartitions = Callable[[Snapshot], Partitions]


@dataclass(frozen=True)
class _PinFile:
    """ended_millis: when it stopped to hold, None while it holds."""

    path: str
    series: str
    batch_id: int
    snapshot_id: int
    ended_millis: int | None


def check_join(value: Any) -> str:
    """The name of a join. Raises InvalidError for one that no file can have."""
    return check_name(value, "name", _AROUND_BYTES + TEMPORARY_BYTES)


def pin_batch(
    file_io: FileIO,
    paths: TablePaths,
    batch: PinnedBatch,
    choose: ChoosePartitions,
    duration_millis: int,
    clock: Clock | None = None,
) -> LookupPin:
    """What the batch joins: as its pin says, which is made if the batch has none and is new.

    choose: of the newest snapshot. duration_millis: for which a new pin holds its snapshot.
    """
    clock = clock or SystemClock()
    path = paths.lookup_pin(batch.series, batch.batch_id)
    while True:
        pin = _read(file_io, path)
        if pin is not None:
            _check_there(file_io, paths, batch, pin)
            return pin
        _check_first_run(file_io, paths, batch)
        held = hold_newest(file_io, paths, clock)
        try:
            pin = NO_SNAPSHOT if held is None else pin_of(held[0], choose)
            expires_millis = clock.now_nanos() // 1_000_000 + duration_millis
            if file_io.publish(path, _to_json(path, pin, expires_millis)):
                _remove_before(file_io, paths, batch)
                return pin
        finally:
            if held is not None:
                held[1].release()


def hold_newest(
    file_io: FileIO, paths: TablePaths, clock: Clock | None = None, *, renews: bool = False
) -> tuple[Snapshot, ReadLease] | None:
    """The newest snapshot, and a read lease on it (`read_lease.hold`); None for a table without one."""
    snapshots = SnapshotStore(file_io, paths)
    for look in range(_LOOKS):
        snapshot = snapshots.latest()
        if snapshot is None:
            return None
        try:
            return snapshot, hold(file_io, paths, snapshot.id, clock=clock, renews=renews)
        except NotFoundError:
            if look == _LOOKS - 1:
                raise
    raise AssertionError("the last look returns or raises")


def pinned_snapshots(
    file_io: FileIO, paths: TablePaths, longest_millis: int, clock: Clock | None = None
) -> list[int]:
    """The snapshots that pins hold which are in force, ascending. longest_millis: for which one is made at most."""
    found = _pins(file_io, paths, longest_millis, clock or SystemClock())
    return sorted(pin.snapshot_id for pin in found if pin.ended_millis is None and pin.snapshot_id)


def forget_pins(
    file_io: FileIO,
    paths: TablePaths,
    longest_millis: int,
    expired_for_millis: int,
    clock: Clock | None = None,
) -> list[str]:
    """Remove pins that stopped to hold at least so long ago, unreadable ones too, but no newest one of a join within
    a year; their paths.
    """
    clock = clock or SystemClock()
    now_millis = clock.now_nanos() // 1_000_000
    pins = list(_pins(file_io, paths, longest_millis, clock))
    newest: dict[str, int] = {}
    for pin in pins:
        newest[pin.series] = max(pin.batch_id, newest.get(pin.series, 0))
    found = []
    for pin in pins:
        is_mark = pin.batch_id == newest[pin.series]
        least_millis = max(expired_for_millis, _MARK_MILLIS if is_mark else 0)
        if pin.ended_millis is None or now_millis - pin.ended_millis < least_millis:
            continue
        if file_io.delete(pin.path):
            found.append(pin.path)
    return found


def damaged_pins(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Pins that cannot be read."""
    found = []
    for path, *_ in _files(file_io, paths):
        try:
            _read(file_io, path)
        except DamagedError as damage:
            found.append(damage)
    return found


def pin_of(snapshot: Snapshot, choose: ChoosePartitions) -> LookupPin:
    """What is joined with that snapshot."""
    return LookupPin(snapshot.id, snapshot.schema_id, snapshot.time_millis, choose(snapshot))


def _to_json(path: str, pin: LookupPin, expires_millis: int) -> bytes:
    rows = None if pin.partitions is None else ",".join(row.hex() for row in pin.partitions)
    return _NOTE.to_json(
        path, {**asdict(pin), "partitions": rows, "expires_millis": expires_millis}
    )


def _read(file_io: FileIO, path: str) -> LookupPin | None:
    try:
        values = _NOTE.from_json(file_io.read(path), path)
    except NotFoundError:
        return None
    rows = values["partitions"]
    partitions = None if rows is None else tuple(map(bytes.fromhex, filter(None, rows.split(","))))
    return LookupPin(values["snapshot_id"], values["schema_id"], values["time_millis"], partitions)


def _check_there(file_io: FileIO, paths: TablePaths, batch: PinnedBatch, pin: LookupPin) -> None:
    """Raises NotFoundError where the snapshot of the pin is gone, or is another one of the same number."""
    if not pin.snapshot_id:
        return
    try:
        snapshot = SnapshotStore(file_io, paths).load(pin.snapshot_id)
    except NotFoundError as cause:
        raise pin_is_gone(str(batch), pin.snapshot_id, "which has expired", paths) from cause
    if (snapshot.time_millis, snapshot.schema_id) != (pin.time_millis, pin.schema_id):
        raise pin_is_gone(
            str(batch), pin.snapshot_id, "whose number another snapshot has since a rollback", paths
        )


def _check_first_run(file_io: FileIO, paths: TablePaths, batch: PinnedBatch) -> None:
    """Raises NotFoundError for a batch without a pin whose successors have some."""
    for path, series, batch_id, _ in _files(file_io, paths):
        if series != batch.series or batch_id <= batch.batch_id:
            continue
        later = _read(file_io, path)
        if later is not None:
            raise NotFoundError(
                str(batch),
                found=f"no pin of the snapshot that it joined, but one of the later batch {batch_id}, "
                f"which joined snapshot {later.snapshot_id}",
                expected="a batch that is new, or whose pin is kept: the last two are",
                action="The checkpoint was put back too far: start the query with a new one, or, if these batches "
                f"may join the newest snapshot, delete {paths.lookup_pin(batch.series, 0)[:-1]}* first.",
            )


def pin_is_gone(subject: str, snapshot_id: int, why: str, paths: TablePaths) -> NotFoundError:
    """What to raise where the snapshot is not there that was joined."""
    return NotFoundError(
        subject,
        found=f"snapshot {snapshot_id} of {paths.root}, {why}",
        expected="the snapshot that it joined at first",
        action="Start the query with a new checkpoint, or, if this batch may join the newest snapshot, delete its "
        f"pin in {paths.service_dir}. A larger widetable.lookup-pin-retention keeps snapshots longer.",
    )


def _remove_before(file_io: FileIO, paths: TablePaths, batch: PinnedBatch) -> None:
    for path, series, batch_id, _ in _files(file_io, paths):
        if series == batch.series and batch_id < batch.batch_id - 1:
            file_io.delete(path)


def _pins(
    file_io: FileIO, paths: TablePaths, longest_millis: int, clock: Clock
) -> Iterator[_PinFile]:
    """What the files say; of one that says nothing, or nothing that is true, its own time counts."""
    for path, series, batch_id, modified_millis in _files(file_io, paths):
        try:
            values = _NOTE.from_json(file_io.read(path), path)
        except NotFoundError:
            continue
        except DamagedError as damage:
            pass_over(damage)
            yield _PinFile(path, series, batch_id, 0, modified_millis)
            continue
        term = LeaseTerm(values["expires_millis"], None)
        ended_millis = {
            Force.IN_FORCE: None,
            Force.OVER: term.expires_millis,
            Force.VOID: modified_millis,
        }[term.force(path, longest_millis, clock)]
        yield _PinFile(path, series, batch_id, values["snapshot_id"], ended_millis)


def _files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, str, int, int]]:
    """(path, series, batch id, modified_millis) of all."""
    found = []
    for entry in file_io.list(paths.service_dir):
        named = lookup_pin_of(entry.name)
        if named is not None:
            path = f"{paths.service_dir}/{entry.name}"
            found.append((path, *named, entry.modified_millis))
    return found
