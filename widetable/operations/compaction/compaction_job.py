"""Compacts a whole table: plans and performs per bucket, commits, and plans again after a lost race.

In: two functions of the commit layer: one gives the live entries of the latest snapshot, the other commits
messages and raises ConflictError when their input files are gone; and a function that runs the work of many buckets,
here or elsewhere. Buckets are committed in groups, so that a large table makes progress and a lost race costs one
group. A message that lost is dropped with its files, which harms no one (the compactor may lose), and so is one whose
input files expired while it read them. A bucket with a damaged file, or with rows that cannot be merged, is skipped
and named in the result (`quarantined_buckets`); any other error of a bucket does not stop the others, but is raised at
the end. Raises ConflictError when a group lost in every round, and what compaction raises: DamagedError and
NotFoundError only for files outside of buckets, such as a schema.

    two compactors   A plans f1 f2         B plans f1 f2, commits g       A commits h: ConflictError; h is removed
                     A plans what is live now: g, and what came meanwhile; at most `_MAX_ROUNDS` times
    and an expiry    the last snapshot with f1 goes, f1 with it           A meets NotFoundError while it reads f1:
                     the same loss. If f1 is planned once more and is still missing, the table is damaged.
    unknown          the commit's answer is lost                          A raises, and leaves h: it may be live

After a kill, committed groups stay, and the files of the current one are orphans.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from widetable.errors import ConflictError, NotFoundError, StorageError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.damaged_file import missing_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.bucket_plan import Plan, Scope, names_of
from widetable.lsm.compaction import RowsDone
from widetable.lsm.file_rows import Caches
from widetable.lsm.table_kind import kind_of
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.quarantined_buckets import (
    QUARANTINED_BUCKETS,
    BucketError,
    QuarantinedBucket,
    is_of_bucket,
)
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")

_MAX_ROUNDS: Final = 5
# A group is committed when it has this many buckets or bytes, which is what a lost race may cost.
_GROUP_BUCKETS: Final = 64
_GROUP_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class BucketWork:
    """A bucket to compact."""

    bucket: BucketId
    total_buckets: int
    plan: Plan


# Plans that were made before, each with the files that it was made from.
MadePlans: TypeAlias = dict[tuple[BucketId, Scope], tuple[list[DataFileMeta], Plan]]
# A message to commit, or the error that the compaction of a bucket met.
Outcome: TypeAlias = CommitMessage | Exception
RunWorks: TypeAlias = Callable[[Iterable[BucketWork]], Iterable[tuple[BucketWork, Outcome]]]


def perform(
    state: TableState,
    work: BucketWork,
    caches: Caches | None,
    rows_done: RowsDone | None = None,
) -> Outcome:
    """Compact one bucket.

    Parameters
    ----------
    state : TableState
        The table.
    work : BucketWork
        The bucket, and its plan.
    caches : Caches or None
        The lookup caches, for before-images. None: no caches.
    rows_done : callable, default None
        Receives the number of rows that are done. None: nobody is told.

    Returns
    -------
    Outcome
        The message of the compaction, or the error as a value, so that it travels between processes and does not affect
        other buckets.
    """
    try:
        carry_out = kind_of(state.schema).carry_out
        return carry_out(state, work.bucket, work.total_buckets, work.plan, caches, rows_done)
    except Exception as error:  # noqa: BLE001
        return error


def one_by_one(
    state: TableState, caches: Caches | None = None, rows_done: RowsDone | None = None
) -> RunWorks:
    """Return a function that compacts in this process. An error that concerns all buckets ends it at once."""

    def run(works: Iterable[BucketWork]) -> Iterator[tuple[BucketWork, Outcome]]:
        for work in works:
            outcome = perform(state, work, caches, rows_done)
            if isinstance(outcome, Exception) and not _concerns_bucket(state, work, outcome):
                raise outcome
            yield work, outcome

    return run


def _concerns_bucket(state: TableState, work: BucketWork, error: Exception) -> bool:
    """Whether an error concerns this bucket alone, so that the next one may succeed.

    Such errors are damage of the bucket's files, rows that cannot be merged, a missing file, or a storage that
    refuses a file of the plan. A full disk concerns all buckets.
    """
    if isinstance(error, StorageError):
        return any(name in error.subject for name in names_of(work.plan))
    return isinstance(error, BucketError | NotFoundError) and is_of_bucket(state, error)


@dataclass
class CompactionJob:
    """One compaction of a table. commit, run: see the module text. group_seconds: after this time finished work is
    committed, so that those that wait for its changes do not wait for the other buckets. made: plans that are used for
    buckets with the same files; a bucket whose files differ gets a new plan.

    files_after: the number of committed data files, without changelog. conflicts: the number of groups that lost and
    were redone. quarantined: skipped buckets. _group: messages that wait for their commit; _gone: paths of files that
    were missed once; _error: the first error of a bucket that is neither damage nor a lost race; _lost: the last
    conflict.
    """

    state: TableState
    commit: Callable[[list[CommitMessage]], object]
    run: RunWorks
    group_seconds: float = math.inf
    made: MadePlans = field(default_factory=dict)
    files_after: int = 0
    conflicts: int = 0
    quarantined: list[QuarantinedBucket] = field(default_factory=list)
    _group: dict[BucketId, CommitMessage] = field(default_factory=dict)
    _group_began: float = 0.0
    _lost_buckets: set[BucketId] = field(default_factory=set)
    _lost: ConflictError = field(init=False)
    _leaves_some: bool = False
    _has_committed: bool = False
    _gone: set[str] = field(default_factory=set)
    _error: Exception | None = None

    def compact(self, live_entries: Callable[[], Sequence[ManifestEntry]], scope: Scope) -> None:
        """Compact every bucket that has a plan for the scope. live_entries: see the module text.

        Raises the first error of a bucket that is not damage. Where a bucket has more files than are taken at once
        (`fan_in`), the remaining ones follow. An error of `commit` other than ConflictError leaves the new files,
        because the commit may have succeeded.
        """
        self._leaves_some, self._has_committed = True, True
        while self._leaves_some and self._has_committed:
            self._leaves_some, self._has_committed = False, False
            self._compact_once(live_entries, scope)

    def _compact_once(
        self, live_entries: Callable[[], Sequence[ManifestEntry]], scope: Scope
    ) -> None:
        """Compact in rounds until no group loses."""
        only: set[BucketId] | None = None
        for _ in range(_MAX_ROUNDS):
            self._lost_buckets = set()
            self._group_began = time.monotonic()
            try:
                for work, outcome in self.run(self._works(live_entries(), only, scope)):
                    self._take(work, outcome)
            except BaseException:
                discard(self.state, self._group.values())
                self._group = {}
                raise
            self._commit_group()
            only = self._lost_buckets
            if not only:
                if self._error is not None:
                    raise self._error
                return
        if self._error is not None:
            self._log(self._error)
        raise self._lost

    def _log(self, error: Exception) -> None:
        warn(
            _log,
            WarningCode.OTHER_BUCKET_FAILED,
            "another bucket of %s failed: %s",
            self.state.paths.root,
            error,
        )

    def _works(
        self, entries: Sequence[ManifestEntry], only: set[BucketId] | None, scope: Scope
    ) -> Iterator[BucketWork]:
        """Yield the requested buckets (None: all) that have a plan, planned on demand; skip those in quarantine."""
        for bucket, members in by_bucket(entries).items():
            if only is not None and bucket not in only:
                continue
            plan = self._plan(bucket, [entry.file for entry in members], scope)
            if not plan:
                continue
            quarantined = QUARANTINED_BUCKETS.find(self.state, bucket, names_of(plan))
            if quarantined is None:
                yield BucketWork(bucket, members[0].total_buckets, plan)
            else:
                self.quarantined.append(quarantined)

    def _plan(self, bucket: BucketId, files: list[DataFileMeta], scope: Scope) -> Plan:
        """Plan no more than is due while some files are left over, so that the base is not rewritten each time."""
        schema, kind = self.state.schema, kind_of(self.state.schema)
        planned_files, made_plan = self.made.get((bucket, scope), (None, ()))
        plan = made_plan if planned_files == files else kind.plan(schema, files, scope)
        if kind.leaves_some(schema, files, plan):
            self._leaves_some = True
            if scope is Scope.FULL:
                return kind.plan(schema, files, Scope.DUE) or plan
        return plan

    def _take(self, work: BucketWork, outcome: Outcome) -> None:
        if isinstance(outcome, NotFoundError) and is_of_bucket(self.state, outcome):
            self._lose_input(work, outcome)
        elif isinstance(outcome, BucketError) and is_of_bucket(self.state, outcome):
            self._quarantine(work, outcome)
        elif isinstance(outcome, Exception):
            if self._error is not None:
                self._log(outcome)
            self._error = self._error or outcome
        elif not outcome.is_empty:
            self._group[work.bucket] = outcome
            written = (file.file_size for m in self._group.values() for file in m.written_files())
            is_old = time.monotonic() - self._group_began >= self.group_seconds
            if is_old or len(self._group) >= _GROUP_BUCKETS or sum(written) >= _GROUP_BYTES:
                self._commit_group()
                self._group_began = time.monotonic()

    def _quarantine(self, work: BucketWork, error: BucketError) -> None:
        names = names_of(work.plan)
        self.quarantined.append(QUARANTINED_BUCKETS.note(self.state, work.bucket, names, error))

    def _lose_input(self, work: BucketWork, gone: NotFoundError) -> None:
        """Note that an input file has expired after a faster compactor replaced it. If planned again, it is missing."""
        if gone.subject in self._gone:
            damage = missing_file(self.state.paths, gone.subject, "the newest snapshot")
            self._quarantine(work, damage)
            return
        self._gone.add(gone.subject)
        lost = ConflictError(
            gone.subject,
            found="a file that has expired since it was planned",
            expected="a live file",
            action="Compact again.",
        )
        lost.__cause__ = gone
        self._lose([work.bucket], lost)

    def _commit_group(self) -> None:
        if not self._group:
            return
        # Removed first: after an unknown outcome of the commit no one may delete the files.
        group, self._group = self._group, {}
        try:
            self.commit(list(group.values()))
        except ConflictError as conflict:
            discard(self.state, group.values())
            self._lose(group.keys(), conflict)
        else:
            self._has_committed = True
            self.files_after += sum(len(message.compact_after) for message in group.values())

    def _lose(self, buckets: Iterable[BucketId], conflict: ConflictError) -> None:
        self._lost_buckets |= set(buckets)
        self._lost = conflict
        self.conflicts += 1
