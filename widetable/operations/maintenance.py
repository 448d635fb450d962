"""Keeps a table in order for as long as it runs: compacts what is due, expires snapshots, removes orphans.

    idle: one look at the newest snapshot id ─► changed ─► compact (with the table's producer) ─► expire ─► orphans

A `Maintainer` does one round at a time; `maintain` is the loop around it. A `write-only` table is compacted by nobody
else, so its lease is held between the rounds too, which tells that somebody is there (`unattended`); a table whose
writers compact gets the lease for the compaction alone. Who does not get the lease waits. Several maintainers by
mistake are safe: commits are optimistic. A round that fails is told in the log and done again, later each time.

Raises what only the user can mend: InvalidError, UnsupportedError, NotFoundError for a table that is gone, DamagedError
of the same file again and again; and with `once` every error.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from widetable import options as opt
from widetable.commit.clock import Clock, SystemClock
from widetable.commit.committer import CommitResult, Committer
from widetable.commit.lease import holder
from widetable.commit.schema_store import SchemaStore
from widetable.errors import InvalidError, NotFoundError, UnsupportedError, WidetableError
from widetable.operations.compaction import compact_all
from widetable.operations.expiry import expire
from widetable.operations.expiry_choice import retention_of
from widetable.operations.held_lease import held_lease
from widetable.operations.maintenance_rule import (
    Answer,
    Compaction,
    Progress,
    answer_to,
    due_compaction,
    wait_millis,
)
from widetable.operations.orphans import remove_orphans
from widetable.operations.supported import check_writable
from widetable.write.table_state import TableState

INTERVAL_MILLIS: Final = 1000
_EXPIRY_MILLIS: Final = 10_000
# Snapshots grow too old without new ones as well.
_IDLE_EXPIRY_MILLIS: Final = 300_000
_ORPHANS_MILLIS: Final = 86_400_000
_log = logging.getLogger("widetable")

# Compacts a table, fully or what is due; raises ConflictError when it lost.
Compact: TypeAlias = Callable[[TableState, Committer, bool], CommitResult]


def compact_here(state: TableState, committer: Committer, full: bool) -> CommitResult:
    """In this process, one bucket after the other."""
    return compact_all(state, committer, full=full)


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
        for name in (
            "interval_millis",
            "full_compaction_interval_millis",
            "orphans_older_than_millis",
        ):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidError(
                    name, found=f"{value}", expected="0 or more", action="Correct the argument."
                )


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done, of one round or of all. waits: rounds in which another maintainer had the lease. failures: rounds
    that failed. snapshot_id: of the last compaction.
    """

    __module__ = "widetable"

    rounds: int = 0
    compactions: int = 0
    full_compactions: int = 0
    expired_snapshots: int = 0
    orphan_files: int = 0
    waits: int = 0
    failures: int = 0
    snapshot_id: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return self == MaintenanceResult(rounds=self.rounds)

    def plus(self, other: MaintenanceResult) -> MaintenanceResult:
        return MaintenanceResult(
            self.rounds + other.rounds,
            self.compactions + other.compactions,
            self.full_compactions + other.full_compactions,
            self.expired_snapshots + other.expired_snapshots,
            self.orphan_files + other.orphan_files,
            self.waits + other.waits,
            self.failures + other.failures,
            self.snapshot_id if other.snapshot_id is None else other.snapshot_id,
        )


