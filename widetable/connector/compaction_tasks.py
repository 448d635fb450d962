"""Compacts a table by tasks that an engine places: the driver plans and commits, each task compacts one bucket, or
brings the postponed rows of one partition into buckets.

    driver    Table.maintainer(upkeep, compaction_by(run)).round()     plans what is due
    run       sends each CompactionTask to some process, and yields it with its outcome
    driver    commits the outcomes in groups; a bucket that lost a race is planned again

A task that fails returns its error as the outcome, so that it does not affect other buckets. Tasks that yield no
outcome leave orphan files; only the driver publishes.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from widetable.commit.transaction.committer import Committer
from widetable.errors import WidetableError
from widetable.lsm.bucket_plan import Scope
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.compaction import Compacted, compact_all
from widetable.operations.compaction.compaction_job import BucketWork, Outcome, perform
from widetable.operations.compaction.postponed_rows import PlaceOutcome, PlaceWork
from widetable.operations.handle.lookup_caches import caches_of
from widetable.operations.maintenance.maintenance import Compact
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


class CompactionTask(Protocol):
    """The compaction of one bucket, or the placing of a partition's rows; picklable.

    It may run in any process that reaches the storage. A task that runs twice writes other files; pass on one outcome
    of the two.
    """

    @property
    def place(self) -> int:
        """Return a number that stays that of the bucket: on the same host its lookup caches are found again."""

    def run(self) -> object:
        """Do the work.

        Returns
        -------
        object
            The outcome, which is picklable: the new files, or the error that the work met.
        """


# Runs tasks elsewhere, and yields each with its outcome, in any order.
RunTasks: TypeAlias = Callable[[Iterable[CompactionTask]], Iterable[tuple[CompactionTask, object]]]


@dataclass(frozen=True)
class _BucketTask:
    state: TableState
    work: BucketWork

    @property
    def place(self) -> int:
        return zlib.crc32(self.work.bucket.partition) + self.work.bucket.number

    def run(self) -> Outcome:
        outcome = perform(self.state, self.work, caches_of(self.state))
        if isinstance(outcome, Exception) and not isinstance(outcome, WidetableError):
            warn(
                _log,
                WarningCode.TASK_NOT_COMPACTED,
                "bucket %d of %s was not compacted",
                self.work.bucket.number,
                self.state.paths.root,
                exc_info=outcome,
                level=logging.ERROR,
            )
        return outcome


@dataclass(frozen=True)
class _PlacingTask:
    state: TableState
    work: PlaceWork

    @property
    def place(self) -> int:
        return zlib.crc32(self.work.bucket.partition)

    def run(self) -> PlaceOutcome:
        return self.work.perform(self.state)


def compaction_by(run: RunTasks) -> Compact:
    """Return a function for `Table.maintainer` that compacts by tasks.

    Parameters
    ----------
    run : callable
        Takes CompactionTasks, runs them elsewhere, and yields each with its outcome, in any order. An error of the
        engine itself, such as lost processes, is a StorageError, after which the maintainer retries.

    Returns
    -------
    callable
        The function.
    """

    def compact(state: TableState, committer: Committer, scope: Scope) -> Compacted:
        def run_works(works: Iterable[BucketWork]) -> Iterator[tuple[BucketWork, Outcome]]:
            for task, outcome in run(_BucketTask(state, work) for work in works):
                assert isinstance(task, _BucketTask)
                yield task.work, cast("Outcome", outcome)

        def place(works: Iterable[PlaceWork]) -> Iterator[tuple[PlaceWork, PlaceOutcome]]:
            for task, outcome in run(_PlacingTask(state, work) for work in works):
                assert isinstance(task, _PlacingTask)
                yield task.work, cast("PlaceOutcome", outcome)

        return compact_all(state, committer, scope, run=run_works, place=place)

    return compact
