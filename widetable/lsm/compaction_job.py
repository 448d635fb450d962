"""Compacts a whole table: picks and performs per bucket, commits, and plans again what lost a race.

In: two functions of the commit layer, which comes after this one: the live entries of the latest snapshot, and a commit
of messages that raises ConflictError when their input files are gone. Buckets are committed in groups, so that a large
table makes progress and a lost race costs one group. A message that lost is dropped with its files: that hurts nobody
(the compactor may lose), and so is one whose input files expired while it read them. A bucket with a damaged file is
passed by and told in the result (`sick_buckets`); one with a file that the storage does not give keeps the others from
nothing either, but its StorageError is raised in the end. Raises ConflictError when a group lost in every round, and
what compaction raises: DamagedError only for what is not of a bucket.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from widetable.errors import ConflictError, DamagedError, NotFoundError, StorageError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.damaged_file import missing_file
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.changelog_compaction import Share
from widetable.lsm.compaction import compact_bucket, plan_bucket
from widetable.lsm.file_rows import Caches
from widetable.lsm.sick_buckets import SICK_BUCKETS, SickBucket, is_of_bucket, names_of
from widetable.lsm.universal_compaction import Choice
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")

_MAX_ROUNDS: Final = 5
# A group is committed when it has so many buckets, or has written so many bytes.
_GROUP_BUCKETS: Final = 64
_GROUP_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class CompactionResult:
    """What was committed. files_moved: level changed, bytes stayed. conflicts: groups that lost and were redone.
    sick: buckets that were passed by.
    """

    commits: int = 0
    buckets: int = 0
    files_before: int = 0
    files_after: int = 0
    files_moved: int = 0
    conflicts: int = 0
    sick: tuple[SickBucket, ...] = ()


def compact_table(
    state: TableState,
    live_entries: Callable[[], Sequence[ManifestEntry]],
    commit: Callable[[list[CommitMessage]], object],
    *,
    full: bool = False,
    share: Share = Share.ALL,
    caches: Caches | None = None,
    group_seconds: float = math.inf,
) -> CompactionResult:
    """Compact every bucket that the rules (or `full`) pick. live_entries, commit: see the module text. share: of the
    work that is due. caches: for rows before (compaction.compact_bucket). group_seconds: after which what is done is
    committed, so that who waits for its changes does not wait for the other buckets.

    An error of `commit` other than ConflictError leaves the new files: the commit may have gone through.
    """
    job = _Job(state, commit, caches, group_seconds, full=full, share=share)
    lost: ConflictError | None = None
    wanted: set[BucketId] | None = None
    for _ in range(_MAX_ROUNDS):
        wanted, lost = job.round(live_entries(), wanted)
        if not wanted:
            job.raise_refusal()
            return job.result
    assert lost is not None
    raise lost


class _Job:
    def __init__(
        self,
        state: TableState,
        commit: Callable[[list[CommitMessage]], object],
        caches: Caches | None,
        group_seconds: float,
        *,
        full: bool,
        share: Share,
    ) -> None:
        self.result = CompactionResult()
        self._state = state
        self._commit = commit
        self._caches = caches
        self._group_seconds = group_seconds
        self._group_began = 0.0
        self._full = full
        self._share = share
        self._group: dict[BucketId, CommitMessage] = {}
        self._lost_buckets: set[BucketId] = set()
        self._lost: ConflictError | None = None
        self._gone: set[str] = set()
        self._refusal: StorageError | None = None

    def round(
        self, entries: Sequence[ManifestEntry], wanted: set[BucketId] | None
    ) -> tuple[set[BucketId], ConflictError | None]:
        """Compact the wanted buckets (None: all) once; those that lost, and the last conflict."""
        self._lost_buckets, self._lost = set(), None
        self._group_began = time.monotonic()
        try:
            for bucket, members in by_bucket(entries).items():
                files = [entry.file for entry in members]
                choice = plan_bucket(self._state, files, full=self._full, share=self._share)
                if choice is None or (wanted is not None and bucket not in wanted):
                    continue
                sick = SICK_BUCKETS.known(self._state, bucket, choice)
                if sick is None:
                    self._perform(bucket, members[0].total_buckets, choice)
                else:
                    self.result = replace(self.result, sick=(*self.result.sick, sick))
        except BaseException:
            self._drop_group()
            raise
        self._commit_group()
        return self._lost_buckets, self._lost

    def _perform(self, bucket: BucketId, total_buckets: int, choice: Choice) -> None:
        if choice.repairs:
            _log.info(
                "bucket %d of %s: files above level 0 were compacted without a lookup changelog; all its rows are "
                "merged once before the changelog goes on",
                bucket.number,
                self._state.paths.root,
            )
        try:
            message = compact_bucket(self._state, bucket, total_buckets, choice, self._caches)
        except NotFoundError as gone:
            self._lose_input(bucket, choice, gone)
            return
        except DamagedError as damage:
            self._pass_by(bucket, choice, damage)
            return
        except StorageError as refusal:
            if not any(name in refusal.subject for name in names_of(choice)):
                raise
            self._refusal = self._refusal or refusal
            return
        if message.is_empty:
            return
        self._group[bucket] = message
        written = (file.file_size for m in self._group.values() for file in m.written_files())
        is_old = time.monotonic() - self._group_began >= self._group_seconds
        if is_old or len(self._group) >= _GROUP_BUCKETS or sum(written) >= _GROUP_BYTES:
            self._commit_group()
            self._group_began = time.monotonic()

    def raise_refusal(self) -> None:
        """What kept buckets from being compacted although nothing is damaged."""
        if self._refusal is not None:
            raise self._refusal

    def _pass_by(self, bucket: BucketId, choice: Choice, damage: DamagedError) -> None:
        if not is_of_bucket(self._state, damage):
            raise damage
        sick = SICK_BUCKETS.note(self._state, bucket, choice, damage)
        self.result = replace(self.result, sick=(*self.result.sick, sick))

    def _lose_input(self, bucket: BucketId, choice: Choice, gone: NotFoundError) -> None:
        """Another compactor was faster, and an expiry took what it left. A file that is planned again is missing."""
        if gone.subject in self._gone:
            damage = missing_file(self._state.paths, gone.subject, "the newest snapshot")
            self._pass_by(bucket, choice, damage)
            return
        self._gone.add(gone.subject)
        lost = ConflictError(
            gone.subject,
            found="a file that has expired since it was planned",
            expected="a file that is live",
            action="Compact again.",
        )
        lost.__cause__ = gone
        self._lost_buckets.add(bucket)
        self._lost = lost
        self.result = replace(self.result, conflicts=self.result.conflicts + 1)

    def _commit_group(self) -> None:
        if not self._group:
            return
        # Taken over first: after an unknown outcome of the commit nobody may delete the files.
        group, self._group = self._group, {}
        try:
            self._commit(list(group.values()))
        except ConflictError as conflict:
            discard(self._state, group.values())
            self._lost_buckets |= group.keys()
            self._lost = conflict
            self.result = replace(self.result, conflicts=self.result.conflicts + 1)
            return
        self.result = _add(self.result, list(group.values()))

    def _drop_group(self) -> None:
        discard(self._state, self._group.values())
        self._group = {}


def _add(result: CompactionResult, messages: Sequence[CommitMessage]) -> CompactionResult:
    moved = sum(
        len({f.file_name for f in m.compact_before} & {f.file_name for f in m.compact_after})
        for m in messages
    )
    return replace(
        result,
        commits=result.commits + 1,
        buckets=result.buckets + len(messages),
        files_before=result.files_before + sum(len(m.compact_before) for m in messages),
        files_after=result.files_after + sum(len(m.compact_after) for m in messages),
        files_moved=result.files_moved + moved,
    )
