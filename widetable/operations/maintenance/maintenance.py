"""Maintain a table continuously: compact what is due, expire snapshots, remove orphans.

    idle: read the newest snapshot id ─► changed ─► compact (with the table's producer) ─► expire ─► orphans

A `Maintainer` does one round at a time; `maintain` is the loop around it. Only maintainers compact a `write-only`
table, so they keep its lease between the rounds, too, which shows that it is attended (`unattended`). They take the
lease of a table whose writers compact only for the compaction. A maintainer without the lease waits. Several
maintainers by mistake are safe, because commits are optimistic. A round that fails is logged and retried with growing
delays. Expiry and removal of orphans run after a failure, too, because they may free the space that the rest needs.

A bucket with a damaged data file, or with rows that cannot be merged, is skipped, logged, and retried later
(`quarantined_buckets`); so is a derived table that fails (`derived_tables`).

Raises what only the user can fix: InvalidError, UnsupportedError, NotFoundError for a table that is gone, DamagedError
that repeats for the same file outside of a bucket. With `once` it raises every error, in the end those of buckets and
of derived tables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import LONGEST_MILLIS, flag, whole_number
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.commit.notes.lease import holder
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError, StorageError, WidetableError
from widetable.format.human_units import duration_text
from widetable.lsm.bucket_plan import Scope
from widetable.merge.record_expiry import look_interval_millis
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.compaction import Compacted, compact_all
from widetable.operations.compaction.locked_partition import locked_partition
from widetable.operations.compaction.quarantined_buckets import BucketError
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.maintenance.cleaner import Cleaner
from widetable.operations.maintenance.maintenance_result import MaintenanceResult
from widetable.operations.maintenance.maintenance_rule import (
    Answer,
    Compaction,
    Failures,
    Progress,
    answer_to,
    due_compaction,
    wait_millis,
)
from widetable.runtime.not_pickled import not_pickled
from widetable.schema import options as opt
from widetable.write.table_state import TableState

INTERVAL_MILLIS: Final = 1000
GROUP_SECONDS: Final = 0.5
# Derived tables may give the table new work, a few times; while writers run, there is always more.
_MAX_ROUNDS_AT_ONCE: Final = 10
_log = logging.getLogger("widetable")
# The errors after which a maintainer retries; they include faults of this package.
_SURVIVED: Final = Exception

# Compacts a table in a scope, and answers notes that wait for it; raises ConflictError if another commit was faster.
Compact: TypeAlias = Callable[[TableState, Committer, Scope], Compacted]

_SCOPES: Final = {
    Compaction.PICKED: Scope.DUE,
    Compaction.FULL: Scope.FULL,
    Compaction.EXPIRY: Scope.EXPIRY,
}


def compact_here(state: TableState, committer: Committer, scope: Scope) -> Compacted:
    """Compact in this process, one bucket after the other, in short groups so that readers of changes wait for few."""
    return compact_all(state, committer, scope, group_seconds=GROUP_SECONDS)


@dataclass(frozen=True)
class Upkeep:
    """Says what a maintainer does, and how often.

    Attributes
    ----------
    interval_millis : int
        Milliseconds between two rounds.
    full_compaction_interval_millis : int or None
        How often all is compacted. None: never, but every minute for the producer `full-compaction`.
    expire : bool
        Whether snapshots expire.
    orphans_older_than_millis : int or None
        Once a day, files that nothing names are removed if they are so old. None: never.
    """

    interval_millis: int = INTERVAL_MILLIS
    full_compaction_interval_millis: int | None = None
    expire: bool = True
    orphans_older_than_millis: int | None = None

    def __post_init__(self) -> None:
        whole_number(self.interval_millis, "interval_millis", least=0, most=LONGEST_MILLIS)
        flag(self.expire, "expire")
        for name in ("full_compaction_interval_millis", "orphans_older_than_millis"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name, least=0)


class Derived(NamedTuple):
    """Holds what was done for all derived tables of a table. errors: of those that failed."""

    result: MaintenanceResult = MaintenanceResult()
    errors: tuple[Exception, ...] = ()


class Maintainer:
    """Runs one round at a time, in one thread; close it, or use `with`.

    state_of: returns the current state of the table. compact: compacts a table; by default in this process. derive:
    brings the derived tables up to date with the table's newest snapshot.
    """

    __reduce_ex__ = not_pickled

    def __init__(
        self,
        state_of: Callable[[], TableState],
        committer: Committer,
        upkeep: Upkeep,
        compact: Compact = compact_here,
        clock: Clock | None = None,
        *,
        derive: Callable[[int | None], Derived] = lambda latest_id: Derived(),
    ) -> None:
        self._state_of = state_of
        self._committer = committer
        self._upkeep = upkeep
        self._compact = compact
        self._derive = derive
        self._clock = clock or SystemClock()
        self._lease = _MaintenanceLease()
        self._cleaner = Cleaner(
            committer,
            self._clock,
            expires=upkeep.expire,
            older_than_millis=upkeep.orphans_older_than_millis,
        )
        state = state_of()
        accept(state.schema, Use.MAINTAIN)
        self._file_io, self._paths = state.file_io, state.paths
        self._producer = state.options.get(opt.CHANGELOG_PRODUCER)
        self._look_millis = look_interval_millis(state.schema)
        # The state between rounds; see `maintenance_rule.Progress`. A new maintainer has none, so its first round
        # checks all buckets.
        self._settled_id: int | None = None
        self._full_id: int | None = None
        self._full_at_millis: float | None = None
        self._looked_at_millis: float | None = None
        self._failures = Failures()
        self._damage: tuple[BucketError, ...] = ()
        self._damage_at_millis = 0.0
        self._has_begun = False

    def __enter__(self) -> Maintainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lease."""
        self._lease.release()

    @property
    def wait_millis(self) -> int:
        """Return how long to wait before the next round, in milliseconds."""
        return wait_millis(self._upkeep.interval_millis, self._failures.count)

    def round(self) -> MaintenanceResult:
        """Do what is due. An error that a retry may resolve is logged and counted; others are raised.

        An idle round reads the newest snapshot id and lists notes once, besides what `derive` reads.

        Returns
        -------
        MaintenanceResult
            What was done.
        """
        try:
            done, error = self._round()
        except _SURVIVED as failure:
            done, error = MaintenanceResult(), failure
        if error is None:
            self._failures = Failures()
            return replace(done, rounds=1)
        self._answer(error)
        return replace(done, rounds=1, failures=1)

    def run_once(self) -> MaintenanceResult:
        """Do everything now, whoever has the lease, until nothing is due, including derived tables and their changelog.

        Every error is raised, except one that cleaning has resolved.

        Returns
        -------
        MaintenanceResult
            What was done.
        """
        state = self._state_of()
        progress = Progress(self._committer.snapshots.latest_id(), None, None, None)
        try:
            done = self._compacted_at_once(state, progress)
        except _SURVIVED:
            cleaned = self._cleaner.clean(state, progress.latest_id, at_once=True)
            if not cleaned.freed_files:
                raise
            done = self._compacted_at_once(state, progress).plus(cleaned)
        else:
            done = done.plus(self._cleaner.clean(state, progress.latest_id, at_once=True))
        errors: tuple[Exception, ...] = ()
        for _ in range(_MAX_ROUNDS_AT_ONCE):
            derived = self._derive(self._committer.snapshots.latest_id())
            done, errors = done.plus(derived.result), derived.errors
            if not (derived.result.derived_rows or derived.result.derived_barriers):
                break
            # The new rows wait for their changelog, and completed barriers release other files for compaction.
            latest_id = self._committer.snapshots.latest_id()
            done = done.plus(self._compacted_at_once(state, Progress(latest_id, None, None, None)))
        for error in (*self._damage, *errors):
            raise error
        return replace(done, rounds=1)

    def _round(self) -> tuple[MaintenanceResult, Exception | None]:
        """Run one round, and return what was done, with the error that stopped the rest."""
        progress = self._progress()
        if progress.latest_id is None:
            SchemaStore(self._file_io, self._paths).latest()  # raises for a table that was dropped
        done = MaintenanceResult()
        error: Exception | None = None
        try:
            done = self._compacted_if_due(progress)
            newest_id = done.snapshot_id or progress.latest_id
            derived = self._derive(newest_id)
            done = done.plus(derived.result)
            refusals = [each for each in derived.errors if isinstance(each, StorageError)]
            error = refusals[0] if refusals else None
        except _SURVIVED as failure:
            error = failure
        if done.waits or not (error or self._cleaner.is_due(progress.latest_id)):
            return done, error
        try:
            state, at_once = self._state_of(), isinstance(error, StorageError)
            done = done.plus(self._cleaner.clean(state, progress.latest_id, at_once=at_once))
        except _SURVIVED as failure:
            if error is None:
                return done, failure
            warn(
                _log,
                WarningCode.CLEANUP_FAILED,
                "%s was not cleaned: %s",
                self._paths.root,
                failure,
            )
        return done, error

    def _compacted_at_once(self, state: TableState, progress: Progress) -> MaintenanceResult:
        due = self._due(progress, state)
        done = self._compacted(state, progress, due)
        if due is Compaction.EXPIRY:
            done = done.plus(self._compacted(state, progress, Compaction.PICKED))
        return done

    def _compacted_if_due(self, progress: Progress) -> MaintenanceResult:
        if not self._has_begun:
            self._lease.keep(self._state_of())
            self._has_begun = True
        if self._due(progress) is Compaction.NONE:
            return MaintenanceResult()
        state = self._state_of()
        due = self._due(progress, state)
        # Only the state has the options of now, which may have changed.
        if due is Compaction.NONE:
            return MaintenanceResult()
        with self._lease.leased(state) as is_ours:
            if not is_ours:
                return MaintenanceResult(waits=1)
            return self._compacted(state, progress, due)

    def _progress(self) -> Progress:
        now_millis = self._clock.monotonic_millis()
        since_full_millis = (
            None if self._full_at_millis is None else now_millis - self._full_at_millis
        )
        looked_at_millis = self._looked_at_millis
        return Progress(
            self._committer.snapshots.latest_id(),
            self._settled_id,
            self._full_id,
            since_full_millis,
            bool(CompactionRequests(self._file_io, self._paths).open()),
            now_millis - self._damage_at_millis if self._damage else None,
            None if looked_at_millis is None else now_millis - looked_at_millis,
        )

    def _due(self, progress: Progress, state: TableState | None = None) -> Compaction:
        """Decide what is due. Without a state, the options of the round before are used."""
        if state is not None:
            self._producer = state.options.get(opt.CHANGELOG_PRODUCER)
            self._look_millis = look_interval_millis(state.schema)
        return due_compaction(
            progress,
            self._producer,
            self._upkeep.full_compaction_interval_millis,
            self._look_millis,
        )

    def _compacted(
        self, state: TableState, progress: Progress, due: Compaction
    ) -> MaintenanceResult:
        if due is Compaction.NONE:
            return MaintenanceResult()
        is_full = due is Compaction.FULL
        done = self._compact(state, self._committer, _SCOPES[due])
        result, self._damage = done.result, done.damage
        self._damage_at_millis = self._clock.monotonic_millis()
        if is_full:
            self._full_id = result.snapshot_id or progress.latest_id
            self._full_at_millis = self._clock.monotonic_millis()
        if due in (Compaction.FULL, Compaction.EXPIRY):
            self._looked_at_millis = self._clock.monotonic_millis()
        if not result.committed:
            # The id from before the compaction counts, so that the next round checks later commits. A partition that is
            # locked for rescaling was skipped, so nothing is settled then.
            is_settled = due is not Compaction.EXPIRY and locked_partition(state) is None
            self._settled_id = progress.latest_id if is_settled else self._settled_id
            return MaintenanceResult(damaged_buckets=len(done.damage))
        _log.info("compacted %s: %s", self._paths.root, result)
        return MaintenanceResult(
            compactions=1,
            full_compactions=int(is_full),
            snapshot_id=result.snapshot_id,
            damaged_buckets=len(done.damage),
        )

    def _answer(self, error: BaseException) -> None:
        """Log the error and continue, or raise it."""
        answer = answer_to(error, self._failures, table_is_there=self._table_is_there())
        if answer is Answer.GIVE_UP:
            raise error
        self._failures = self._failures.plus(error, answer)
        if answer is Answer.AGAIN:
            _log.info("retrying the maintenance of %s: %s", self._paths.root, error)
            return
        warn(
            _log,
            WarningCode.MAINTENANCE_FAILED,
            "maintenance of %s failed %d times, next try in %s",
            self._paths.root,
            self._failures.count,
            duration_text(self.wait_millis),
            exc_info=error,
        )

    def _table_is_there(self) -> bool:
        try:
            SchemaStore(self._file_io, self._paths).latest()
        except WidetableError as error:
            return not isinstance(error, NotFoundError)
        return True


