"""The tables of a lookup join, and which moment of them is joined: what can be sent to tasks elsewhere.

    dim, by its key      its newest snapshot
    dim, by an index     the newest snapshot of the index, and the one of dim that it fits (`index_lookup`)

The moment is chosen now, or by the first task of a micro-batch for all that it is ever run for (`lookup_pin`).
Raises what `join_plan` and `index_lookup` raise, NotFoundError for a table that is not there or a pin that is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import path
from widetable.commit.holds.lookup_pin import (
    Moment,
    OtherTable,
    PinnedBatch,
    TakeLease,
    held_moment,
    hold_for_pin,
    hold_newest,
    hold_other,
    newest_moment,
    pin_batch,
)
from widetable.commit.holds.pin_file import NO_SNAPSHOT, LookupPin, OtherSnapshot
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.snapshots.table_identity import check_identity
from widetable.derive.indexes.index_lookup import hold_index
from widetable.derive.indexes.index_table import made_index
from widetable.derive.lookups.join_plan import JoinArguments, JoinPlan, SameName, plan_join
from widetable.derive.lookups.late_table import LateTable, late_table
from widetable.errors import InvalidError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.storage.locate import locate

# What an index is to a join.
INDEX: Final = "index"
# And the table of left rows that wait for a match.
PENDING: Final = "pending"


@dataclass(frozen=True)
class LookupJoin:
    """A plan and the tables that it asks. Picklable. identity, index_identity: of those that it was made for.

    index: opened, or made, with the plan; it may never have been fed. late: None where no row
    waits.
    """

    table: OpenTable
    plan: JoinPlan
    identity: str
    index: OpenTable | None = None
    index_identity: str = ""
    late: LateTable | None = None

    def pin(self, batch: PinnedBatch) -> LookupPin:
        """What the micro-batch joins, now and whenever it comes again.
        May be asked by all tasks at once: the first pin that is published counts. Raises
        NotFoundError for one whose snapshots have gone.
        """
        table = self.table
        longest_millis = table.schema.typed_options.get(retention.LOOKUP_PIN_RETENTION)
        others, choose = self._others(), self._newest_of_all
        return pin_batch(table._file_io, table._paths, batch, choose, longest_millis, others=others)

    def claim(self, batch: PinnedBatch, pin: LookupPin, token: str) -> bool:
        """Whether nobody has done so with this token, of 32 hex digits, for the rows that wait in this batch.
        Claims lie among the holds of the pending table, and go with them.
        """
        (pending,) = (other for other in self._others() if other.role == PENDING)
        (snapshot,) = (other for other in pin.others if other.role == PENDING)
        now_millis = SystemClock().now_nanos() // 1_000_000
        file_io = self.table._file_io
        return hold_other(file_io, batch, pending, snapshot, token, now_millis) is not None

    def _others(self) -> list[OtherTable]:
        tables = {INDEX: self.index, PENDING: None if self.late is None else self.late.table}
        return [_other(role, table) for role, table in tables.items() if table is not None]

    def _newest_of_all(self, clock: Clock) -> Moment:
        moment = self.newest(clock)
        if self.late is None:
            return moment
        try:
            pending = self.late.table
            held = hold_newest(pending._file_io, pending._paths, clock)
            assert held is not None  # it is made with a snapshot
        except BaseException:
            moment.release()
            raise
        other = OtherSnapshot(PENDING, held[0].id, held[0].time_millis)
        pin = replace(moment.pin, others=(*moment.pin.others, other))
        return Moment(pin, (*moment.leases, *(lease for lease in held[1:] if lease is not None)))

    def newest(self, clock: Clock | None = None, take: TakeLease = hold_for_pin) -> Moment:
        """What is the newest now. take: how it is held, as of `hold_newest`.

        Held by leases, which the caller releases. By an index it is not the dim's newest
        snapshot, but the newest one that the index fits.
        """
        table, index = self.table, self.plan.index
        if index is None or self.index is None:
            return newest_moment(table._file_io, table._paths, self.partitions_of, clock, take)
        held = hold_index(table, self.index, index, take)
        if held is None:
            nothing = OtherSnapshot(INDEX, 0, 0)
            return Moment(replace(NO_SNAPSHOT, others=(nothing,)), ())
        other = OtherSnapshot(INDEX, held.newest.id, held.newest.time_millis)
        moment = held_moment(held.source, self.partitions_of, held.leases)
        return moment._replace(pin=replace(moment.pin, others=(other,)))

    def check_identities(self) -> None:
        """Raises InvalidError for a table that was dropped and made again."""
        check_identity(self.table._file_io, self.table._paths, self.identity)
        if self.index is not None:
            check_identity(self.index._file_io, self.index._paths, self.index_identity)
        if self.late is not None:
            pending = self.late.table
            check_identity(pending._file_io, pending._paths, self.late.identity)

    def partitions_of(self, snapshot: Snapshot) -> tuple[bytes, ...] | None:
        """Those that are joined, newest first; None for all."""
        if self.plan.partitions is None:
            return None
        committer = self.table._committer
        entries = committer.live_files.live_entries(snapshot)
        schema = committer.schemas.load(snapshot.schema_id)
        return self.plan.partitions.chosen({e.bucket_id.partition for e in entries}, schema)


def opened(dim: Any) -> OpenTable:
    """The argument `dim`: a table, or its path."""
    if isinstance(dim, OpenTable):
        return dim
    found = path(dim, "dim")
    located, root = locate(found)
    table = OpenTable(root, located)
    table._committer.schemas.latest()
    return table


def new_lookup_join(
    left: pa.Schema, dim: Any, given: JoinArguments, same_name: SameName = str
) -> LookupJoin:
    """For left rows of that schema, with the newest columns of the dim."""
    table = opened(dim)
    schema = table.schema
    plan = plan_join(left, schema, given, same_name)
    if plan.kind_column is not None and given.retry_batches:
        raise InvalidError(
            "retry_batches",
            found="it with retractions, which may overtake the rows that they retract",
            expected="one of them",
            action="Leave retry_batches out.",
        )
    is_synced = schema.typed_options.get(opt.FSYNC)
    late = late_table(left, given, beside=table._file_io, is_synced=is_synced)
    return replace(join_by(table, plan), late=late)


def join_by(table: OpenTable, plan: JoinPlan) -> LookupJoin:
    """The join that a plan is for."""
    index = None if plan.index is None else made_index(table, plan.index)
    index_identity = "" if index is None else index._committer.identity
    return LookupJoin(table, plan, table._committer.identity, index, index_identity)


def _other(role: str, table: OpenTable) -> OtherTable:
    longest_millis = table.schema.typed_options.get(retention.LOOKUP_PIN_RETENTION)
    return OtherTable(role, table._paths, longest_millis)
