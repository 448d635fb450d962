"""Compacting a table: all buckets when asked to, the touched ones after an append.

A lease keeps two compactors from doing the same work twice; safety never depends on it. What follows an append never
fails the append: a lost race is left to the next one, other errors are logged.

With `changelog-producer=lookup` no append may stay without its changelog because somebody else had the lease just then.
It leaves a note (`compaction_wishes`) and waits for its turn among the writes of this machine. Whose turn it is makes,
in one compaction, the changelog of all that have left a note by then, whose notes go: they find that it is made. Who
does not get the lease all the same, because a maintainer or another machine has it, leaves a note to anybody and asks
once more; who has made its own changelog and finds such notes serves them behind its commit. Either the one that wrote
the note gets the lease, or its holder sees the note. Nor may one stay without it because its writer was killed before
it compacted: its note is open to anybody then, and when its batch comes again, all that is due is compacted.

What a commit need not wait for is done behind it (`compaction_threads`): with `lookup-wait=false` the changelog, else
large picks among the older levels (`bucket_plan.Scope`), under a lease of their own: they share no file with
what commits move up. A commit whose pick can be put off no longer waits for them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from widetable import options as opt
from widetable.arguments import flag
from widetable.commit.committer import CommitResult, Committer
from widetable.commit.compaction_wishes import CompactionWishes
from widetable.errors import ConflictError, DamagedError, StorageError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.lsm.bucket_plan import Plan, Scope, plan_bucket, rewrites_much
from widetable.lsm.compaction_job import RunWorks, compact_table, one_by_one
from widetable.operations.compaction_threads import CHANGELOGS, OLD_LEVELS, wait_for_compactions
from widetable.operations.held_lease import held_lease
from widetable.operations.lookup_caches import caches_of
from widetable.operations.newest_snapshot import newest_files
from widetable.operations.open_table import OpenTable
from widetable.operations.supported import check_writable
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class Compacted:
    """result: of the buckets that could be compacted. damage: why others were passed by."""

    result: CommitResult
    damage: tuple[DamagedError, ...] = ()


def compact(table: OpenTable, full: bool = False) -> CommitResult:
    """Merge sorted runs: those that the universal rules pick, or with `full` all, into the
    bottom level.

    The rows of the table stay the same. Raises ConflictError when other compactors were faster
    again and again; DamagedError when a bucket has a damaged file, after all others are done.
    """
    schema = table.schema
    check_writable(schema)
    done = compact_all(table._state(schema), table._committer, full=flag(full, "full"))
    if done.damage:
        raise done.damage[0]
    return done.result


def compact_all(
    state: TableState,
    committer: Committer,
    *,
    full: bool,
    run: RunWorks | None = None,
    group_seconds: float = math.inf,
) -> Compacted:
    """Compact every bucket that the rules of its producer pick, or that is not one bottom run (full).

    run: where the work is done, None for here. group_seconds: after which what is done is committed, before the other
    buckets are. It does not wait for a lease: who asks for a compaction gets it. Raises ConflictError when it lost in
    every round.
    """
    wait_for_compactions(state.paths.root)
    with held_lease(state), answered(state):
        return _compact(
            state,
            committer,
            _live_entries(committer),
            Scope.FULL if full else Scope.DUE,
            run,
            group_seconds,
        )


@contextlib.contextmanager
def answered(state: TableState) -> Iterator[list[str]]:
    """The notes of who waits for a compaction, all of which the block answers. They stay when it fails."""
    wishes = CompactionWishes(state.file_io, state.paths)
    found = wishes.all()
    yield found
    wishes.forget(found)


def compact_after_append(
    state: TableState, committer: Committer, messages: Sequence[CommitMessage]
) -> None:
    """What is due in the buckets of an append. Raises nothing: the append is in.

    With `lookup-wait=false` a thread does the work of the producer `lookup`.
    """
    touched = {message.bucket_id for message in messages}
    _compact_after(state, committer, touched)


def compact_after_replay(state: TableState, committer: Committer) -> None:
    """What is due in the whole table after a batch came again that was in already. Raises nothing.

    With the producer `lookup` only: with others nobody waits for it, and the next append does it.
    """
    if _makes_lookups(state):
        _compact_after(state, committer, None)


def _compact_after(state: TableState, committer: Committer, touched: set[BucketId] | None) -> None:
    def work() -> None:
        _unless_it_fails(state, lambda: _compact_touched(state, committer, touched))

    if _makes_lookups(state) and not state.options.get(opt.LOOKUP_WAIT):
        _unless_it_fails(state, lambda: CHANGELOGS.submit(state.paths.root, _noted(state, work)))
    else:
        work()


def _noted(state: TableState, work: Callable[[], None]) -> Callable[[], None]:
    """The work, with a note of it until it is done: a process that is killed leaves it to the next that compacts."""
    wishes = CompactionWishes(state.file_io, state.paths)
    try:
        note = wishes.add(is_own=True)
    except StorageError as refusal:
        _log.info("no note of a compaction that is still to be done: %s", refusal)
        return work

    def noted_work() -> None:
        try:
            work()
        finally:
            _unless_it_fails(state, lambda: wishes.forget([note]))

    return noted_work


def _unless_it_fails(state: TableState, compact: Callable[[], None]) -> None:
    try:
        compact()
    except ConflictError as lost:
        _log.info("compaction of %s is left to the next: %s", state.paths.root, lost)
    except Exception:  # noqa: BLE001
        _log.exception("compaction of %s after an append failed", state.paths.root)


def _compact_touched(
    state: TableState, committer: Committer, touched: set[BucketId] | None
) -> None:
    """touched: None for all."""
    live_entries = _live_entries(committer, touched)
    plans = _plans(state, live_entries(), Scope.COMMIT)
    if any(rewrites_much(plan, state.options) for plan in plans):
        OLD_LEVELS.wait(state.paths.root)  # it may be at the same files, and be done with them
    if plans:
        _compact_now(state, committer, live_entries)
    if _makes_lookups(state) and _plans(state, live_entries(), Scope.REST):
        OLD_LEVELS.submit_alone(
            state.paths.root,
            lambda: _unless_it_fails(state, lambda: _compact_rest(state, committer, live_entries)),
        )


def _compact_now(
    state: TableState, committer: Committer, live_entries: Callable[[], list[ManifestEntry]]
) -> None:
    """What the commit waits for. A changelog is made by whose turn it is, at once for all that wait meanwhile."""
    if not _makes_lookups(state):
        _round(state, committer, live_entries)
        return
    wishes = CompactionWishes(state.file_io, state.paths)
    wish = wishes.add(is_own=True)
    try:
        with state.file_io.turn(state.paths.compaction_turn):
            is_made = not wishes.is_there(wish) or _round(state, committer, live_entries)
            if not is_made:
                wishes.add(is_own=False)  # its holder finds it, or is done by now
                is_made = _round(state, committer, live_entries)
    finally:
        wishes.forget([wish])
    if is_made and wishes.open():
        # Behind the commit: nobody waits for work that is not its own.
        CHANGELOGS.submit_alone(
            state.paths.root, lambda: _unless_it_fails(state, lambda: _serve(state, committer))
        )


def _serve(state: TableState, committer: Committer) -> None:
    """For those that do not come back to it: killed ones, and those of other machines."""
    wishes = CompactionWishes(state.file_io, state.paths)
    while wishes.open():
        with state.file_io.turn(state.paths.compaction_turn):
            if not _round(state, committer, _live_entries(committer)):
                return


def _round(
    state: TableState, committer: Committer, live_entries: Callable[[], list[ManifestEntry]]
) -> bool:
    """Compact what is due there, or in the whole table if others wait; False when somebody else has the lease."""
    with held_lease(state) as is_ours:
        if is_ours:
            with answered(state) as notes:
                wanted = live_entries if len(notes) <= 1 else _live_entries(committer)
                _compact(state, committer, wanted, Scope.COMMIT)
        return is_ours


def _compact_rest(
    state: TableState, committer: Committer, live_entries: Callable[[], list[ManifestEntry]]
) -> None:
    with held_lease(state, path=state.paths.old_levels_lease) as is_ours:
        if is_ours:
            _compact(state, committer, live_entries, Scope.REST)


def _live_entries(
    committer: Committer, touched: set[BucketId] | None = None
) -> Callable[[], list[ManifestEntry]]:
    """Reads the live entries of the newest snapshot; touched: of these buckets."""
    if touched is None:
        return lambda: newest_files(committer)[1]
    partitions = frozenset(partition for partition, _ in touched)
    buckets = frozenset(bucket for _, bucket in touched)

    def live_entries() -> list[ManifestEntry]:
        _, entries = newest_files(committer, partitions, buckets)
        return [entry for entry in entries if entry.bucket_id in touched]

    return live_entries


def _makes_lookups(state: TableState) -> bool:
    return state.options.get(opt.CHANGELOG_PRODUCER) == "lookup"


def _plans(state: TableState, entries: Sequence[ManifestEntry], scope: Scope) -> list[Plan]:
    """What is due in the buckets of these live files."""
    buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    plans = (plan_bucket(state.schema, state.engine, files, scope) for files in buckets.values())
    return [plan for plan in plans if plan]


def _compact(
    state: TableState,
    committer: Committer,
    live_entries: Callable[[], list[ManifestEntry]],
    scope: Scope,
    run: RunWorks | None = None,
    group_seconds: float = math.inf,
) -> Compacted:
    started = time.monotonic()
    commits: list[CommitResult] = []

    def commit(messages: list[CommitMessage]) -> None:
        commits.append(committer.compact(messages))
        if caches is not None:
            caches.forget(state, _replaced(state, messages))

    caches = caches_of(state) if _makes_lookups(state) else None
    run = run or one_by_one(state, caches)
    done = compact_table(state, live_entries, commit, scope, run, group_seconds)
    result = CommitResult(
        committed=bool(commits),
        snapshot_id=commits[-1].snapshot_id if commits else None,
        kind=COMMIT_KIND_COMPACT,
        rows=sum(each.rows for each in commits),
        files=done.files_after,
        retries=sum(each.retries for each in commits) + done.conflicts,
        duration_millis=int((time.monotonic() - started) * 1000),
    )
    return Compacted(result, tuple(sick.error for sick in done.sick))


def _replaced(state: TableState, messages: Sequence[CommitMessage]) -> list[str]:
    """The data files that are not live any more. One that only changed its level is."""
    return [
        state.data_file(message.bucket_id, file.file_name)
        for message in messages
        for file in message.compact_before
        if all(file.file_name != after.file_name for after in message.compact_after)
    ]