class _MaintenanceLease:
    """Holds the compaction lease: for a `write-only` table from round to round, for others while a block runs.

    Writers that compact need the lease between our rounds. Writers of `write-only` tables only read from it whether a
    maintainer runs.
    """

    def __init__(self) -> None:
        self._holder: Final = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}:"
        self._kept = contextlib.ExitStack()
        self._is_kept = False

    @contextlib.contextmanager
    def leased(self, state: TableState) -> Iterator[bool]:
        """Yield whether this maintainer has the lease while the block runs."""
        self.keep(state)
        if state.options.get(opt.WRITE_ONLY):
            yield self._is_kept
            return
        with held_lease(state, self._holder) as is_ours:
            yield is_ours

    def keep(self, state: TableState) -> None:
        """Take the lease beyond a block, if the table is `write-only` and nobody else has it."""
        is_lost = self._is_kept and not self._is_ours(state)  # the process was paused for too long
        if is_lost or not state.options.get(opt.WRITE_ONLY):
            self.release()
        if state.options.get(opt.WRITE_ONLY) and not self._is_kept:
            self._is_kept = self._kept.enter_context(held_lease(state, self._holder))
            if not self._is_kept:
                self._kept.close()

    def release(self) -> None:
        self._is_kept = False
        self._kept.close()

    def _is_ours(self, state: TableState) -> bool:
        lease = holder(state.file_io, state.paths)
        return lease is not None and lease[0].startswith(self._holder)
