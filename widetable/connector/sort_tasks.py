"""Sorts an append table by tasks that an engine places: the driver plans and commits, each task sorts one partition.

    driver    sort_by_tasks(table, by, order, run)      plans the partitions that are not sorted yet
    run       sends each SortTask to some process, and yields it with its outcome
    driver    commits each partition when its outcome comes; one that lost a race is planned again

Tasks that yield no outcome leave orphan files; only the driver publishes. Raises what `Table.sort_compact` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from widetable.commit.transaction.commit_result import CommitResult
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.maintenance.sort_compact import SortOutcome, SortWork, sort_by
from widetable.write.table_state import TableState


class SortTask(Protocol):
    """The sort of one partition; picklable. It may run in any process that reaches the storage."""

    def run(self) -> object:
        """Sort the partition.

        Returns
        -------
        object
            The outcome, which is picklable: the new files, or the error that the sort met.
        """


# Runs tasks elsewhere, and yields each with its outcome, in any order.
RunSortTasks: TypeAlias = Callable[[Sequence[SortTask]], Iterable[tuple[SortTask, object]]]


@dataclass(frozen=True)
class _PartitionTask:
    state: TableState
    work: SortWork

    def run(self) -> SortOutcome:
        return self.work.perform(self.state)


def sort_by_tasks(
    table: OpenTable,
    by: Sequence[str],
    order: str,
    run: RunSortTasks,
    *,
    partitions: Any = None,
) -> CommitResult:
    """Sort a table as `Table.sort_compact` does, by tasks.

    Parameters
    ----------
    table : OpenTable
        The table.
    by, order
        As in `Table.sort_compact`.
    run : callable
        Takes SortTasks, runs them elsewhere, and yields each with its outcome, in any order.
    partitions
        As in `Table.sort_compact`.

    Returns
    -------
    CommitResult
        What was committed, of all partitions together.

    Raises
    ------
    InvalidError
        A column is nested or there twice, or the order is none of these.
    UnsupportedError
        The table has a primary key, or buckets.
    ConflictError
        Other commits changed the files of a partition in each of several tries.
    """

    def run_works(
        state: TableState, works: Iterable[SortWork]
    ) -> Iterator[tuple[SortWork, SortOutcome]]:
        for task, outcome in run([_PartitionTask(state, work) for work in works]):
            assert isinstance(task, _PartitionTask)
            yield task.work, cast("SortOutcome", outcome)

    return sort_by(table, by, order, partitions=partitions, run=run_works)
