"""Keeps a table in order for as long as it runs: compacts what is due, expires snapshots, removes orphans.

    idle: one look at the newest snapshot id ─► changed ─► compact (with the table's producer) ─► expire ─► orphans

A `Maintainer` does one round at a time; `maintain` is the loop around it. A `write-only` table is compacted by nobody
else, so its lease is held between the rounds too, which shows that somebody is there (`unattended`); a table whose
writers compact gets the lease for the compaction alone. Who does not get the lease waits. Several maintainers by
mistake are safe: commits are optimistic. A round that fails is logged and done again, later each time; what
is due to go goes all the same, because it may be what makes room for the rest.

A bucket with a damaged data file, or with rows that cannot be merged, is passed by, logged, and looked at again later
(`quarantined_buckets`); so is what is made of the table and fails (`derived_tables`).

Raises what only the user can mend: InvalidError, UnsupportedError, NotFoundError for a table that is gone, DamagedError
of the same file again and again that is none of a bucket; and with `once` every error, in the end those of buckets and
of what is made of the table.
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

from widetable.arguments import LONGEST_MILLIS, flag, whole_number
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.compaction_requests import CompactionWishes
from widetable.commit.notes.lease import holder
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError, StorageError, WidetableError
from widetable.format.human_units import duration_text
from widetable.lsm.bucket_plan import Scope
from widetable.merge.record_expiry import look_interval_millis
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.compaction import Compacted, compact_all
from widetable.operations.compaction.locked_partition import resting_partition
from widetable.operations.compaction.quarantined_buckets import BucketError
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.supported import check_writable
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
# What is made of a table is news to it, a few times; beside writers that never rest there is always more.
_MOST_ROUNDS_AT_ONCE: Final = 10
_log = logging.getLogger("widetable")
# What a round survives when another one may be better off: a fault of ours too.
_SURVIVED: Final = Exception

# Compacts a table as far as a scope asks, and answers who waits for it; raises ConflictError when it lost.
Compact: TypeAlias = Callable[[TableState, Committer, Scope], Compacted]

_SCOPES: Final = {
    Compaction.PICKED: Scope.DUE,
    Compaction.FULL: Scope.FULL,
    Compaction.EXPIRY: Scope.EXPIRY,
}


def compact_here(state: TableState, committer: Committer, scope: Scope) -> Compacted:
    """In this process, one bucket after the other; readers of changes wait for few of them."""
    return compact_all(state, committer, scope, group_seconds=GROUP_SECONDS)


@dataclass(frozen=True)
class Upkeep:
    """What a maintainer does, and how often.

    full_compaction_interval_millis: None: never, but every minute for the producer `full-compaction`.
    orphans_older_than_millis: files that nothing names are removed once a day when they are so old; None: never.
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
    """What was done about all that is made of a table. errors: of what failed."""

    result: MaintenanceResult = MaintenanceResult()
    errors: tuple[Exception, ...] = ()


