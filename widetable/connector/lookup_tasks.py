"""Joins rows with the rows of a table that have their keys, in tasks of an engine. No task asks the driver.

    driver    plan_lookup_join ─► LookupTasks, pickled to the tasks
    stream    each task: pin(batch), the same snapshot in all tasks and in each replay ─► joined(rows, pin, batch)
    others    newest_pin() once in the driver ─► joined(rows, pin) in each task

Rows that wait for a match (`retry_batches`) are given out by one task of a batch, which the engine elects and which
makes a `claim`. A process keeps files open from one call of `joined` to the next of the same columns, for eight joins
at most; threads that join at once have files of their own. Raises what `joined_tables` and `pinned_join` raise.
"""

from __future__ import annotations

import threading
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
from widetable.runtime.forked_child import SharedByThreads
from widetable.runtime.machine_clock import now_millis

_MAX_JOINS: Final = 8


class KeptByProcess(SharedByThreads):
    """What joins leave behind in a process. Thread-safe; a forked child begins with nothing.

    Leases are those of joins without batches: each protects its snapshot for an hour, and is released when it is
    collected. Joins keep their files open, the least recently used first.
    """

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[ReadLease] = []
        self._joins: OrderedDict[tuple[object, ...], KeptJoin] = OrderedDict()

    def keep_leases(self, leases: Iterable[ReadLease]) -> None:
        """Keep these leases, and release those whose hour is over."""
        now = now_millis()
        with self._lock:
            self._leases = [*(one for one in self._leases if one.expires_millis > now), *leases]

    def release_leases(self) -> None:
        """Release all leases."""
        with self._lock:
            leases, self._leases = self._leases, []
        for lease in leases:
            lease.release()

    def take(self, key: tuple[object, ...]) -> KeptJoin | None:
        """Take a join out: two threads must not share open files. Put it back after use."""
        with self._lock:
            return self._joins.pop(key, None)

    def put(self, key: tuple[object, ...], join: KeptJoin) -> None:
        """Keep a join as the most recently used one. Close the one that it displaces."""
        with self._lock:
            displaced = self._joins.pop(key, None)
            self._joins[key] = join
            if displaced is None and len(self._joins) > _MAX_JOINS:
                _, displaced = self._joins.popitem(last=False)
        if displaced is not None:
            displaced.close()


KEPT: Final = KeptByProcess()


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
        moment = self.join.newest(take=hold_for_job)
        KEPT.keep_leases(moment.leases)
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
        key = _cache_key(self.join)
        kept = KEPT.take(key) or keep_join(self.join)
        try:
            if batch is None or self.join.late is None:
                yield from PinnedJoin(self.join, pin, kept).joined(rows)
            else:
                late = LateJoin(self.join, batch, pin, kept)
                yield from late.joined(rows, is_elected=is_elected)
        finally:
            KEPT.put(key, kept)


def _cache_key(join: LookupJoin) -> tuple[object, ...]:
    """Return what joins must share to read the same columns of the same table with the same open files."""
    plan, columns = join.plan, tuple(field.name for field in join.plan.columns)
    return join.table.path, join.identity, columns, plan.is_prefix, plan.index, join.index_identity


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
