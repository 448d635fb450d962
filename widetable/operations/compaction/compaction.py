"""Compacts a table: all of its buckets on request, or what is due in all or some of them.

A lease keeps two compactors from doing the same work twice; safety never depends on it. `compaction_after_commit` has
the compactions that follow a commit automatically.

    compact, compact_all    all buckets, whoever has the lease; answers all requests
    compact_scope           one call: for each cut (`compaction_cut`), in all buckets that `newest` gives
    _Cuts                   plans from the newest snapshot in each round, commits group by group

Requests are listed before the newest snapshot is read, and removed afterwards: the commits in that
snapshot are compacted by then, and a later request stays for the next compaction.

Raises ConflictError when other compactors were faster again and again, StorageError, and what reading snapshots raises;
a damaged file of one bucket, or rows of it that cannot be merged, do not affect the others (`Compacted.damage`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.commit.transaction.plan_base import PlanBase, plan_base
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_COMPACT, Snapshot
from widetable.lsm.bucket_plan import Scope
from widetable.lsm.compaction import RowsDone
from widetable.lsm.file_rows import Caches
from widetable.lsm.levels import looks_up_rows
from widetable.lsm.table_kind import kind_of
from widetable.operations.compaction.compaction_cut import (
    CutScope,
    cut_scopes,
    entries_up_to,
    last_cut,
)
from widetable.operations.compaction.compaction_job import (
    CompactionJob,
    MadePlans,
    RunWorks,
    one_by_one,
)
from widetable.operations.compaction.locked_partition import without_locked
from widetable.operations.compaction.postponed_rows import PlacedRows, RunPlacing, placed_rows
from widetable.operations.compaction.quarantined_buckets import BucketError
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.handle.lookup_caches import caches_of
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

# A snapshot and some of its live entries.
Newest: TypeAlias = tuple[Snapshot | None, list[ManifestEntry]]


@dataclass(frozen=True)
class Compacted:
    """The result of a compaction. result: of the compacted buckets. damage: the errors of skipped buckets."""

    result: CommitResult
    damage: tuple[BucketError, ...] = ()

    def behind(self, placed: PlacedRows) -> Compacted:
        """Return the same, with the commits before it that brought rows into buckets."""
        if not placed.commits:
            return replace(self, damage=(*placed.damage, *self.damage))
        result = self.result
        result = replace(
            result,
            committed=True,
            snapshot_id=result.snapshot_id or placed.commits[-1].snapshot_id,
            rows=result.rows or sum(each.rows for each in placed.commits),
            files=result.files or sum(each.files for each in placed.commits),
            retries=result.retries + sum(each.retries for each in placed.commits),
        )
        return Compacted(result, (*placed.damage, *self.damage))


def compact(table: OpenTable, full: bool = False) -> CommitResult:
    """Merge sorted runs of the buckets.

    The rows of the table stay the same, except for those that `record-level.expire-time` removes.

    Parameters
    ----------
    full : bool, default False
        Merge all sorted runs of each bucket into the bottom level. False: those that the universal rules
        pick.

    Returns
    -------
    CommitResult
        What was committed; `committed` is False when nothing was due.

    Raises
    ------
    DamagedError
        A bucket has a damaged file; raised after all other buckets are done.
    InvalidError
        Rows of a key cannot be merged; raised after all other buckets are done.
    UnsupportedError
        The table has an option that this version does not honour.
    ConflictError
        Other compactors were faster again and again.

    Examples
    --------
    >>> users.compact(full=True).kind
    'COMPACT'
    >>> users.compact(full=True).committed
    False
    """
    schema = table.schema
    accept(schema, Use.MAINTAIN)
    scope = Scope.FULL if flag(full, "full") else Scope.DUE
    done = compact_all(table._state(schema), table._committer, scope)
    if done.damage:
        raise done.damage[0]
    return done.result


def compact_all(
    state: TableState,
    committer: Committer,
    scope: Scope,
    *,
    run: RunWorks | None = None,
    place: RunPlacing | None = None,
    group_seconds: float = math.inf,
) -> Compacted:
    """Compact every bucket that has a plan for the scope. It does not wait for a lease.

    Parameters
    ----------
    state : TableState
        The table.
    committer : Committer
        Its committer.
    scope : Scope
        What the buckets are planned for.
    run : callable, default None
        Where the work is done. None: in this process.
    place : callable, default None
        Where postponed rows are brought into buckets. None: in this process.
    group_seconds : float, default inf
        After this time, finished buckets are committed before the others are done.

    Returns
    -------
    Compacted
        The result, and why buckets were skipped.

    Raises
    ------
    ConflictError
        Another commit came first in every round.
    """
    wait_for_compactions(state.paths.root)
    with held_lease(state), answered(state):
        placed = placed_rows(state, committer, place)
        done = compact_scope(
            state,
            committer,
            partial(newest_entries, committer),
            scope,
            run,
            group_seconds,
        )
    return done.behind(placed)


@contextlib.contextmanager
def answered(state: TableState) -> Iterator[list[str]]:
    """Yield the notes of those that wait for a compaction, all of which the block answers. They stay when it fails."""
    requests = CompactionRequests(state.file_io, state.paths)
    notes = requests.all()
    yield notes
    requests.forget(notes)


def newest_entries(committer: Committer, touched: Collection[BucketId] | None = None) -> Newest:
    """Return the newest snapshot and its live entries that have a bucket. touched: of these buckets, None for all.

    For given buckets, only manifests that may have them are read. They are chosen by partition and number separately,
    so entries of other buckets come along and are dropped here.
    """
    if touched is None:
        snapshot, entries = newest_files(committer)
        return snapshot, [entry for entry in entries if entry.bucket != POSTPONED]
    partitions = frozenset(bucket.partition for bucket in touched)
    numbers = frozenset(bucket.number for bucket in touched)
    snapshot, entries = newest_files(committer, partitions, numbers)
    placed = {bucket for bucket in touched if bucket.number != POSTPONED}
    return snapshot, [entry for entry in entries if entry.bucket_id in placed]


def made_plans(state: TableState, committer: Committer, newest: Newest, scope: Scope) -> MadePlans:
    """Plan each bucket of these live files as `compact_scope` does; a plan is empty where nothing is due."""
    snapshot, live = newest
    barrier = last_cut(state, committer, snapshot) if live and scope is not Scope.REST else None
    buckets = by_bucket(entries_up_to(state, committer, snapshot, live, barrier))
    plan = partial(kind_of(state.schema).plan, state.schema)
    files_of = {bucket: [entry.file for entry in members] for bucket, members in buckets.items()}
    return {(bucket, scope): (files, plan(files, scope)) for bucket, files in files_of.items()}


def compact_scope(
    state: TableState,
    committer: Committer,
    newest: Callable[[], Newest],
    scope: Scope,
    run: RunWorks | None = None,
    group_seconds: float = math.inf,
    rows_done: RowsDone | None = None,
    made: MadePlans | None = None,
) -> Compacted:
    """Compact the buckets of `newest` that have a plan for the scope, wherever `run` does the work.

    A table under barriers is compacted up to one barrier after the other. rows_done: is told of the work that is done
    here, not by `run`. made: earlier plans, used for buckets that still have the same files.
    """
    started = time.monotonic()
    caches = caches_of(state) if looks_up_rows(state.schema) else None
    cuts = _Cuts(state, committer, newest, caches)
    here = run or one_by_one(state, caches, rows_done)
    job = CompactionJob(state, cuts.commit, here, group_seconds, made or {})
    for cut in cut_scopes(state, committer, scope):
        job.compact(partial(cuts.entries, cut), cut.scope)
    commits = cuts.commits
    result = CommitResult(
        committed=bool(commits),
        snapshot_id=commits[-1].snapshot_id if commits else None,
        kind=COMMIT_KIND_COMPACT,
        rows=sum(each.rows for each in commits),
        files=job.files_after,
        retries=sum(each.retries for each in commits) + job.conflicts,
        duration_millis=int((time.monotonic() - started) * 1000),
    )
    errors = [bucket.error for bucket in job.quarantined]
    return Compacted(result, tuple({error.subject: error for error in errors}.values()))


@dataclass
class _Cuts:
    """The compactions of one call. commits: their commits.

    planned: the snapshot that was planned last, against which commits are checked (`plan_base`), because another
    compaction may have moved rows up since.
    """

    state: TableState
    committer: Committer
    newest: Callable[[], Newest]
    caches: Caches | None
    commits: list[CommitResult] = field(default_factory=list)
    planned: PlanBase | None = None

    def entries(self, cut: CutScope) -> list[ManifestEntry]:
        """Return the live entries up to one barrier."""
        snapshot, live = self.newest()
        unlocked = without_locked(self.state, live)
        entries = entries_up_to(self.state, self.committer, snapshot, unlocked, cut.barrier)
        self.planned = plan_base(snapshot, entries)
        return entries

    def commit(self, messages: list[CommitMessage]) -> None:
        self.commits.append(self.committer.compact(messages, planned=self.planned))
        if self.caches is not None:
            self.caches.forget(self.state, _replaced(self.state, messages))


def _replaced(state: TableState, messages: Sequence[CommitMessage]) -> list[str]:
    """Return the data files that are no longer live. A file that only changed its level still is."""
    return [
        state.data_file(message.bucket_id, file.file_name)
        for message in messages
        for file in message.compact_before
        if all(file.file_name != after.file_name for after in message.compact_after)
    ]
