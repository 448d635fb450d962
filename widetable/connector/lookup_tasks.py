"""Joins rows with the rows of a table that have their keys, in tasks of an engine. No task asks the driver.

    driver    plan_lookup_join ─► LookupTasks, pickled to the tasks
    stream    each task: pin(batch), the same snapshot in all tasks and in each replay ─► joined(rows, pin, batch)
    others    newest_pin() once in the driver ─► joined(rows, pin) in each task

Rows that wait for a match (`retry_batches`) are given out by one task of a batch, which the engine elects and which
makes a `claim`. A process keeps files open from one call of `joined` to the next of the same columns, for eight joins
at most; threads that join at once have files of their own. Raises what `joined_tables` and `pinned_join` raise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from widetable.commit.holds.lookup_pin import PinnedBatch, hold_for_job
from widetable.commit.holds.pin_file import LookupPin
from widetable.commit.holds.read_lease import ReadLease
from widetable.derive.lookups.join_plan import JoinArguments, SameName
from widetable.derive.lookups.joined_tables import LookupJoin, new_lookup_join
from widetable.derive.lookups.late_rows import LateJoin
from widetable.derive.lookups.pinned_join import KeptJoin, PinnedJoin, keep_join
from widetable.runtime.machine_clock import now_millis

# Leases of joins without batches: each protects its snapshot for an hour, and is released when it is collected.
_leases: Final[list[ReadLease]] = []
# Joins whose files this process keeps open, the least recently used first.
_cached_joins: Final[OrderedDict[tuple[object, ...], KeptJoin]] = OrderedDict()
_MOST_CACHED: Final = 8


class LookupTasks(Protocol):
    """A planned lookup join; picklable. `plan_lookup_join` makes it in the driver, and each task uses it."""

    @property
    def key_columns(self) -> list[str]:
        """Return the columns of the left rows that are compared."""

    @property
    def added(self) -> pa.Schema:
        """Return the columns that the join adds, as the output has them."""

    @property
    def has_waiting_rows(self) -> bool:
        """Whether rows without a match wait for later batches."""

    def pin(self, batch: PinnedBatch) -> LookupPin:
        """Choose the snapshot of a batch. All tasks may call it at once: the first one decides.

        Parameters
        ----------
        batch : PinnedBatch
            The batch.

        Returns
        -------
        LookupPin
            What the batch joins, now and in each replay.

        Raises
        ------
        NotFoundError
            The snapshot that a replay joined has expired.
        """

    def newest_pin(self) -> LookupPin:
        """Choose the newest snapshot for rows of no batch, and keep it for an hour, or until this process ends.

        Returns
        -------
        LookupPin
            What the rows join.
        """

    def claim(self, batch: PinnedBatch, pin: LookupPin, token: str) -> bool:
        """Claim the waiting rows of a batch.

        Parameters
        ----------
        batch : PinnedBatch
            The batch.
        pin : LookupPin
            Its pin.
        token : str
            32 hex digits that name the attempt of the task.

        Returns
        -------
        bool
            Whether this call was the first with the token.
        """

    def joined(
        self,
        rows: Iterable[pa.RecordBatch],
        pin: LookupPin,
        batch: PinnedBatch | None = None,
        *,
        is_elected: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Join rows with the pinned snapshot.

        Parameters
        ----------
        rows : iterable of pyarrow.RecordBatch
            The left rows of the task.
        pin : LookupPin
            The snapshot.
        batch : PinnedBatch, default None
            The batch, which rows that wait need. None: no row waits.
        is_elected : bool, default False
            Whether this task gives out the waiting rows of earlier batches, first.

        Yields
        ------
        pyarrow.RecordBatch
            The rows with the added columns, in the order of the left rows.

        Raises
        ------
        NotFoundError
            The snapshot has expired.
        InvalidError
            The left rows make no keys, or the table was made again.
        """


@dataclass(frozen=True)
class _PlannedJoin:
    join: LookupJoin

    @property
    def key_columns(self) -> list[str]:
        return [name for name, _ in self.join.plan.keys]

    @property
    def added(self) -> pa.Schema:
        return pa.schema(self.join.plan.added)

    @property
    def has_waiting_rows(self) -> bool:
        return self.join.late is not None

    def pin(self, batch: PinnedBatch) -> LookupPin:
        return self.join.pin(batch)

    def newest_pin(self) -> LookupPin:
        now = now_millis()
        _leases[:] = [lease for lease in _leases if lease.expires_millis > now]
        moment = self.join.newest(take=hold_for_job)
        _leases.extend(moment.leases)
        return moment.pin

    def claim(self, batch: PinnedBatch, pin: LookupPin, token: str) -> bool:
        return self.join.claim(batch, pin, token)

    def joined(
        self,
        rows: Iterable[pa.RecordBatch],
        pin: LookupPin,
        batch: PinnedBatch | None = None,
        *,
        is_elected: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        of = _cache_key(self.join)
        # Taken out of the cache while it is in use: threads of one process must not share it.
        kept = _cached_joins.pop(of, None) or keep_join(self.join)
        if batch is None or self.join.late is None:
            joined = PinnedJoin(self.join, pin, kept).joined(rows)
        else:
            late = LateJoin(self.join, batch, pin, kept)
            joined = late.joined(rows, is_elected=is_elected)
        return _then_kept(joined, of, kept)


def _cache_key(join: LookupJoin) -> tuple[object, ...]:
    """Return what joins must share to read the same columns of the same table with the same open files."""
    plan, columns = join.plan, tuple(field.name for field in join.plan.columns)
    return join.table.path, join.identity, columns, plan.is_prefix, plan.index, join.index_identity


def _then_kept(
    joined: Iterator[pa.RecordBatch], of: tuple[object, ...], kept: KeptJoin
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, then keep the open files for the next join, as the most recently used ones."""
    try:
        yield from joined
    finally:
        displaced = _cached_joins.pop(of, None)
        _cached_joins[of] = kept
        if displaced is not None:
            displaced.close()
        while len(_cached_joins) > _MOST_CACHED:
            _cached_joins.popitem(last=False)[1].close()


def plan_lookup_join(
    left: pa.Schema, dim: Any, arguments: JoinArguments, same_name: SameName = str
) -> LookupTasks:
    """Plan a lookup join, with the newest columns of the joined table.

    Parameters
    ----------
    left : pyarrow.Schema
        The schema of the left rows.
    dim : Table or str
        The joined table, or its path.
    arguments : JoinArguments
        The arguments of the join.
    same_name : callable, default str
        Maps names that count as the same name to one text.

    Returns
    -------
    LookupTasks
        The join.

    Raises
    ------
    InvalidError
        The arguments do not fit.
    NotFoundError
        There is no such table or column.
    """
    return _PlannedJoin(new_lookup_join(left, dim, arguments, same_name))
