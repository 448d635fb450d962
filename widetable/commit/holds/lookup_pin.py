"""Pins of lookup joins: which snapshot a micro-batch of a query joins, the first time and whenever it comes again.

The first task of a batch publishes the file, by exclusive create; all others, and those of a replay, read it. Until it
is there the publisher holds the snapshot by a read lease, so expiry sees the one or the other (`snapshot_holds`;
docs/decisions/0009-expiry.md), and a pin that somebody has read is never taken back. Who publishes the pin of batch n
removes those up to n-2: they were committed, or n would not have begun.

What is pinned of other tables, an index say, their expiry must see in their own directories. There a hold is published
before the pin, for which table and batch it is, under a name that nobody else has:

    service/widetable-lookup-pin-<query id>-<join>@<32 hex digits>-<batch id> = the same object, of that table

So the pin alone decides, and what it names is held whoever is killed when: a hold without a pin, of a publisher that
was killed or came second, keeps files longer than need be, until the second batch after it or until its time is up.

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

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from widetable.commit.holds.pin_file import (
    NO_SNAPSHOT,
    LookupPin,
    OtherSnapshot,
    held_series,
    hold_series,
    pin_files,
    pin_to_json,
    read_pin,
)
from widetable.commit.holds.read_lease import ReadLease, hold, hold_if_taken
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import InvalidError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.storage.file_io import FileIO
from widetable.storage.paths import (
    TEMPORARY_BYTES,
    TablePaths,
    check_name,
)
from widetable.storage.write_access import needs_write_access

# How often a snapshot is chosen anew because an expiry was about to take it: newer ones have come then.
_LOOKS: Final = 10
# Of a file's name around that of the join: prefix, query id, token, batch id.
_AROUND_BYTES: Final = 21 + 36 + 1 + 33 + 1 + 19

_PINS: Final = "which snapshot each micro-batch of a query joins, so that it joins the same one when it comes again"


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


# The partitions of a snapshot that a join reads, None for all.
Partitions = tuple[bytes, ...] | None
ChoosePartitions = Callable[[Snapshot], Partitions]


class Moment(NamedTuple):
    """What a join reads, kept from expiry by leases until they are released."""

    pin: LookupPin
    leases: tuple[ReadLease, ...]

    def release(self) -> None:
        for lease in self.leases:
            lease.release()


# Of file_io, paths and a snapshot id: the lease, None where the storage takes none.
TakeLease: TypeAlias = Callable[..., ReadLease | None]
# The newest moment, chosen and held.
ChooseMoment = Callable[[Clock], Moment]


@dataclass(frozen=True)
class OtherTable:
    """Where holds of the other snapshots of a pin lie. duration_millis: for which one holds."""

    role: str
    paths: TablePaths
    duration_millis: int


def check_join(value: Any) -> str:
    """The name of a join. Raises InvalidError for one that no file can have."""
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
    """What the batch joins: as its pin says, which is made if the batch has none and is new.

    choose: the newest moment. duration_millis: for which a new pin holds its snapshot. others: those of the moment.
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
    """Hold a snapshot of another table for a batch; the path. None: there is a hold of that token already."""
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
    """The newest snapshot of one table. choose: its partitions. take: as of `hold_newest`."""
    held = hold_newest(file_io, paths, clock, take)
    if held is None:
        return Moment(NO_SNAPSHOT, ())
    snapshot, lease = held
    return held_moment(snapshot, choose, [lease])


def held_moment(
    snapshot: Snapshot, choose: ChoosePartitions, taken: Sequence[ReadLease | None]
) -> Moment:
    """Of a snapshot that these leases hold; they are released where its partitions cannot be read. None: the storage
    takes no lease.
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
    """Until the pin of the snapshot is published; not renewed."""
    with needs_write_access(_PINS):
        return hold(file_io, paths, snapshot_id, clock=clock, renews=False)


def hold_for_job(
    file_io: FileIO, paths: TablePaths, snapshot_id: int, *, clock: Clock | None = None
) -> ReadLease | None:
    """For rows that are joined elsewhere, when nobody knows: for an hour, not renewed. None where the storage takes no
    lease, as `hold_if_taken`.
    """
    return hold_if_taken(file_io, paths, snapshot_id, clock=clock, renews=False)


def hold_newest(
    file_io: FileIO,
    paths: TablePaths,
    clock: Clock | None = None,
    take: TakeLease | None = None,
) -> tuple[Snapshot, ReadLease | None] | None:
    """The newest snapshot, and a read lease on it; None for a table without one.

    take: `hold_if_taken` for a reader, until it is released; `hold_for_job`. By default `hold_for_pin`, for who
    publishes a pin of the snapshot, which must not expire before: where no lease is taken no pin would be.
    """
    take = take or hold_for_pin
    snapshots = SnapshotStore(file_io, paths)
    for look in range(_LOOKS):
        snapshot = snapshots.latest()
        if snapshot is None:
            return None
        try:
            return snapshot, take(file_io, paths, snapshot.id, clock=clock)
        except NotFoundError:
            if look == _LOOKS - 1:
                raise
    raise AssertionError("the last look returns or raises")


def _check_there(
    file_io: FileIO,
    paths: TablePaths,
    batch: PinnedBatch,
    pin: LookupPin,
    others: Sequence[OtherTable],
) -> None:
    """Raises NotFoundError where a snapshot of the pin is gone, or is another one of the same number; InvalidError
    for a pin of other tables.
    """

    def check(where: TablePaths, id: int, time_millis: int, schema_id: int | None = None) -> None:
        try:
            found = SnapshotStore(file_io, where).load(id)
        except NotFoundError as cause:
            raise pin_is_gone(str(batch), id, "which has expired", where) from cause
        if found.time_millis != time_millis or schema_id not in (None, found.schema_id):
            reason = "whose number another snapshot has since a rollback, or in the table of another join of this name="
            raise pin_is_gone(str(batch), id, reason, where)

    if pin.snapshot_id:
        check(paths, pin.snapshot_id, pin.time_millis, pin.schema_id)
    paths_of = {other.role: other.paths for other in others}
    if set(paths_of) != {other.role for other in pin.others}:
        raise InvalidError(
            str(batch),
            found=f"a pin of a join that reads {', '.join(o.role for o in pin.others) or 'no table'} besides",
            expected=f"one that reads {', '.join(paths_of) or 'no table'} besides, as the join does now",
            action="Give the join another name=, or start the query with a new checkpoint.",
        )
    for other in pin.others:
        if other.snapshot_id:
            check(paths_of[other.role], other.snapshot_id, other.time_millis)


def _check_first_run(file_io: FileIO, paths: TablePaths, batch: PinnedBatch) -> None:
    """Raises NotFoundError for a batch without a pin whose successors have some."""
    for path, series, batch_id, _ in pin_files(file_io, paths):
        if series != batch.series or batch_id <= batch.batch_id:
            continue
        later = read_pin(file_io, path)
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
    for path, series, batch_id, _ in pin_files(file_io, paths):
        if held_series(series) == batch.series and batch_id < batch.batch_id - 1:
            file_io.delete(path)