class Maintainer:
    """One round at a time, by one thread; close it, or use `with`. state_of: the table as it is now.

    compact: how a table is compacted; by default in this process. derive: brings what is made of the table up to date
    with its newest snapshot.
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
        self._lease = _StandingLease()
        self._cleaner = Cleaner(
            committer,
            self._clock,
            expires=upkeep.expire,
            older_than_millis=upkeep.orphans_older_than_millis,
        )
        state = state_of()
        check_writable(state.schema)
        self._file_io, self._paths = state.file_io, state.paths
        self._producer = state.options.get(opt.CHANGELOG_PRODUCER)
        self._look_millis = look_interval_millis(state.schema)
        # What is known from round to round; see `maintenance_rule.Progress`. A new maintainer knows nothing, so its
        # first round looks at all buckets.
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
        """Give the lease back."""
        self._lease.release()

    @property
    def wait_millis(self) -> int:
        """How long to wait before the next round."""
        return wait_millis(self._upkeep.interval_millis, self._failures.count)

    def round(self) -> MaintenanceResult:
        """Do what is due. An error that another try may mend is logged and counted; others are raised.
        An idle round costs a look at the newest id and one listing of notes, besides what
        `derive` looks at.
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
        """Do everything now, whoever has the lease, until nothing is due: what is made of the table, too, and its
        changelog. Raises every error, but one that cleaning may have mended.
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
        for _ in range(_MOST_ROUNDS_AT_ONCE):
            derived = self._derive(self._committer.snapshots.latest_id())
            done, errors = done.plus(derived.result), derived.errors
            if not (derived.result.derived_rows or derived.result.derived_barriers):
                break
            # What it wrote waits for its changelog, and what it completed lets others go.
            latest_id = self._committer.snapshots.latest_id()
            done = done.plus(self._compacted_at_once(state, Progress(latest_id, None, None, None)))
        for error in (*self._damage, *errors):
            raise error
        return replace(done, rounds=1)

    def _round(self) -> tuple[MaintenanceResult, Exception | None]:
        """What was done, and why not all of it."""
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
            warn(_log, WarningCode.NOT_CLEANED, "nor was %s cleaned: %s", self._paths.root, failure)
        return done, error

    def _compacted_at_once(self, state: TableState, progress: Progress) -> MaintenanceResult:
        due = self._due(progress, state)
        done = self._compacted(state, progress, due)
        if due is Compaction.EXPIRY:
            done = done.plus(self._compacted(state, progress, Compaction.PICKED))
        return done

    def _compacted_if_due(self, progress: Progress) -> MaintenanceResult:
        if not self._has_begun:
            self._lease.stand(self._state_of())
            self._has_begun = True
        if self._due(progress) is Compaction.NONE:
            return MaintenanceResult()
        state = self._state_of()
        due = self._due(progress, state)
        # The options may be others by now, which only the state says.
        if due is Compaction.NONE:
            return MaintenanceResult()
        with self._lease.held(state) as is_ours:
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
            bool(CompactionWishes(self._file_io, self._paths).open()),
            now_millis - self._damage_at_millis if self._damage else None,
            None if looked_at_millis is None else now_millis - looked_at_millis,
        )

    def _due(self, progress: Progress, state: TableState | None = None) -> Compaction:
        """Without a state: as far as is known from the round before."""
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
            # By the id of before the compaction: what was committed meanwhile is looked at in the next round. A
            # partition that rests was passed by, so nothing is settled.
            is_settled = due is not Compaction.EXPIRY and resting_partition(state) is None
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
        """Log it and go on, or raise it."""
        answer = answer_to(error, self._failures, table_is_there=self._table_is_there())
        if answer is Answer.GIVE_UP:
            raise error
        self._failures = self._failures.plus(error, answer)
        if answer is Answer.AGAIN:
            _log.info("maintenance of %s goes again: %s", self._paths.root, error)
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


class _StandingLease:
    """The compaction lease: of a `write-only` table from round to round, of others while a block runs.
    Writers that compact need it between our rounds; `write-only` ones ask it only whether
    somebody is there.
    """

    def __init__(self) -> None:
        self._holder: Final = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4()}:"
        self._standing = contextlib.ExitStack()
        self._stands = False

    @contextlib.contextmanager
    def held(self, state: TableState) -> Iterator[bool]:
        """Whether it is ours while the block runs."""
        self.stand(state)
        if state.options.get(opt.WRITE_ONLY):
            yield self._stands
            return
        with held_lease(state, self._holder) as is_ours:
            yield is_ours

    def stand(self, state: TableState) -> None:
        """Take it for longer than a block, if the table is one for that and nobody else has it."""
        is_lost = self._stands and not self._is_ours(state)  # while this process stood still
        if is_lost or not state.options.get(opt.WRITE_ONLY):
            self.release()
        if state.options.get(opt.WRITE_ONLY) and not self._stands:
            self._stands = self._standing.enter_context(held_lease(state, self._holder))
            if not self._stands:
                self._standing.close()

    def release(self) -> None:
        self._stands = False
        self._standing.close()

    def _is_ours(self, state: TableState) -> bool:
        found = holder(state.file_io, state.paths)
        return found is not None and found[0].startswith(self._holder)