class Maintainer:
    """One round at a time, by one thread; close it, or use `with`. state_of: the table as it is now.

    compact: how a table is compacted; by default in this process.
    """

    def __init__(
        self,
        state_of: Callable[[], TableState],
        committer: Committer,
        upkeep: Upkeep,
        compact: Compact = compact_here,
        clock: Clock | None = None,
    ) -> None:
        self._state_of = state_of
        self._committer = committer
        self._upkeep = upkeep
        self._compact = compact
        self._clock = clock or SystemClock()
        self._lease = _StandingLease()
        self._cleaner = _Cleaner(committer, upkeep, self._clock)
        state = state_of()
        check_writable(state.schema)
        self._file_io, self._paths = state.file_io, state.paths
        self._producer = state.options.get(opt.CHANGELOG_PRODUCER)
        self._settled_id: int | None = None
        self._full_id: int | None = None
        self._full_at_millis: float | None = None
        self._errors: list[BaseException] = []
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
        return wait_millis(self._upkeep.interval_millis, len(self._errors))

    def round(self) -> MaintenanceResult:
        """Do what is due. An error that another try may mend is logged and counted; others are raised."""
        try:
            done = self._round()
        except (WidetableError, pa.ArrowException, OSError) as error:
            self._answer(error)
            return MaintenanceResult(rounds=1, failures=1)
        self._errors.clear()
        return replace(done, rounds=1)

    def run_once(self) -> MaintenanceResult:
        """Do everything now, whoever has the lease. Raises every error."""
        state = self._state_of()
        progress = Progress(self._committer.snapshots.latest_id(), None, None, None)
        done = self._compacted(state, progress, self._due(progress, state))
        done = done.plus(self._cleaner.clean(state, progress.latest_id, at_once=True))
        return replace(done, rounds=1)

    def _round(self) -> MaintenanceResult:
        if not self._has_begun:
            self._lease.stand(self._state_of())
            self._has_begun = True
        progress = self._progress()
        if progress.latest_id is None:
            SchemaStore(self._file_io, self._paths).latest()  # raises for a table that was dropped
        due = self._due(progress)
        if due is Compaction.NONE and not self._cleaner.is_due(progress.latest_id):
            return MaintenanceResult()
        state = self._state_of()
        due = self._due(progress, state)
        done = MaintenanceResult()
        if due is not Compaction.NONE:
            with self._lease.held(state) as is_ours:
                if not is_ours:
                    return MaintenanceResult(waits=1)
                done = self._compacted(state, progress, due)
        return done.plus(self._cleaner.clean(state, progress.latest_id, at_once=False))

    def _progress(self) -> Progress:
        since_full_millis = (
            None
            if self._full_at_millis is None
            else self._clock.monotonic_millis() - self._full_at_millis
        )
        return Progress(
            self._committer.snapshots.latest_id(),
            self._settled_id,
            self._full_id,
            since_full_millis,
            self._file_io.exists(self._paths.compaction_wanted),
        )

    def _due(self, progress: Progress, state: TableState | None = None) -> Compaction:
        """Without a state: as far as is known from the round before."""
        if state is not None:
            self._producer = state.options.get(opt.CHANGELOG_PRODUCER)
        return due_compaction(
            progress, self._producer, self._upkeep.full_compaction_interval_millis
        )

    def _compacted(
        self, state: TableState, progress: Progress, due: Compaction
    ) -> MaintenanceResult:
        if due is Compaction.NONE:
            return MaintenanceResult()
        is_full = due is Compaction.FULL
        result = self._compact(state, self._committer, is_full)
        if is_full:
            self._full_id = result.snapshot_id or progress.latest_id
            self._full_at_millis = self._clock.monotonic_millis()
        if not result.committed:
            self._settled_id = progress.latest_id
            return MaintenanceResult()
        _log.info("compacted %s: %s", self._paths.root, result)
        return MaintenanceResult(
            compactions=1, full_compactions=int(is_full), snapshot_id=result.snapshot_id
        )

    def _answer(self, error: BaseException) -> None:
        """Log it and go on, or raise it."""
        answer = answer_to([*self._errors, error], table_is_there=self._table_is_there())
        if answer is Answer.GIVE_UP:
            raise error
        if answer is Answer.AGAIN:
            _log.info("maintenance of %s goes again: %s", self._paths.root, error)
            return
        self._errors.append(error)
        _log.warning(
            "maintenance of %s failed %d times, next try in %d ms",
            self._paths.root,
            len(self._errors),
            self.wait_millis,
            exc_info=error,
        )

    def _table_is_there(self) -> bool:
        try:
            SchemaStore(self._file_io, self._paths).latest()
        except NotFoundError:
            return False
        except WidetableError:
            return True
        return True


class _StandingLease:
    """The compaction lease: of a `write-only` table from round to round, of others while a block runs."""

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


class _Cleaner:
    """Expires snapshots and removes orphans when it is time."""

    def __init__(self, committer: Committer, upkeep: Upkeep, clock: Clock) -> None:
        self._committer = committer
        self._upkeep = upkeep
        self._clock = clock
        self._expires = upkeep.expire
        self._seen_id: int | None = None
        self._expired_at_millis: float | None = None
        self._cleaned_at_millis: float | None = None

    def is_due(self, latest_id: int | None) -> bool:
        return self._expiry_is_due(latest_id) or self._orphans_are_due()

    def clean(
        self, state: TableState, latest_id: int | None, *, at_once: bool
    ) -> MaintenanceResult:
        done = MaintenanceResult()
        if self._expires and (at_once or self._expiry_is_due(latest_id)):
            done = replace(done, expired_snapshots=self._expire(state, latest_id))
        if self._upkeep.orphans_older_than_millis is not None and (
            at_once or self._orphans_are_due()
        ):
            done = replace(done, orphan_files=self._remove_orphans(state))
        return done

    def _expiry_is_due(self, latest_id: int | None) -> bool:
        if not self._expires or latest_id is None:
            return False
        often = _EXPIRY_MILLIS if latest_id != self._seen_id else _IDLE_EXPIRY_MILLIS
        return self._has_passed(self._expired_at_millis, often)

    def _orphans_are_due(self) -> bool:
        wanted = self._upkeep.orphans_older_than_millis is not None
        return wanted and self._has_passed(self._cleaned_at_millis, _ORPHANS_MILLIS)

    def _has_passed(self, since_millis: float | None, millis: int) -> bool:
        return since_millis is None or self._clock.monotonic_millis() - since_millis >= millis

    def _expire(self, state: TableState, latest_id: int | None) -> int:
        """How many snapshots went. A table that this version may not expire is told once."""
        try:
            gone = expire(state, self._committer, retention_of(state.options)).ids
        except UnsupportedError as error:
            _log.warning("snapshots of %s do not expire: %s", state.paths.root, error)
            self._expires = False
            return 0
        # At the limit of one expiry, there is more.
        self._expired_at_millis = None if gone else self._clock.monotonic_millis()
        self._seen_id = latest_id
        return len(gone)

    def _remove_orphans(self, state: TableState) -> int:
        older_than_millis = self._upkeep.orphans_older_than_millis
        assert older_than_millis is not None
        found = remove_orphans(state, self._committer, older_than_millis, dry_run=False)
        self._cleaned_at_millis = self._clock.monotonic_millis()
        return len(found.paths)


def maintain(
    maintainer: Maintainer,
    *,
    once: bool = False,
    stop: threading.Event | None = None,
    on_round: Callable[[MaintenanceResult], None] | None = None,
) -> MaintenanceResult:
    """Round after round until `stop` is set, or all that is due once. What was done. on_round: told of each round."""
    if once:
        return maintainer.run_once()
    stop = stop or threading.Event()
    done = MaintenanceResult()
    while not stop.is_set():
        of_round = maintainer.round()
        done = done.plus(of_round)
        if on_round is not None:
            on_round(of_round)
        stop.wait(maintainer.wait_millis / 1000)
    return done
