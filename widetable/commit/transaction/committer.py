"""Commits: the only place that makes snapshots.

    latest snapshot ─► already in? ─► what changes, does it fit? ─► lists ─► publish snapshot-(N+1) ─► hint
           ▲                                                                     │
           └────────────────────── somebody else published N+1 ◄─────────────────┘

Source: Paimon `FileStoreCommitImpl`; format.md sections 3 and 11. The publish is the commit point: what was
written before is nothing but orphans, what comes after is only a hint. An append that loses the race goes again
for as long as `commit.timeout` allows, on the winner's lists; a compaction or overwrite is checked against the
winner first. (user, identifier) is looked for on every attempt (decisions 0005, 0015), so a repeated append or
overwrite commits nothing. Raises

    ConflictError   the commit does not fit the newest snapshot, or lost too often; nothing was committed
    StorageError    the storage refused. When the publish itself failed it is looked up whether it went through; what
                    is not known is said in the message, and then no file is deleted: commit again with the same
                    user and identifier
    InvalidError    messages that do not belong into such a commit, a value that nobody could read again, another
                    table than the one that was opened, or a number that another commit of the user has
    DamagedError    the newest snapshot, its lists or manifests are missing or broken
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final

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
from widetable.commit.transaction.attempts import Attempts
from widetable.commit.transaction.barrier_gate import barrier_properties
from widetable.commit.transaction.commit_delta import Deltas
from widetable.commit.transaction.commit_files import CommitFiles
from widetable.commit.transaction.commit_identity import Identity
from widetable.commit.transaction.commit_request import CommitRequest, Follow, request
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.commit_warnings import warn_of_clock, warn_of_many_users
from widetable.commit.transaction.index_files import IndexFiles
from widetable.commit.transaction.lost_attempts import LONGEST_WAIT_MILLIS, longest_wait_millis
from widetable.commit.transaction.next_snapshot import WRITER_VERSION, next_snapshot
from widetable.commit.transaction.ordered_append import OrderedAppend
from widetable.commit.transaction.plan_base import PlannedFrom
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
from widetable.messages.warning_code import WarningCode, warn
from widetable.schema.table_schema import TableSchema
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.sequence import START_SPREAD, first_number
from widetable.write.table_state import TableState

# How often a snapshot whose publishing failed is looked for while the storage fails to answer.
_LOOKS: Final = 6
_log = logging.getLogger("widetable")


class Committer:
    """For one table; thread-safe: all that matters belongs to one call. Raises NotFoundError when there is no table."""

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
        """Add the messages' new files at level 0. Without files, properties and barrier nothing is committed.
        read_snapshot_id: where their rows were made from; ConflictError when a commit after it wrote one of their keys.
        barrier: what it does to the barriers of the table.
        """
        asked = request(
            COMMIT_KIND_APPEND,
            messages,
            by,
            watermark=watermark,
            properties=properties,
            read_snapshot_id=read_snapshot_id,
        )
        return self._commit(replace(asked, barrier=barrier))

    def compact(
        self,
        messages: Iterable[CommitMessage],
        by: Identity | None = None,
        *,
        planned: PlannedFrom | None = None,
    ) -> CommitResult:
        """Replace the files that a compaction read by those it wrote. planned: what it saw (`planned_from`).

        When it fails and nothing was published, the files that it wrote are deleted. A repeated one raises
        ConflictError: its input is gone.
        """
        return self._commit(replace(request(COMMIT_KIND_COMPACT, messages, by), planned=planned))

    def overwrite(
        self,
        scope: Iterable[bytes] | None,
        messages: Iterable[CommitMessage],
        by: Identity | None = None,
        *,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> CommitResult:
        """Replace all files that are live in `scope` when it commits by the messages' new files.

        scope: partitions as BinaryRow bytes, None for the whole table; empty: only their `deleted_files` are deleted.
        """
        return self._commit(
            request(
                COMMIT_KIND_OVERWRITE,
                messages,
                by,
                scope=None if scope is None else frozenset(scope),
                watermark=watermark,
                properties=properties,
            )
        )

    def restore(
        self,
        messages: Iterable[CommitMessage],
        keeps: Iterable[FileIdentity] | None,
        restores: Snapshot | None = None,
        by: Identity | None = None,
        barrier: BarrierStep | None = None,
        *,
        is_first: bool = False,
    ) -> CommitResult:
        """An overwrite that puts files back at the levels that they have, for rollbacks, repairs, revisions and copies.

        keeps: live files that stay, all others go; None: only `deleted_files` go. restores: whose rows come back, with
        its watermark where the table has none above it. is_first: ConflictError where the table has a snapshot.
        """
        scope: frozenset[bytes] | None = frozenset() if keeps is None else None
        stay, watermark = frozenset(keeps or ()), restores.watermark if restores else None
        asked = request(
            COMMIT_KIND_OVERWRITE, messages, by, scope=scope, watermark=watermark, keeps=stay
        )
        return self._commit(replace(asked, restores=restores, barrier=barrier, is_first=is_first))

    def rewrite(
        self, follow: Follow, by: Identity | None = None, *, rescaled: int | None = None
    ) -> CommitResult:
        """An overwrite whose messages `follow` gives: asked in each attempt, in the turn of this machine, it may take
        along what came just before. rescaled: it moves rows to so many buckets, and changes none.
        """
        asked = request(COMMIT_KIND_OVERWRITE, (), by, keeps=frozenset())
        return self._commit(replace(asked, rescaled=rescaled, follow=follow))

    def replay_of(self, by: Identity, head: HeadState | None = None) -> Replay | None:
        """The append or overwrite that comes again with `by`; None for a new one. InvalidError for one of which it
        is not known: see `replay`. head: of a moment ago.
        """
        latest = (head or self.refresh()).latest
        return CommitHistory(self.last_commits.load, by, self._paths.root).replay(latest)

    def sequence_base(self, head: HeadState | None = None) -> int:
        """Where the sequence numbers of a commit that starts now begin (decision 0004):

        the clock in ns, but above all noted ones. InvalidError for a clock that would leave no numbers. head: of this
        operation.
        """
        return self._first_number(self._highest_sequence_number((head or self.refresh()).latest))

    def _first_number(self, noted: int) -> int:
        return first_number(self._clock.now_nanos(), noted, self._rng.randrange(START_SPREAD))

    def _commit(self, asked: CommitRequest) -> CommitResult:
        history = CommitHistory(self.last_commits.load, asked.by, self._paths.root)
        order = OrderedAppend(asked, partial(PublishedFiles, self.live_files, self.snapshots))
        run = Attempts(asked, history, order, self._clock.monotonic_millis())
        try:
            while (result := self._attempt_in_turn(run)) is None:
                self._wait(run)
        except WidetableError:
            if not run.may_be_in:
                self._clean_up(run)
            raise
        if result.committed:
            order.drop_given(self._state(self.schemas.known()))
        else:
            self._discard(run)
        return result

    def _attempt_in_turn(self, run: Attempts) -> CommitResult | None:
        """One machine's commits come one after the other: a race costs the losers their work, and may starve them. What
        is to be compiled waits until the turn is over.
        """
        with compiled_afterwards(), self._file_io.turn(self._paths.commit_turn):
            return self._attempt(run)

    def _attempt(self, run: Attempts) -> CommitResult | None:
        """One attempt on the newest snapshot; None when somebody else was first."""
        head = self._head.expected()  # perhaps of long ago: `may_follow` finds out
        latest = head.latest
        try:
            if run.asked.kind != COMMIT_KIND_COMPACT:
                found = run.history.replay(latest)
                if found is not None:
                    return self._not_committed(run, latest, found.snapshot_id)
            if run.asked.read_snapshot_id is not None:
                run.untouched.check(
                    self._state(head.schema), self.live_files, latest.id if latest else 0
                )
            run.asked = self._in_order(run, head)
            delta, asked = self._deltas.of(run.asked, latest), run.asked
            said = barrier_properties(asked, head, self.level0)
            is_asked = delta or asked.properties or asked.restores or asked.barrier
            if said is None or not is_asked:
                return self._not_committed(run, latest, None)
            snapshot = self._next_snapshot(run, head, delta, said)
        except (NotFoundError, DamagedError, ConflictError, InvalidError) as error:
            if not self._head.may_follow(latest):
                return None  # what was found does not hold
            # Expiry may have taken the files of a snapshot that is not the newest one any more.
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

    def _in_order(self, run: Attempts, head: HeadState) -> CommitRequest:
        """The request behind the newest snapshot: a rescaling asks for its messages anew, an append that was overtaken
        gets later numbers.
        """
        asked, latest = run.asked.behind(head.latest), head.latest
        if asked.kind != COMMIT_KIND_APPEND:
            return asked
        highest = self._highest_sequence_number(latest)
        base = partial(self._first_number, highest)
        return run.order.behind(asked, latest, self._state(head.schema), highest, base)

    def _not_committed(
        self, run: Attempts, latest: Snapshot | None, snapshot_id: int | None
    ) -> CommitResult | None:
        """None when `latest` is not the newest of this table."""
        is_true = self._head.may_follow(latest)
        return self._result(run, committed=False, snapshot_id=snapshot_id) if is_true else None

    def _next_snapshot(
        self,
        run: Attempts,
        head: HeadState,
        delta: tuple[ManifestEntry, ...],
        barriers: Mapping[str, str],
    ) -> Snapshot:
        """Everything that is written before the publish."""
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
            changelog_list=files.changelog(run.asked.changelog),
            index_manifest=self.indexes.next_manifest(latest, run.asked, delta, files.writer),
            now_millis=self._clock.now_nanos() // 1_000_000,
            took_millis=self._took_millis(run),
            users=users,
            waiting=uncompacted_behind(latest, load),
            highest_sequence_number=self._highest_sequence_number(latest),
            barriers=barriers,
            watermark=self.snapshots.watermark_behind(latest, WRITER_VERSION),
        )
        if latest is not None:
            # The time of one that is ahead is not taken over, so the snapshot has the clock's.
            warn_of_clock(self._paths.root, latest, snapshot.time_millis)
        return snapshot

    def _highest_sequence_number(self, latest: Snapshot | None) -> int:
        if latest is None:
            return 0
        known = highest_sequence_number(latest)
        if known is not None:
            return known
        # Another client committed last, and did not say: looked up once, then it is in our snapshot.
        live = self.live_files.live_entries(latest)
        return max((entry.file.max_sequence_number for entry in live), default=0)

    def _publish(self, run: Attempts, snapshot: Snapshot, base: Snapshot | None) -> bool:
        """Whether this snapshot is now the table's. Raises StorageError when it is not, or when that is not known."""
        path = self._paths.snapshot(snapshot.id)
        data = parsed_back(snapshot, snapshot_from_json, path)
        if not self._head.may_follow(base):
            return False
        # From here on it may be in, whatever is answered: until that is known nothing is deleted.
        run.may_be_in = True
        try:
            won = self._file_io.publish(path, data)
        except (WidetableError, OSError):
            seen = self._is_published(snapshot)
            if seen is None:
                raise  # not there; but a storage may still be at it, so no file is deleted
            won = seen
        else:
            # A storage that repeats a request may find its own snapshot there.
            won = won or bool(self._is_published(snapshot))
        run.may_be_in = False
        return won

    def _is_published(self, snapshot: Snapshot) -> bool | None:
        """Whether the snapshot of that id is this one, None when there is none."""
        for look in range(_LOOKS):
            try:
                return self.snapshots.load(snapshot.id).uuid == snapshot.uuid
            except NotFoundError:
                return None
            except StorageError as cause:
                if look == _LOOKS - 1:
                    raise StorageError(
                        self._paths.snapshot(snapshot.id),
                        found=f"a storage that failed while and after publishing: {cause.found}",
                        expected="an answer whether the snapshot was published",
                        action="It may have been: commit again with the same user and identifier, it counts once.",
                    ) from cause
                self._clock.sleep_millis(LONGEST_WAIT_MILLIS * self._rng.random())
        raise AssertionError("the last look returns or raises")

    def _mark(self) -> None:
        """Once: that there has been a snapshot. What follows a commit does not fail it; the next one looks again."""
        if self._is_marked:
            return
        try:
            mark_snapshots(self._file_io, self._paths)
            self._is_marked = True
        except WidetableError as error:
            text = "%s is not marked as used: %s"
            warn(_log, WarningCode.NOT_MARKED, text, self._paths.root, error.facts)

    def _hint(self, id: int) -> None:
        """Only hints: whoever reads them tolerates that they are old or missing."""
        with contextlib.suppress(WidetableError):
            self._file_io.replace(self._paths.latest_hint, str(id).encode(), durable=False)
            if id == 1:
                self._file_io.replace(self._paths.earliest_hint, str(id).encode(), durable=False)

    def _wait(self, run: Attempts) -> None:
        """After a lost race. Raises ConflictError when there were enough of them."""
        run.retries += 1
        elapsed_millis = self._clock.monotonic_millis() - run.started_millis
        options = self.schemas.known().typed_options
        longest = longest_wait_millis(run, elapsed_millis, options, self._paths.root)
        self._clock.sleep_millis(self._rng.uniform(0, longest))

    def _clean_up(self, run: Attempts) -> None:
        """After a failure before anything was published. Data files of writers stay: they may be committed again."""
        self._discard(run)
        if run.asked.kind == COMMIT_KIND_COMPACT:
            discard(self._state(self.schemas.known()), run.asked.messages)

    def _discard(self, run: Attempts) -> None:
        """What the attempts wrote, none of which is in."""
        if run.files:
            run.files.writer.discard()
        run.order.drop_copies(self._state(self.schemas.known()))

    def _state(self, schema: TableSchema) -> TableState:
        return TableState(self._file_io, self._paths, schema, self.schemas.load, self.identity)

    def _result(self, run: Attempts, *, committed: bool, snapshot_id: int | None) -> CommitResult:
        adds = run.asked.adds if committed else ()
        return CommitResult(
            committed,
            snapshot_id,
            run.asked.kind,
            sum(entry.file.row_count for entry in adds),
            len(adds),
            run.retries,
            self._took_millis(run),
        )

    def _took_millis(self, run: Attempts) -> int:
        return round(self._clock.monotonic_millis() - run.started_millis)
