"""Compacting a table: all buckets when asked to, the touched ones after an append.

A lease keeps two compactors from doing the same work twice; safety never depends on it. What follows an append never
fails the append: a lost race is left to the next one, other errors are logged.

With `changelog-producer=lookup` no append may stay without its changelog because somebody else had the lease just then.
Who does not get it leaves a note (`compaction_wishes`) and asks once more; who gives the lease back looks for notes and
then compacts what is due in the whole table. Either the one that wrote the note gets the lease, or its holder sees the
note. Nor may one stay without it because its writer was killed before it compacted: when its batch comes again, all
that is due is compacted; and what a thread was to do behind a commit is noted until it is done.

What a commit need not wait for is done behind it (`compaction_threads`): with `lookup-wait=false` the changelog, else
large picks among the older levels (`changelog_compaction.Share`), under a lease of their own: they share no file with
what commits move up. A commit whose pick can be put off no longer waits for them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence

from widetable import options as opt
from widetable.commit.committer import CommitResult, Committer
from widetable.commit.compaction_wishes import CompactionWishes
from widetable.commit.live_files import Buckets, Partitions
from widetable.errors import ConflictError, NotFoundError, StorageError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT
from widetable.lsm.changelog_compaction import Share, rewrites_much
from widetable.lsm.compaction import plan_bucket
from widetable.lsm.compaction_job import compact_table
from widetable.lsm.universal_compaction import Choice
from widetable.operations.compaction_threads import CHANGELOGS, OLD_LEVELS, wait_for_compactions
from widetable.operations.held_lease import held_lease
from widetable.operations.lookup_caches import caches_of
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def compact_all(state: TableState, committer: Committer, *, full: bool) -> CommitResult:
    """Compact every bucket that the rules of its producer pick, or that is not one bottom run (full).

    It does not wait for a lease: who asks for a compaction gets it. Raises ConflictError when it lost in every round.
    """
    wait_for_compactions(state.paths.root)
    with held_lease(state), answered(state):
        return _compact(state, committer, _live_entries(committer), full=full)


@contextlib.contextmanager
def answered(state: TableState) -> Iterator[list[str]]:
    """The notes of who waits for a compaction, all of which the block answers. They stay when it is killed."""
    wishes = CompactionWishes(state.file_io, state.paths)
    found = wishes.open()
    try:
        yield found
    finally:
        wishes.forget(found)


def compact_after_append(
    state: TableState, committer: Committer, messages: Sequence[CommitMessage]
) -> None:
    """What is due in the buckets of an append. Raises nothing: the append is in.

    With `lookup-wait=false` a thread does the work of the producer `lookup`.
    """
    touched = {(message.partition, message.bucket) for message in messages}
    _compact_after(state, committer, touched)


def compact_after_replay(state: TableState, committer: Committer) -> None:
    """What is due in the whole table after a batch came again that was in already. Raises nothing.

    With the producer `lookup` only: with others nobody waits for it, and the next append does it.
    """
    if _makes_lookups(state):
        _compact_after(state, committer, None)


def _compact_after(
    state: TableState, committer: Committer, touched: set[tuple[bytes, int]] | None
) -> None:
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
    state: TableState, committer: Committer, touched: set[tuple[bytes, int]] | None
) -> None:
    """touched: partitions and buckets, None for all."""
    live_entries = _live_entries(committer, touched)
    choices = _choices(state, live_entries(), Share.COMMIT)
    if any(rewrites_much(choice, state.options) for choice in choices):
        OLD_LEVELS.wait(state.paths.root)  # it may be at the same files, and be done with them
    if choices:
        _compact_now(state, committer, live_entries)
    if _makes_lookups(state) and _choices(state, live_entries(), Share.REST):
        OLD_LEVELS.submit_alone(
            state.paths.root,
            lambda: _unless_it_fails(state, lambda: _compact_rest(state, committer, live_entries)),
        )


def _compact_now(
    state: TableState, committer: Committer, live_entries: Callable[[], list[ManifestEntry]]
) -> None:
    """What the commit waits for, by us or by the holder of the lease."""
    waits = _makes_lookups(state)
    wishes = CompactionWishes(state.file_io, state.paths)
    with held_lease(state) as is_ours:
        if is_ours:
            _compact(state, committer, live_entries, full=False, share=Share.COMMIT)
        elif waits:
            wishes.add(is_own=False)
    while waits and wishes.open():
        with held_lease(state) as is_ours:
            if not is_ours:
                return
            with answered(state):
                _compact(state, committer, _live_entries(committer), full=False, share=Share.COMMIT)


def _compact_rest(
    state: TableState, committer: Committer, live_entries: Callable[[], list[ManifestEntry]]
) -> None:
    with held_lease(state, path=state.paths.old_levels_lease) as is_ours:
        if is_ours:
            _compact(state, committer, live_entries, full=False, share=Share.REST)


def _live_entries(
    committer: Committer, touched: set[tuple[bytes, int]] | None = None
) -> Callable[[], list[ManifestEntry]]:
    """Reads the live entries of the newest snapshot; touched: of these partitions and buckets."""
    if touched is None:
        return lambda: _newest_entries(committer, None, None)
    partitions = frozenset(partition for partition, _ in touched)
    buckets = frozenset(bucket for _, bucket in touched)

    def live_entries() -> list[ManifestEntry]:
        entries = _newest_entries(committer, partitions, buckets)
        return [entry for entry in entries if (entry.partition, entry.bucket) in touched]

    return live_entries


def _newest_entries(
    committer: Committer, partitions: Partitions | None, buckets: Buckets | None
) -> list[ManifestEntry]:
    """Of the newest snapshot; looked up again when that one expired before it was read."""
    while True:
        latest = committer.snapshots.latest()
        try:
            return committer.live_files.live_entries(latest, partitions, buckets)
        except NotFoundError:
            if latest is None or committer.snapshots.latest_id() == latest.id:
                raise


def _makes_lookups(state: TableState) -> bool:
    return state.options.get(opt.CHANGELOG_PRODUCER) == "lookup"


def _choices(state: TableState, entries: Sequence[ManifestEntry], share: Share) -> list[Choice]:
    """What is due in the buckets of these live files."""
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    choices = (
        plan_bucket(state, [entry.file for entry in members], full=False, share=share)
        for members in buckets.values()
    )
    return [choice for choice in choices if choice is not None]


def _compact(
    state: TableState,
    committer: Committer,
    live_entries: Callable[[], list[ManifestEntry]],
    *,
    full: bool,
    share: Share = Share.ALL,
) -> CommitResult:
    started = time.monotonic()
    commits: list[CommitResult] = []

    def commit(messages: list[CommitMessage]) -> None:
        commits.append(committer.compact(messages))

    caches = caches_of(state) if _makes_lookups(state) else None
    done = compact_table(state, live_entries, commit, full=full, share=share, caches=caches)
    return CommitResult(
        committed=bool(commits),
        snapshot_id=commits[-1].snapshot_id if commits else None,
        kind=COMMIT_KIND_COMPACT,
        rows=sum(each.rows for each in commits),
        files=done.files_after,
        retries=sum(each.retries for each in commits) + done.conflicts,
        duration_millis=int((time.monotonic() - started) * 1000),
    )
