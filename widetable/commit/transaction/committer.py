"""Commits: the only place that makes snapshots.

    latest snapshot ─► replay? ─► delta; does it fit? ─► lists ─► publish snapshot-(N+1) ─► hint
           ▲                                                              │
           └───────────── another process published N+1 ◄─────────────────┘

Source: Paimon `FileStoreCommitImpl`; format.md sections 3 and 11. The publish is the commit point: files written
before it are orphans until then, files written after it are only hints. An append that loses the race retries on the
winner's lists, up to `commit.timeout`; a compaction or overwrite is checked against the winner first. Every attempt
searches for (user, identifier) (decisions 0005, 0015), so a repeated append or overwrite commits nothing. Raises

    ConflictError   the commit does not fit the newest snapshot, or lost too often; nothing was committed
    StorageError    the storage failed. If the publish failed, its outcome is looked up; if that is not known, the
                    message says so, and no file is deleted: commit again with the same user and identifier
    InvalidError    messages that do not belong into such a commit, a value that could not be read again, another
                    table than the one that was opened, or an identifier that another commit of the user has
    DamagedError    the newest snapshot, its lists or manifests are missing or broken
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Final

from widetable.arguments import whole_number
from widetable.commit.barriers.barrier_step import BarrierStep
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.snapshots.committed import highest_sequence_number, users_of
from widetable.commit.snapshots.last_commits import LastCommits
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.lost_snapshots import mark_snapshots
from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.commit.snapshots.published_files import PublishedFiles
from widetable.commit.snapshots.read_back import parsed_back
from widetable.commit.snapshots.schema_store import SchemaStore
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.uncompacted import uncompacted_behind
from widetable.commit.snapshots.writer_watermarks import writer_watermarks
from widetable.commit.transaction.attempts import Attempts
from widetable.commit.transaction.barrier_gate import barrier_properties
from widetable.commit.transaction.commit_delta import Deltas
from widetable.commit.transaction.commit_files import CommitFiles
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_request import (
    Append,
    CommitRequest,
    Compact,
    FileChanges,
    Follow,
    Header,
    Overwrite,
    Restore,
    Rewrite,
    has_effect,
)
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.commit_warnings import warn_of_clock, warn_of_many_users
from widetable.commit.transaction.index_files import IndexFiles
from widetable.commit.transaction.lost_attempts import LONGEST_WAIT_MILLIS, longest_wait_millis
from widetable.commit.transaction.next_snapshot import WRITER_VERSION, next_snapshot
from widetable.commit.transaction.ordered_append import OrderedAppend
from widetable.commit.transaction.plan_base import PlanBase
from widetable.commit.transaction.replay import CommitHistory, Replay
from widetable.commit.transaction.table_head import HeadState, TableHead
from widetable.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    NotFoundError,
    StorageError,
    WidetableError,
)
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.manifest_entry import Identity as FileIdentity
from widetable.format.snapshot import (
    COMMIT_KIND_APPEND,
    COMMIT_KIND_COMPACT,
    COMMIT_KIND_OVERWRITE,
    Snapshot,
    snapshot_from_json,
)
from widetable.kernels.jit import compiled_afterwards
from widetable.messages.error_code import ErrorCode
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.sequence import START_SPREAD, first_number
from widetable.write.table_state import TableState

# How often a snapshot whose publish failed is looked up while the storage fails to answer.
_ATTEMPTS: Final = 6
_log = logging.getLogger("widetable")


class Committer:
    """Commits to one table; thread-safe: state belongs to one call. Raises NotFoundError if there is no table."""

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._file_io = file_io
        self._paths = paths
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._is_marked = False  # not known yet
        self.last_published: Snapshot | None = None
        self.schemas = SchemaStore(file_io, paths)
        self.snapshots = SnapshotStore(file_io, paths)
        self.last_commits = LastCommits(file_io, paths)
        self._head = TableHead(file_io, paths, self.snapshots, self.schemas)
        self.identity = self._head.identity
        self.refresh = self._head.refresh
        schema = self.schemas.known()
        self._partition_types = [schema.field(name).type for name in schema.partition_keys]
        self.live_files = LiveFiles(file_io, paths, self._partition_types)
        self.level0 = Level0Labels(self.live_files, self.last_commits.load)
        self._deltas = Deltas(self.live_files, self.schemas, self.snapshots)
        self.indexes = IndexFiles(self.live_files)

    def append(
        self,
        messages: Iterable[CommitMessage],
        by: Identity | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        read_snapshot_id: int | None = None,
        barrier: BarrierStep | None = None,
    ) -> CommitResult:
        """Add the messages' new files at level 0. Without any, properties, watermark and barrier nothing is committed.
        read_snapshot_id: the source of their rows; raises ConflictError if a later commit wrote one of their keys.
        barrier: the effect on the barriers of the table.
        """
        if read_snapshot_id is not None:
            read_snapshot_id = whole_number(read_snapshot_id, "read_snapshot_id", least=0)
        header = Header.of(by, watermark, properties)
        changes = FileChanges.new(COMMIT_KIND_APPEND, messages)
        return self._commit(Append(header, changes, read_snapshot_id, barrier))

    def compact(
        self,
        messages: Iterable[CommitMessage],
        *,
        planned: PlanBase | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Replace the input files of a compaction by its output. planned: the files that it saw (`plan_base`). If it
        fails before it is published, the output is deleted. A repeated compaction raises ConflictError.
        """
        header = Header.of(None, None, properties)
        return self._commit(Compact(header, FileChanges.of(COMMIT_KIND_COMPACT, messages), planned))

    def overwrite(
        self,
        scope: Iterable[bytes] | None,
        messages: Iterable[CommitMessage],
        by: Identity | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Replace all files that are live in `scope` at the commit by the messages' new files.
        scope: partitions as BinaryRow bytes, None for the whole table; empty: only their `deleted_files` are deleted.
        """
        partitions = None if scope is None else frozenset(scope)
        header = Header.of(by, watermark, properties)
        changes = FileChanges.overwriting(partitions, messages)
        return self._commit(Overwrite(header, changes, partitions))

    def restore(
        self,
        messages: Iterable[CommitMessage],
        keeps: Iterable[FileIdentity],
        target: Snapshot | BarrierStep,
        by: Identity | None = None,
        *,
        is_first: bool = False,
    ) -> CommitResult:
        """Overwrite with files at the levels that they have, for rollbacks, revisions and copies.

        keeps: live files that stay, all others are deleted. target: the snapshot whose rows are restored, with its
        watermark if it is higher; or a revision. is_first: ConflictError if there is a snapshot.
        """
        header = Header.of(by, target.watermark if isinstance(target, Snapshot) else None)
        changes = FileChanges.new(COMMIT_KIND_OVERWRITE, messages, any_level=True)
        return self._commit(Restore(header, changes, frozenset(keeps), target, is_first))

    def rewrite(
        self, follow: Follow, by: Identity | None = None, *, rescaled: int | None = None
    ) -> CommitResult:
        """Overwrite with messages that `follow` returns. It is called in each attempt, under the commit lock of this
        machine, so it can include the last commits. rescaled: new number of buckets; no row changes.
        """
        return self._commit(Rewrite(Header.of(by), follow, rescaled))

    def replay_of(self, by: Identity, head: HeadState | None = None) -> Replay | None:
        """Return the append or overwrite that `by` repeats; None for a new one. Raises InvalidError if that is not
        known, see `replay`. head: a recent state of the table.
        """
        latest = (head or self.refresh()).latest
        return CommitHistory(self.last_commits.load, by, self._paths.root).replay(latest)

    def sequence_base(self, head: HeadState | None = None) -> int:
        """Return where the sequence numbers of a commit that starts now begin (decision 0004): at the clock in ns, but
        above all recorded numbers. Raises InvalidError if the clock leaves no numbers. head: of this operation.
        """
        return self._first_number(self._highest_sequence_number((head or self.refresh()).latest))

    def _first_number(self, noted: int) -> int:
        return first_number(self._clock.now_nanos(), noted, self._rng.randrange(START_SPREAD))

    def _commit(self, request: CommitRequest) -> CommitResult:
        history = CommitHistory(self.last_commits.load, request.header.by, self._paths.root)
        order = OrderedAppend(request, partial(PublishedFiles, self.live_files, self.snapshots))
        started_millis = self._clock.monotonic_millis()
        run = Attempts(request, request.changes, history, order, started_millis)
        try:
            while (result := self._attempt_queued(run)) is None:
                self._wait(run)
        except WidetableError:
            if not run.may_be_published:
                self._clean_up(run)
            raise
        if result.committed:
            order.drop_given(self._state(self.schemas.known()))
        else:
            self._discard(run)
        return result

    def _attempt_queued(self, run: Attempts) -> CommitResult | None:
        """Run an attempt under the commit lock of this machine, as a race costs the losers their work and may starve
        them. Compilations wait until the lock is released.
        """
        with compiled_afterwards(), self._file_io.turn(self._paths.commit_queue):
            return self._attempt(run)

    def _attempt(self, run: Attempts) -> CommitResult | None:
        """Try to commit after the newest snapshot; return None if another process was first."""
        head = self._head.expected()  # may be outdated: `may_follow` checks it
        latest = head.latest
        try:
            replay = run.history.replay(latest)
            if replay is not None:
                return self._not_committed(run, latest, replay.snapshot_id)
            run.changes = self._changes(run, head)
            delta = self._deltas.of(run.request, run.changes, latest)
            barriers = barrier_properties(run.request, run.changes, head, self.level0)
            if barriers is None or not has_effect(run.request, run.changes, delta):
                return self._not_committed(run, latest, None)
            snapshot = self._next_snapshot(run, head, delta, barriers)
        except (NotFoundError, DamagedError, ConflictError, InvalidError) as error:
            if not self._head.may_follow(latest):
                return None  # the error is based on an outdated snapshot
            # Expiry may have deleted the files of a snapshot that is no longer the newest one.
            is_gone = isinstance(error, (NotFoundError, DamagedError))
            if latest and is_gone and self.snapshots.latest_id() != latest.id:
                return None
            raise
        if not self._publish(run, snapshot, latest):
            return None
        self._head.remember(snapshot)
        self.last_published = snapshot
        self._mark()
        self._hint(snapshot.id)
        return self._result(run, committed=True, snapshot_id=snapshot.id)

    def _changes(self, run: Attempts, head: HeadState) -> FileChanges:
        """Return the files to commit after `head`: a rewrite gets new messages, an overtaken append later numbers."""
        latest, state = head.latest, self._state(head.schema)
        match run.request:
            case Append() as append:
                run.untouched.check(append, state, self.live_files, latest.id if latest else 0)
                highest = self._highest_sequence_number(latest)
                base = partial(self._first_number, highest)
                return run.order.behind(latest, state, highest, base)
            case Rewrite(follow=follow):
                return FileChanges.new(COMMIT_KIND_OVERWRITE, follow(latest), any_level=True)
            case Restore(is_first=True) if latest is not None:
                raise ConflictError(
                    "commit",
                    found=f"snapshot {latest.id}, which another process has committed",
                    expected="a table without snapshots",
                    action="Use another table, or drop this one first.",
                )
        return run.changes

    def _not_committed(
        self, run: Attempts, latest: Snapshot | None, snapshot_id: int | None
    ) -> CommitResult | None:
        """Return the result of a commit that is not made; None if `latest` is no longer the newest snapshot."""
        is_true = self._head.may_follow(latest)
        return self._result(run, committed=False, snapshot_id=snapshot_id) if is_true else None

    def _next_snapshot(
        self,
        run: Attempts,
        head: HeadState,
        delta: tuple[ManifestEntry, ...],
        barriers: Mapping[str, str],
    ) -> Snapshot:
        """Write everything that precedes the publish; return the snapshot to publish."""
        latest, load = head.latest, cache(self.last_commits.load)
        users, schema = users_of(latest, load), head.schema
        if run.files is None:
            writer = ManifestWriter(self._file_io, self._paths, self._partition_types, schema.id)
            run.files = CommitFiles(writer, self.live_files, schema.typed_options)
        files = run.files
        warn_of_many_users(self._paths.root, len(users))
        snapshot = next_snapshot(
            head,
            run,
            delta,
            base_list=files.base(latest, reclaim=any(entry.kind == DELETE for entry in delta)),
            delta_list=files.delta(delta),
            changelog_list=files.changelog(run.changes.changelog),
            index_manifest=self.indexes.next_manifest(
                latest, run.request, run.changes, delta, files.writer
            ),
            now_millis=self._clock.now_nanos() // 1_000_000,
            took_millis=self._took_millis(run),
            users=users,
            waiting=uncompacted_behind(latest, load),
            highest_sequence_number=self._highest_sequence_number(latest),
            barriers=barriers,
            watermark=self.snapshots.watermark_behind(latest, WRITER_VERSION),
            reached=writer_watermarks(latest, load),
        )
        if latest is not None:
            # If `latest` is ahead, its time is not taken over: the snapshot has the time of the clock.
            warn_of_clock(self._paths.root, latest, snapshot.time_millis)
        return snapshot

    def _highest_sequence_number(self, latest: Snapshot | None) -> int:
        if latest is None:
            return 0
        recorded = highest_sequence_number(latest)
        if recorded is not None:
            return recorded
        # Another client committed last and did not record it: looked up once, then our snapshot records it.
        live = self.live_files.live_entries(latest)
        return max((entry.file.max_sequence_number for entry in live), default=0)

    def _publish(self, run: Attempts, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Publish a snapshot; return False if another process was first. Raises StorageError if it may have failed."""
        path = self._paths.snapshot(snapshot.id)
        data = parsed_back(snapshot, snapshot_from_json, path)
        if not self._head.may_follow(base):
            return False
        # From here on it may be published, whatever the answer is: until that is known no file is deleted.
        run.may_be_published = True
        try:
            won = self._file_io.publish(path, data)
        except (WidetableError, OSError):
            seen = self._is_published(snapshot)
            if seen is None:
                raise  # not published; but the storage may still do it, so no file is deleted
            won = seen
        else:
            # A storage that repeats a request may meet its own snapshot.
            won = won or bool(self._is_published(snapshot))
        run.may_be_published = False
        return won

    def _is_published(self, snapshot: Snapshot) -> bool | None:
        """Return whether the snapshot of that id is this one, None if there is none."""
        for attempt in range(_ATTEMPTS):
            try:
                return self.snapshots.load(snapshot.id).uuid == snapshot.uuid
            except NotFoundError:
                return None
            except StorageError as cause:
                if attempt == _ATTEMPTS - 1:
                    raise StorageError(
                        self._paths.snapshot(snapshot.id),
                        found=f"a storage that failed while and after publishing: {cause.found}",
                        expected="an answer whether the snapshot was published",
                        action="Commit again with the same user and identifier: a published commit is not repeated.",
                        code=ErrorCode.COMMIT_UNKNOWN,
                    ) from cause
                self._clock.sleep_millis(LONGEST_WAIT_MILLIS * self._rng.random())
        raise AssertionError("the last attempt returns or raises")

    def _mark(self) -> None:
        """Mark once that the table has had a snapshot. An error does not fail the commit; the next one tries again."""
        if self._is_marked:
            return
        try:
            mark_snapshots(self._file_io, self._paths)
            self._is_marked = True
        except WidetableError as error:
            text = "%s is not marked as used: %s"
            warn(_log, WarningCode.TABLE_NOT_MARKED, text, self._paths.root, error.facts)

    def _hint(self, id: int) -> None:
        """Write the hints; readers tolerate outdated and missing ones."""
        with contextlib.suppress(WidetableError):
            self._file_io.replace(self._paths.latest_hint, str(id).encode(), durable=False)
            if id == 1:
                self._file_io.replace(self._paths.earliest_hint, str(id).encode(), durable=False)

    def _wait(self, run: Attempts) -> None:
        """Wait after a lost race. Raises ConflictError after too many of them."""
        run.retries += 1
        elapsed_millis = self._clock.monotonic_millis() - run.started_millis
        options = self.schemas.known().typed_options
        longest = longest_wait_millis(run, elapsed_millis, options, self._paths.root)
        self._clock.sleep_millis(self._rng.uniform(0, longest))

    def _clean_up(self, run: Attempts) -> None:
        """Clean up after a failed commit. Data files of writers stay: they may be committed again."""
        self._discard(run)
        if isinstance(run.request, Compact):
            discard(self._state(self.schemas.known()), run.changes.messages)

    def _discard(self, run: Attempts) -> None:
        """Delete the files that the attempts wrote, none of which is committed."""
        if run.files:
            run.files.writer.discard()
        run.order.drop_copies(self._state(self.schemas.known()))

    def _state(self, schema: TableSchema) -> TableState:
        return TableState(self._file_io, self._paths, schema, self.schemas.load, self.identity)

    def _result(self, run: Attempts, *, committed: bool, snapshot_id: int | None) -> CommitResult:
        adds = run.changes.adds if committed else ()
        return CommitResult(
            committed,
            snapshot_id,
            run.request.kind,
            sum(entry.file.row_count for entry in adds),
            len(adds),
            run.retries,
            self._took_millis(run),
        )

    def _took_millis(self, run: Attempts) -> int:
        return round(self._clock.monotonic_millis() - run.started_millis)
