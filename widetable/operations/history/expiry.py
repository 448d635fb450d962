"""Expires old snapshots with the files that only they name (docs/decisions/0009-expiry.md).

    choose ─► note each snapshot file ─► check again who needs them ─► remove the snapshot files, oldest first
           ─► sweep: delete what only the notes name, then the notes ─► EARLIEST hint

If the process dies after    the state is                                       the next expiry
    note                     a note of a snapshot that stays                    chooses again; withdraws
                                                                                it after 10 minutes
    removing snapshot 3      3 is removed, its files exist, its note too        sweeps from the note
    some of the files        as before, fewer files                             the same, skips those
    the notes                all done, an old hint                              writes the hint

A snapshot's files are deleted only when its own file is gone, so a reader finds it whole or gets an error that it has
expired; the notes make the next expiry finish an unfinished one. It needs no space on the disk, so that a full one
can be freed (docs/decisions/0014-full-disks.md). It is never part of a commit, and correct without any lease: several
may run at once. Raises UnsupportedError for a table whose changelog is kept longer than its snapshots, what
`expiry_sweep` raises, InvalidError for a retention that contradicts itself, StorageError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import LARGEST, flag
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.holds.snapshot_holds import forget_holds
from widetable.commit.holds.tag_store import TagStore
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.snapshots.snapshot_times import Times
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError, StorageError
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.automatic_tags import create_due_tags
from widetable.operations.history.expiry_choice import Retention, choose_snapshots, retention_of
from widetable.operations.history.expiry_sweep import ExpirySweep
from widetable.operations.history.orphans import stored_files
from widetable.operations.history.snapshot_holders import Holder, holders
from widetable.operations.history.table_space import EXPIRY, HeldBytes, Keeping, held_bytes
from widetable.schema import retention_options as retention
from widetable.schema.tag_options import TAG_TIME_EXPIRE_ENABLED
from widetable.write.table_state import TableState

# A note of a snapshot that stays is withdrawn at this age, when no expiry can still be about to act on it.
_WITHDRAW_MILLIS: Final = 600_000
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class ExpiryResult:
    """What an expiry removed, or what it would remove in a dry run.

    Attributes
    ----------
    ids : tuple of int
        The snapshots that were removed, ascending.
    files, bytes : int
        Number and size of the deleted data files, changelog files and metadata files.
    consumers : tuple of str
        Consumers that were removed because they made no progress for `consumer.expiration-time`.
    tags : tuple of str
        Tags whose time was over. Files that only they kept are orphans now.
    held : tuple of HeldBytes
        In a dry run: who keeps the other snapshots, as in `Inspector.space`.
    """

    __module__ = "widetable"

    ids: tuple[int, ...] = ()
    files: int = 0
    bytes: int = 0
    consumers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    held: tuple[HeldBytes, ...] = ()


def expire_snapshots(
    table: OpenTable,
    num_retained_min: int | None = None,
    num_retained_max: int | None = None,
    time_retained_millis: int | None = None,
    limit: int | None = None,
    dry_run: bool = False,
) -> ExpiryResult:
    """Remove old snapshots, and the files that only they have.

    A snapshot is removed when more than `num_retained_min` stay, and either it was not the newest one within
    `time_retained_millis`, or more than `num_retained_max` stay. Snapshots that tags, consumers, readers with a lease,
    pins of lookup joins and the newest complete barrier need stay. Several may call it at once, and again after a kill.

    Parameters
    ----------
    num_retained_min : int, default None
        How many snapshots stay at least. None: option `snapshot.num-retained.min`, which a lower
        `num_retained_max` moves along.
    num_retained_max : int, default None
        How many snapshots stay at most. None: option `snapshot.num-retained.max`, which a higher
        `num_retained_min` moves along.
    time_retained_millis : int, default None
        Milliseconds for which a snapshot stays. None: option `snapshot.time-retained`.
    limit : int, default None
        How many snapshots go at most. None: option `snapshot.expire.limit`.
    dry_run : bool, default False
        Remove nothing, only name what would go.

    Returns
    -------
    ExpiryResult
        The ids of the snapshots that went, and how many files and bytes.

    Raises
    ------
    InvalidError
        The minimum is below 1 or above the maximum, or a number is negative.
    UnsupportedError
        The table has an option that this version does not honour, or one that keeps a changelog longer than
        its snapshot.

    Examples
    --------
    >>> users.write([{"id": 3, "city": "Oslo"}]).snapshot_id
    2
    >>> users.expire_snapshots(num_retained_max=1).ids
    (1,)
    """
    dry_run = flag(dry_run, "dry_run")
    state = table._state()
    accept(state.schema, Use.MAINTAIN)
    retention = retention_of(
        state.options,
        num_min=num_retained_min,
        num_max=num_retained_max,
        time_millis=time_retained_millis,
        limit=limit,
    )
    return expire(state, table._committer, retention, dry_run=dry_run)


def expire(
    state: TableState,
    committer: Committer,
    retention: Retention,
    clock: Clock | None = None,
    *,
    dry_run: bool = False,
) -> ExpiryResult:
    """Expire what `retention`, consumers and leases allow, and finish an earlier expiry that was interrupted.

    dry_run: only say what would be removed, and who keeps the rest.
    """
    accept(state.schema, Use.EXPIRE)
    expiry = _Expiry(state, committer, clock or SystemClock())
    return expiry.chosen(retention) if dry_run else expiry.run(retention)


def table_space(table: OpenTable) -> tuple[HeldBytes, ...]:
    """Return what the table occupies, and who keeps it, by its current options. Lists all its directories."""
    state, committer = table._state(), table._committer
    listed = stored_files(state)
    keeping = _Expiry(state, committer, SystemClock()).keeping(retention_of(state.options))
    return held_bytes(state, committer, keeping, listed)


class _Expiry:
    def __init__(self, state: TableState, committer: Committer, clock: Clock) -> None:
        self._state = state
        self._file_io = state.file_io
        self._paths = state.paths
        self._committer = committer
        self._clock = clock
        self._consumers = ConsumerStore(state.file_io, state.paths)
        self._retired = RetiredSnapshots(state.file_io, state.paths)
        self._tags = TagStore(state.file_io, state.paths)
        self._untagged_id: int | None = None

    def run(self, retention: Retention) -> ExpiryResult:
        forgotten = tuple(name for name in self._idle_consumers() if self._consumers.delete(name))
        # Idle consumers and ended tags are removed first; due tags are made before any snapshot is removed.
        tags = self._ended_tags()
        for name in tags:
            self._tags.discard(name)
        self._untagged_id = create_due_tags(self._state)
        forget_holds(self._state, 0, self._clock)
        ids = self._retire(self._choose(retention, self._needed()))
        files, size_bytes = ExpirySweep(self._state, self._committer, self._retired).run()
        self._hint()
        return ExpiryResult(ids, files, size_bytes, forgotten, tags)

    def chosen(self, retention: Retention) -> ExpiryResult:
        """Return what would be removed now."""
        keeping, idle = self.keeping(retention), self._idle_consumers()
        lines = held_bytes(self._state, self._committer, keeping)
        going = [line for line in lines if line.holder == EXPIRY]
        return ExpiryResult(
            tuple(sorted(keeping.due)),
            sum(line.files for line in going),
            sum(line.bytes for line in going),
            tuple(idle),
            tuple(sorted(keeping.ended_tags)),
            tuple(line for line in lines if line.holder != EXPIRY),
        )

    def keeping(self, retention: Retention) -> Keeping:
        """Return who would keep which snapshots if they expired now."""
        holders = self._holders(without=self._idle_consumers())
        due = self._choose(retention, [one.snapshot_id for one in holders])
        free = self._choose(replace(retention, limit=LARGEST), [])
        return Keeping(frozenset(due), frozenset(free), holders, frozenset(self._ended_tags()))

    def _idle_consumers(self) -> list[str]:
        idle_millis = self._state.options.get(retention.CONSUMER_EXPIRATION_TIME)
        if idle_millis is None:
            return []
        return self._consumers.idle(self._now_millis() - idle_millis)

    def _ended_tags(self) -> tuple[str, ...]:
        if not self._state.options.get(TAG_TIME_EXPIRE_ENABLED):
            return ()
        return tuple(self._tags.expired(self._now_millis()))

    def _choose(self, retention: Retention, needed: list[int]) -> Sequence[int]:
        """Choose the snapshots to remove. Most expiries choose none, and do so without listing the snapshots.

        Some snapshots in between may be lost: then it chooses from the existing ones.
        """
        snapshots = self._committer.snapshots
        earliest_id, latest_id = snapshots.earliest_id() or 1, snapshots.latest_id() or 0
        times, now_millis = Times(snapshots.time_of), self._now_millis()
        ids = range(earliest_id, latest_id + 1)
        chosen = choose_snapshots(ids, retention, needed, now_millis, times.of)
        if not chosen and not times.has_missed:
            return chosen
        times = Times(snapshots.time_of)
        return choose_snapshots(snapshots.ids(), retention, needed, now_millis, times.of)

    def _needed(self) -> list[int]:
        """Return the first snapshots that readers still need."""
        untagged = [] if self._untagged_id is None else [self._untagged_id]
        return [*(one.snapshot_id for one in self._holders()), *untagged]

    def _holders(self, without: Sequence[str] = ()) -> list[Holder]:
        return holders(self._state, self._committer, self._clock, without)

    def _retire(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Remove the files of the chosen snapshots that no one needs meanwhile."""
        removed: list[int] = []
        try:
            noted = self._noted(chosen)
            # A reader writes its lease, then checks for notes: a reader that missed our note is found here.
            needed = self._needed()
            going = [id for id in noted if not needed or id < min(needed)]
            if going:
                # Snapshots of other clients do not repeat the last commits of users: they are kept
                # before the last snapshot with them is removed.
                latest_id = self._committer.snapshots.latest_id() or going[-1]
                self._committer.last_commits.keep(going, range(going[-1] + 1, latest_id + 1))
            for id in going:
                if self._file_io.delete(self._paths.snapshot(id)):
                    removed.append(id)
        finally:
            self._retired.withdraw_own(removed)
        self._retired.withdraw(self._now_millis() - _WITHDRAW_MILLIS)
        newest_id = self._committer.snapshots.latest_id()
        if newest_id is not None:
            # Also syncs the directory: the removal of snapshots is durable before their files are deleted.
            self._file_io.sync(self._paths.snapshot(newest_id))
        return tuple(removed)

    def _noted(self, ids: Iterable[int]) -> list[int]:
        """Write the notes. Return the snapshots that have one: all existing ones, or as many as the storage takes."""
        noted: list[int] = []
        for id in ids:
            try:
                if self._note(id):
                    noted.append(id)
            except StorageError as refusal:
                if not noted:
                    raise
                warn(
                    _log,
                    WarningCode.EXPIRY_INCOMPLETE,
                    "fewer snapshots of %s expire: %s",
                    self._paths.root,
                    refusal,
                )
                break
        return noted

    def _note(self, id: int) -> bool:
        try:
            return self._retired.note(id)
        except StorageError:
            # A name takes no space, but its directory may: the hint is deleted, and written again later.
            if not self._file_io.delete(self._paths.earliest_hint):
                raise
            return self._retired.note(id)

    def _hint(self) -> None:
        """Write which snapshot is the earliest now, if there is space for it."""
        earliest_id = self._committer.snapshots.earliest_id()
        if earliest_id is None:
            return
        path, text = self._paths.earliest_hint, str(earliest_id).encode()
        try:
            current = self._file_io.read(path)
        except NotFoundError:
            current = b""
        try:
            if current != text:
                self._file_io.replace(path, text, durable=False)
        except StorageError as refusal:
            warn(
                _log,
                WarningCode.HINT_NOT_UPDATED,
                "the hint to the earliest snapshot is not updated: %s",
                refusal,
            )

    def _now_millis(self) -> int:
        return self._clock.now_nanos() // 1_000_000
