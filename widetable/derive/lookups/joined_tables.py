"""The tables of a lookup join, and the moment of them that is joined. Both are picklable.

    dim, by its key      its newest snapshot
    dim, by an index     the newest snapshot of the index, and the one of dim that it fits (`index_lookup`)

The moment is chosen now. For a micro-batch its first task chooses it, and each replay uses the same one (`lookup_pin`).
Raises what `join_plan` and `index_lookup` raise, NotFoundError for a missing table or for a pin that has expired.
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

# The role of an index in a pin.
INDEX: Final = "index"
# The role of the table of left rows that wait for a match.
PENDING: Final = "pending"


@dataclass(frozen=True)
class LookupJoin:
    """A plan and the tables that it reads. Picklable. identity, index_identity: the tables' identities at planning.

    index: opened, or created, with the plan; it may never have been fed. late: None if no row waits for a match.
    """

    table: OpenTable
    plan: JoinPlan
    identity: str
    index: OpenTable | None = None
    index_identity: str = ""
    late: LateTable | None = None

    def pin(self, batch: PinnedBatch) -> LookupPin:
        """Return the pin of a micro-batch: the snapshots that it joins now and in each replay.

        All tasks may call it at once: the first published pin counts. Raises NotFoundError if its snapshots have
        expired.
        """
        table = self.table
        longest_millis = table.schema.typed_options.get(retention.LOOKUP_PIN_RETENTION)
        others, choose = self._others(), self._newest_of_all
        return pin_batch(table._file_io, table._paths, batch, choose, longest_millis, others=others)

    def claim(self, batch: PinnedBatch, pin: LookupPin, token: str) -> bool:
        """Claim the waiting rows of a batch with a token of 32 hex digits; return whether this call was the first.

        Claims are stored among the holds of the pending table, and expire with them.
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
            holds = hold_newest(pending._file_io, pending._paths, clock)
            assert holds is not None  # the pending table is created with a snapshot
        except BaseException:
            moment.release()
            raise
        other = OtherSnapshot(PENDING, holds[0].id, holds[0].time_millis)
        pin = replace(moment.pin, others=(*moment.pin.others, other))
        return Moment(pin, (*moment.leases, *(lease for lease in holds[1:] if lease is not None)))

    def newest(self, clock: Clock | None = None, take: TakeLease = hold_for_pin) -> Moment:
        """Return the newest moment, held by leases that the caller releases. take: see `hold_newest`.

        For a join by an index it is not the dim's newest snapshot, but the newest one that the index fits.
        """
        table, index = self.table, self.plan.index
        if index is None or self.index is None:
            return newest_moment(table._file_io, table._paths, self.partitions_of, clock, take)
        view = hold_index(table, self.index, index, take)
        if view is None:
            nothing = OtherSnapshot(INDEX, 0, 0)
            return Moment(replace(NO_SNAPSHOT, others=(nothing,)), ())
        other = OtherSnapshot(INDEX, view.newest.id, view.newest.time_millis)
        moment = held_moment(view.source, self.partitions_of, view.leases)
        return moment._replace(pin=replace(moment.pin, others=(other,)))

    def check_identities(self) -> None:
        """Raise InvalidError for a table that was dropped and created again."""
        check_identity(self.table._file_io, self.table._paths, self.identity)
        if self.index is not None:
            check_identity(self.index._file_io, self.index._paths, self.index_identity)
        if self.late is not None:
            pending = self.late.table
            check_identity(pending._file_io, pending._paths, self.late.identity)

    def partitions_of(self, snapshot: Snapshot) -> tuple[bytes, ...] | None:
        """Return the partitions that are joined, newest first; None for all."""
        if self.plan.partitions is None:
            return None
        committer = self.table._committer
        entries = committer.live_files.live_entries(snapshot)
        schema = committer.schemas.load(snapshot.schema_id)
        return self.plan.partitions.chosen({e.bucket_id.partition for e in entries}, schema)


def opened(dim: Any) -> OpenTable:
    """Open the argument `dim`: a table, or its path."""
    if isinstance(dim, OpenTable):
        return dim
    located, root = locate(path(dim, "dim"))
    table = OpenTable(root, located)
    table._committer.schemas.latest()
    return table


def new_lookup_join(
    left: pa.Schema, dim: Any, given: JoinArguments, same_name: SameName = str
) -> LookupJoin:
    """Plan a lookup join for left rows of a schema, with the newest columns of the dim.

    Parameters
    ----------
    left : pyarrow.Schema
        The schema of the left rows.
    dim : Table or str
        The table to head up, or its path.
    given : JoinArguments
        The arguments of the join.
    same_name : callable, default str
        Maps names that count as the same name to one text.

    Returns
    -------
    LookupJoin
        The join.

    Raises
    ------
    InvalidError
        The arguments do not fit.
    """
    table = opened(dim)
    schema = table.schema
    plan = plan_join(left, schema, given, same_name)
    if plan.kind_column is not None and given.retry_batches:
        raise InvalidError(
            "retry_batches",
            found="retry_batches with a row kind column, whose retractions may overtake the waiting rows",
            expected="one of them",
            action="Omit retry_batches.",
        )
    is_synced = schema.typed_options.get(opt.FSYNC)
    late = late_table(left, given, beside=table._file_io, is_synced=is_synced)
    return replace(join_by(table, plan), late=late)


def join_by(table: OpenTable, plan: JoinPlan) -> LookupJoin:
    """Return the join of a table by a plan; create its index if it is missing."""
    index = None if plan.index is None else made_index(table, plan.index)
    index_identity = "" if index is None else index._committer.identity
    return LookupJoin(table, plan, table._committer.identity, index, index_identity)


def _other(role: str, table: OpenTable) -> OtherTable:
    longest_millis = table.schema.typed_options.get(retention.LOOKUP_PIN_RETENTION)
    return OtherTable(role, table._paths, longest_millis)
