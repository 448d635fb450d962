"""Adds features as they were known at the time of each row, in tasks of an engine. No task asks the driver.

    driver    plan_point_in_time, plan_windows ─► PastTasks, pickled to the tasks
    first     each task: numbered(rows): the rows with the number of the task that answers them
    second    the engine brings rows with equal numbers to one task: answered(rows)

All tasks read the snapshots that were there when the read was planned; leases of this process keep them for an hour, or
until it ends. Raises what `Table.point_in_time` and `Table.windows` raise, and NotFoundError for snapshots that have
expired since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from widetable.connector.lookup_tasks import KEPT
from widetable.derive.versions.planned_past import PastArguments, PlannedPast, planned_past
from widetable.derive.versions.planned_windows import PlannedWindows, planned_windows
from widetable.format.row_budget import memory_bytes
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.queries.table_windows import WindowCall

# Rows that are answered at once: opening files costs the same for many rows as for few.
_MAX_ROWS: Final = 1 << 20
_MAX_BYTES: Final = 256 << 20


class PastTasks(Protocol):
    """A planned read as of the time of each row; picklable.

    `plan_point_in_time` or `plan_windows` makes it in the driver, and each task uses it.
    """

    @property
    def key_columns(self) -> list[str]:
        """Return the columns of the rows that hold the key."""

    @property
    def added(self) -> pa.Schema:
        """Return the features, as the output has them, with the metadata of the call in Python."""

    @property
    def tasks(self) -> int:
        """Return the number of tasks that answer rows: as many as the table has buckets, if they are fixed."""

    def numbered(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Say which task answers each row.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            The rows.

        Yields
        ------
        tuple of pyarrow.RecordBatch and pyarrow.Array
            The rows as they came, and int32 from 0 to below `tasks` for each.

        Raises
        ------
        InvalidError
            A time is null, or a key does not fit. The number of a row counts within its batch.
        """

    def answered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the features to the rows of one task.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
            The rows. A million of them are held in memory, or 256 MB.

        Yields
        ------
        pyarrow.RecordBatch
            The rows with the features, in their order.

        Raises
        ------
        NotFoundError
            A time is before the oldest version that was kept, or the snapshots have expired since the planning.
        InvalidError
            A time is null, or the table was made again.
        """


@dataclass(frozen=True)
class _Planned:
    past: PlannedPast | PlannedWindows

    @property
    def key_columns(self) -> list[str]:
        return self.past.key_columns

    @property
    def added(self) -> pa.Schema:
        return pa.schema(self.past.added, metadata=self.past.metadata)

    @property
    def tasks(self) -> int:
        return self.past.tasks

    def numbered(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        schema = self.past.schema
        for batch in batches:
            numbers = self.past.task_numbers(pa.Table.from_batches([batch]), schema)
            yield batch, pa.array(numbers)

    def answered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _gathered(batches):
            yield from self.past.answered(rows).to_batches()


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of a bounded size; none of them is empty."""
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        parts.append(batch)
        rows, size = rows + batch.num_rows, size + memory_bytes(batch)
        if rows >= _MAX_ROWS or size >= _MAX_BYTES:
            yield pa.Table.from_batches(parts)
            parts, rows, size = [], 0, 0
    if parts:
        yield pa.Table.from_batches(parts)


def plan_point_in_time(
    left: pa.Schema,
    table: OpenTable,
    arguments: PastArguments,
    same_name: Callable[[str], str] = str,
    tasks: int = 1,
) -> PastTasks:
    """Plan a point-in-time read, with what the table has now.

    Parameters
    ----------
    left : pyarrow.Schema
        The schema of the rows.
    table : Table
        The table.
    arguments : PastArguments
        The arguments of the read.
    same_name : callable, default str
        Maps names that count as the same name to one text.
    tasks : int, default 1
        The number of tasks for a table with partitions or dynamic buckets.

    Returns
    -------
    PastTasks
        The read. This process keeps what it needs for an hour, or until it ends.

    Raises
    ------
    InvalidError
        The arguments do not fit.
    NotFoundError
        There is no such table or column.
    """
    planned, leases = planned_past(left, table, arguments, same_name, tasks)
    KEPT.keep_leases(leases)
    return _Planned(planned)


def plan_windows(
    left: pa.Schema,
    table: OpenTable,
    call: WindowCall,
    coarse: Sequence[OpenTable] | Mapping[str, OpenTable] = (),
    snapshot_id: int | None = None,
    same_name: Callable[[str], str] = str,
    tasks: int = 1,
) -> PastTasks:
    """Plan windows of time, with what the tables have now.

    Parameters
    ----------
    left : pyarrow.Schema
        The schema of the rows.
    table : Table
        The tile table.
    call : WindowCall
        The arguments of `Table.windows`, but for these:
    coarse : list of Table or dict of str to Table, default ()
        Tables with larger tiles.
    snapshot_id : int, default None
        The snapshot. None: the newest one.
    same_name : callable, default str
        Maps names that count as the same name to one text.
    tasks : int, default 1
        The number of tasks for a table whose buckets do not follow from the entity, or with partitions.

    Returns
    -------
    PastTasks
        The read. This process keeps what it needs for an hour, or until it ends.

    Raises
    ------
    InvalidError
        The arguments or the tables do not fit.
    UnsupportedError
        The table is no tile table.
    NotFoundError
        There is no such table, column or snapshot.
    """
    planned, leases = planned_windows(left, (table, coarse), call, snapshot_id, same_name, tasks)
    KEPT.keep_leases(leases)
    return _Planned(planned)
