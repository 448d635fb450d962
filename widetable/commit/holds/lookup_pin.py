"""Pins of lookup joins: which snapshot a micro-batch of a query joins, in its first run and in each replay.

The first task of a batch publishes the pin by exclusive create; all other tasks, and those of a replay, read it. Until
the pin exists, its publisher keeps the snapshot by a read lease, so expiry sees the lease or the pin (`snapshot_holds`;
docs/decisions/0009-expiry.md). A pin that a task may have read is never withdrawn. The publisher of the pin of batch n
removes the pins up to n-2: those batches are committed, otherwise n would not have begun.

If a join also reads other tables, such as an index, their expiry must see the pinned snapshots in their own
directories. So a hold is published there before the pin, for the table and the batch, under a unique name:

    service/widetable-lookup-pin-<query id>-<join>@<32 hex digits>-<batch id> = the same object, of that table

So the pin alone decides, and the snapshots that it names are kept whenever a process is killed. A hold without a pin,
of a publisher that was killed or came second, keeps files longer than necessary: until the second batch after it or
until its time is up.

A pin whose time is up keeps nothing, but still records the snapshot. The newest pin of a join stays for a year after
its time as the mark of how far the query has come. It tells a replay from a first run:

    pin of the batch        its snapshot exists             that snapshot
                            it has expired, or another      NotFoundError
                            snapshot has its id now
    no pin of the batch     a later batch has one           NotFoundError: the batch is a replay
                            no later batch has one          a first run: the newest snapshot

A replay is missed only if the pin of its batch was removed by hand, or a year after its time, or with the whole table,
and no later batch has a pin. Raises NotFoundError, DamagedError for a pin that cannot be read, InvalidError,
StorageError.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from widetable.commit.holds.pin_file import (
    NO_SNAPSHOT,
    LookupPin,
    OtherSnapshot,
    hold_series,
    pin_files,
    pin_to_json,
    pinned_series,
    read_pin,
)
from widetable.commit.holds.read_lease import ReadLease, hold, hold_if_taken
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import (
    TEMPORARY_BYTES,
    TablePaths,
    check_name,
)
from widetable.storage.write_access import needs_write_access

# How often another snapshot is chosen because an expiry was about to remove the last one: newer ones exist then.
_ATTEMPTS: Final = 10
# Bytes of a file's name besides the name of the join: prefix, query id, token, batch id.
_AROUND_BYTES: Final = 21 + 36 + 1 + 33 + 1 + 19

_PINS: Final = (
    "which snapshot each micro-batch of a query joins, so that a replay joins the same one"
)


@dataclass(frozen=True)
class PinnedBatch:
    """A micro-batch of one join.

    Attributes
    ----------
    query_id, join : str
        The query, and the name of the join within it.
    batch_id : int
        The number of the batch.
    """

    query_id: str
    join: str
    batch_id: int

    @property
    def series(self) -> str:
        """The part of the file name that all batches of the join share."""
        return f"{check_name(self.query_id, 'query id')}-{check_join(self.join)}"

    def __str__(self) -> str:
        return f"batch {self.batch_id} of query {self.query_id}, lookup join {self.join!r}"


# The partitions of a snapshot that a join reads, None for all.
Partitions = tuple[bytes, ...] | None
ChoosePartitions = Callable[[Snapshot], Partitions]


class Moment(NamedTuple):
    """The snapshots that a join reads, kept from expiry by leases until these are released."""

    pin: LookupPin
    leases: tuple[ReadLease, ...]

    def release(self) -> None:
        for lease in self.leases:
            lease.release()


# Takes a lease for file_io, paths and a snapshot id; returns None if the storage is read-only.
TakeLease: TypeAlias = Callable[..., ReadLease | None]
# Chooses the newest moment and takes its leases.
ChooseMoment = Callable[[Clock], Moment]


@dataclass(frozen=True)
class OtherTable:
    """Another table that a join reads, where holds are published. duration_millis: how long a hold lasts."""

    role: str
    paths: TablePaths
    duration_millis: int


def check_join(value: Any) -> str:
    """Check the name of a join.

    Parameters
    ----------
    value : any
        What the caller gave.

    Returns
    -------
    str
        The name.

    Raises
    ------
    InvalidError
        No file can have that name.
    """
    return check_name(value, "name", _AROUND_BYTES + TEMPORARY_BYTES)


def pin_batch(
    file_io: FileIO,
    paths: TablePaths,
    batch: PinnedBatch,
    choose: ChooseMoment,
    duration_millis: int,
    clock: Clock | None = None,
    others: Sequence[OtherTable] = (),
) -> LookupPin:
    """Return the pin of the batch, which is made if the batch is new and has none.

    choose: chooses the newest moment. duration_millis: how long a new pin keeps its snapshot. others: the other tables
    of the moment.
    """
    clock = clock or SystemClock()
    path = paths.lookup_pin(batch.series, batch.batch_id)
    while True:
        pin = read_pin(file_io, path)
        if pin is not None:
            _check_there(file_io, paths, batch, pin, others)
            return pin
        _check_first_run(file_io, paths, batch)
        moment = choose(clock)
        try:
            now_millis = clock.now_nanos() // 1_000_000
            snapshots = {each.role: each for each in moment.pin.others if each.snapshot_id}
            holds = [
                hold_other(file_io, batch, each, snapshots[each.role], token, now_millis)
                for each, token in ((other, uuid.uuid4().hex) for other in others)
                if each.role in snapshots
            ]
            data = pin_to_json(path, moment.pin, now_millis + duration_millis)
            with needs_write_access(_PINS):
                is_first = file_io.publish(path, data)
            if is_first:
                for each in (paths, *(other.paths for other in others)):
                    _remove_before(file_io, each, batch)
                return moment.pin
            for hold_path in filter(None, holds):
                file_io.delete(hold_path)
        finally:
            moment.release()


def hold_other(
    file_io: FileIO,
    batch: PinnedBatch,
    other: OtherTable,
    snapshot: OtherSnapshot,
    token: str,
    now_millis: int,
) -> str | None:
    """Publish a hold on a snapshot of another table for a batch; return its path, or None if the token has a hold."""
    path = other.paths.lookup_pin(hold_series(batch.series, token), batch.batch_id)
    pin = LookupPin(snapshot.snapshot_id, 0, snapshot.time_millis, None)
    data = pin_to_json(path, pin, now_millis + other.duration_millis)
    return path if file_io.publish(path, data) else None


def newest_moment(
    file_io: FileIO,
    paths: TablePaths,
    choose: ChoosePartitions,
    clock: Clock | None = None,
    take: TakeLease | None = None,
) -> Moment:
    """Return the newest snapshot of one table, kept by a lease. choose: its partitions. take: see `hold_newest`."""
    newest = hold_newest(file_io, paths, clock, take)
    if newest is None:
        return Moment(NO_SNAPSHOT, ())
    snapshot, lease = newest
    return held_moment(snapshot, choose, [lease])


def held_moment(
    snapshot: Snapshot, choose: ChoosePartitions, taken: Sequence[ReadLease | None]
) -> Moment:
    """Return the moment of a snapshot that these leases keep; they are released if its partitions cannot be read.

    taken: a lease is None if the storage is read-only.
    """
    leases = tuple(lease for lease in taken if lease is not None)
    try:
        partitions = choose(snapshot)
    except BaseException:
        for lease in leases:
            lease.release()
        raise
    pin = LookupPin(snapshot.id, snapshot.schema_id, snapshot.time_millis, partitions)
    return Moment(pin, leases)


def hold_for_pin(
    file_io: FileIO, paths: TablePaths, snapshot_id: int, *, clock: Clock | None = None
) -> ReadLease:
    """Keep a snapshot until its pin is published; the lease is not renewed."""
    with needs_write_access(_PINS):
        return hold(file_io, paths, snapshot_id, clock=clock, renews=False)


def hold_for_job(
    file_io: FileIO, paths: TablePaths, snapshot_id: int, *, clock: Clock | None = None
) -> ReadLease | None:
    """Keep a snapshot for rows that are joined elsewhere at an unknown time: for an hour, without renewal.

    Parameters
    ----------
    file_io : FileIO
        The storage.
    paths : TablePaths
        The paths of the table.
    snapshot_id : int
        The snapshot.
    clock : Clock, default None
        The clock. None: that of the system.

    Returns
    -------
    ReadLease or None
        The lease; None where the storage takes none.
    """
    return hold_if_taken(file_io, paths, snapshot_id, clock=clock, renews=False)


def hold_newest(
    file_io: FileIO,
    paths: TablePaths,
    clock: Clock | None = None,
    take: TakeLease | None = None,
) -> tuple[Snapshot, ReadLease | None] | None:
    """Return the newest snapshot and a read lease on it; None for a table without snapshots.

    take: `hold_if_taken` for a reader, until it is released; `hold_for_job`. The default is `hold_for_pin`, for a
    caller that publishes a pin of the snapshot, which must not expire before: where no lease can be written, no pin
    can be written either.
    """
    take = take or hold_for_pin
    snapshots = SnapshotStore(file_io, paths)
    for attempt in range(_ATTEMPTS):
        snapshot = snapshots.latest()
        if snapshot is None:
            return None
        try:
            return snapshot, take(file_io, paths, snapshot.id, clock=clock)
        except NotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _check_there(
    file_io: FileIO,
    paths: TablePaths,
    batch: PinnedBatch,
    pin: LookupPin,
    others: Sequence[OtherTable],
) -> None:
    """Raise NotFoundError if a snapshot of the pin is gone, or another snapshot has its id; InvalidError for a pin of
    other tables.
    """

    def check(where: TablePaths, id: int, time_millis: int, schema_id: int | None = None) -> None:
        try:
            snapshot = SnapshotStore(file_io, where).load(id)
        except NotFoundError as cause:
            raise pin_is_gone(str(batch), id, "which has expired", where) from cause
        if snapshot.time_millis != time_millis or schema_id not in (None, snapshot.schema_id):
            reason = "whose id another snapshot has since a rollback, or which another join with this name= has pinned"
            raise pin_is_gone(str(batch), id, reason, where)

    if pin.snapshot_id:
        check(paths, pin.snapshot_id, pin.time_millis, pin.schema_id)
    paths_of = {other.role: other.paths for other in others}
    if set(paths_of) != {other.role for other in pin.others}:
        raise InvalidError(
            str(batch),
            found=f"a pin of a join that also reads {', '.join(o.role for o in pin.others) or 'no other table'}",
            expected=f"a pin of a join that also reads {', '.join(paths_of) or 'no other table'}, as the join does now",
            action="Give the join another name=, or start the query with a new checkpoint.",
        )
    for other in pin.others:
        if other.snapshot_id:
            check(paths_of[other.role], other.snapshot_id, other.time_millis)


def _check_first_run(file_io: FileIO, paths: TablePaths, batch: PinnedBatch) -> None:
    """Raise NotFoundError for a batch without a pin if a later batch has one."""
    for path, series, batch_id, _ in pin_files(file_io, paths):
        if series != batch.series or batch_id <= batch.batch_id:
            continue
        later = read_pin(file_io, path)
        if later is not None:
            raise NotFoundError(
                str(batch),
                found=f"no pin of the snapshot that it joined, but a pin of the later batch {batch_id}, "
                f"which joined snapshot {later.snapshot_id}",
                expected="a new batch, or one of the last two, whose pins are kept",
                action="The checkpoint was put back too far: start the query with a new one, or, if these batches "
                f"may join the newest snapshot, delete {paths.lookup_pin(batch.series, 0)[:-1]}* first.",
            )


def pin_is_gone(subject: str, snapshot_id: int, why: str, paths: TablePaths) -> NotFoundError:
    """Return the error for a batch whose pinned snapshot is gone."""
    return NotFoundError(
        subject,
        found=f"snapshot {snapshot_id} of {paths.root}, {why}",
        expected="the snapshot that the batch joined in its first run",
        action="Start the query with a new checkpoint, or, if this batch may join the newest snapshot, delete its "
        f"pin in {paths.service_dir}. A larger widetable.lookup-pin-retention keeps snapshots longer.",
        code=ErrorCode.SNAPSHOT_EXPIRED,
    )


def _remove_before(file_io: FileIO, paths: TablePaths, batch: PinnedBatch) -> None:
    for path, series, batch_id, _ in pin_files(file_io, paths):
        if pinned_series(series) == batch.series and batch_id < batch.batch_id - 1:
            file_io.delete(path)
