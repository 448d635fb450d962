"""Brings rows whose bucket was postponed (`bucket` = -2) into buckets.

    bucket-postpone    files of writers, in the order of commits  ─┐
                                                                   ├─► COMPACT: they go, files of level 0 come
    bucket-0, -1, ..   the buckets of the partition               ─┘

A partition keeps the number of buckets that it has. Its first rows decide on it: by `postpone.default-bucket-num`, or
by the number or size of these rows. Records get their numbers here, in the order of their commits, so it does not
matter when a compaction runs. The compaction after this one moves them up, and makes the changelog.

Each partition is a work, which any process may carry out (`run`); works are committed in groups. If another compactor
was faster in one of a group, its commit has taken the files: the new files of the group are deleted, and its partitions
are tried again here, each by itself. A process that dies leaves orphans.

Raises what reading and writing data files raises, but for the damage of a partition, which is reported, so that others
go on. Source: Paimon `PostponeUtils`, `PostponeBucketFileStoreWrite`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from widetable.commit.transaction.commit_result import CommitResult
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, DamagedError, InvalidError, NotFoundError
from widetable.format.bucket_id import BucketId
from widetable.format.damaged_file import missing_file
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.lsm.moved_rows import placed_at_last
from widetable.operations.compaction.quarantined_buckets import (
    QUARANTINED_BUCKETS,
    BucketError,
    is_of_bucket,
)
from widetable.operations.handle.newest_snapshot import newest_files
from widetable.schema import options as opt
from widetable.schema.options import TableOptions
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.sequence import SequenceAllocator
from widetable.write.table_state import TableState

_MAX_TRIES: Final = 10
# A group is committed when it has so many partitions, or its partitions had files of so many bytes.
_GROUP_PARTITIONS: Final = 256
_GROUP_BYTES: Final = 1 << 30
_log = logging.getLogger("widetable")


@dataclass
class PlacedRows:
    """What was brought into buckets. commits: one for each group of partitions. damage: why some were left out."""

    commits: list[CommitResult] = field(default_factory=list)
    damage: list[BucketError] = field(default_factory=list)


@dataclass(frozen=True)
class PlaceWork:
    """The waiting rows of a partition. count: of its buckets. first_number: above all sequence numbers of the table."""

    bucket: BucketId
    files: tuple[DataFileMeta, ...]
    count: int
    first_number: int

    def perform(self, state: TableState) -> PlaceOutcome:
        """Write the rows into files of the buckets. An error is a value, so that it travels between processes."""
        try:
            return self.written(state)
        except Exception as error:  # noqa: BLE001
            return error

    def written(self, state: TableState) -> tuple[CommitMessage, ...]:
        """Write the rows into files of the buckets."""
        files = [(self.bucket, file) for file in self.files]
        numbers = SequenceAllocator(self.first_number)
        return tuple(placed_at_last(state, self.count, files, numbers))


# The new files of a partition, by bucket, or the error that placing its rows met.
PlaceOutcome: TypeAlias = tuple[CommitMessage, ...] | Exception
RunPlacing: TypeAlias = Callable[[Sequence[PlaceWork]], Iterable[tuple[PlaceWork, PlaceOutcome]]]


def placed_rows(
    state: TableState, committer: Committer, run: RunPlacing | None = None
) -> PlacedRows:
    """Bring all postponed rows of the newest snapshot into buckets. The caller holds the lease of compactions.

    run: carries works out, and yields each with its outcome, in any order. None: here, one after the other.
    """
    placing = _Placing(state, committer)
    if state.schema.postpones_buckets:
        live = newest_files(committer)[1]
        placing.place(_works(live, state, committer), run or _one_by_one(state))
    return placing.done


def _one_by_one(state: TableState) -> RunPlacing:
    def run(works: Sequence[PlaceWork]) -> Iterator[tuple[PlaceWork, PlaceOutcome]]:
        for work in works:
            yield work, work.perform(state)

    return run


def _works(
    live: Sequence[ManifestEntry], state: TableState, committer: Committer
) -> list[PlaceWork]:
    """Return a work for each partition in which rows wait.

    A partition with waiting files of a newer schema is left to a compactor that has read it: this one would lose their
    columns.
    """
    members: dict[bytes, list[ManifestEntry]] = {}
    for entry in live:
        members.setdefault(entry.partition, []).append(entry)
    first_number = committer.sequence_base()
    works = []
    for partition, entries in members.items():
        waiting = tuple(entry.file for entry in entries if entry.bucket == POSTPONED)
        if waiting and all(file.schema_id <= state.schema.id for file in waiting):
            bucket, count = BucketId(partition, POSTPONED), _bucket_count(entries, state.options)
            works.append(PlaceWork(bucket, waiting, count, first_number))
    return works


@dataclass
class _Placing:
    """Takes outcomes of works. group: works that are not committed yet, with their new files."""

    state: TableState
    committer: Committer
    done: PlacedRows = field(default_factory=PlacedRows)
    group: list[tuple[PlaceWork, tuple[CommitMessage, ...]]] = field(default_factory=list)

    def place(self, works: Sequence[PlaceWork], run: RunPlacing) -> None:
        """Carry works out and commit them. After an error that concerns all, the files of the group are deleted."""
        try:
            for work, outcome in run([work for work in works if not self._is_quarantined(work)]):
                self._take(work, outcome)
            self._commit_group()
        except BaseException:
            group, self.group = self.group, []
            discard(self.state, [each for _, written in group for each in written])
            raise

    def _is_quarantined(self, work: PlaceWork) -> bool:
        names = [file.file_name for file in work.files]
        quarantined = QUARANTINED_BUCKETS.find(self.state, work.bucket, names)
        if quarantined is not None:
            self.done.damage.append(quarantined.error)
        return quarantined is not None

    def _take(self, work: PlaceWork, outcome: PlaceOutcome) -> None:
        if isinstance(outcome, NotFoundError) and is_of_bucket(self.state, outcome):
            # A faster compactor took the file, and it expired; or it is missing.
            self._place_alone(work)
        elif isinstance(outcome, Exception):
            self._note(work, outcome)
        else:
            self.group.append((work, outcome))
            file_bytes = sum(file.file_size for each, _ in self.group for file in each.files)
            if len(self.group) >= _GROUP_PARTITIONS or file_bytes >= _GROUP_BYTES:
                self._commit_group()

    def _note(self, work: PlaceWork, error: Exception) -> None:
        """Note damage of a partition. Raises other errors."""
        if not isinstance(error, DamagedError | InvalidError) or not is_of_bucket(
            self.state, error
        ):
            raise error
        names = [file.file_name for file in work.files]
        noted = QUARANTINED_BUCKETS.note(self.state, work.bucket, names, error)
        self.done.damage.append(noted.error)

    def _commit_group(self) -> None:
        # Taken first: after an unknown outcome of the commit no one may delete the files.
        group, self.group = self.group, []
        if not group:
            return
        messages = [each for work, written in group for each in _messages(work, written)]
        try:
            self.done.commits.append(self.committer.compact(messages))
        except ConflictError as lost:
            discard(self.state, [each for _, written in group for each in written])
            _log.info("retrying to place postponed rows of %s: %s", self.state.paths.root, lost)
            for work, _ in group:
                self._place_alone(work)

    def _place_alone(self, work: PlaceWork) -> None:
        """Place the rows that wait in the partition of a work now, by themselves."""
        try:
            self._retry(work.bucket.partition)
        except (DamagedError, InvalidError) as error:
            self._note(work, error)

    def _retry(self, partition: bytes) -> None:
        missed: set[str] = set()
        for tries_left in reversed(range(_MAX_TRIES)):
            _, live = newest_files(self.committer, frozenset([partition]))
            works = _works(live, self.state, self.committer)
            if not works:
                return
            try:
                self._commit_alone(works[0])
                return
            except ConflictError:
                if not tries_left:
                    raise
            except NotFoundError as gone:
                if not is_of_bucket(self.state, gone):
                    raise
                if gone.subject in missed or not tries_left:
                    named_by = "the newest snapshot"
                    raise missing_file(self.state.paths, gone.subject, named_by) from gone
                missed.add(gone.subject)

    def _commit_alone(self, work: PlaceWork) -> None:
        written = work.written(self.state)
        try:
            self.done.commits.append(self.committer.compact(_messages(work, written)))
        except ConflictError:
            discard(self.state, written)
            raise


def _messages(work: PlaceWork, written: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Return the messages of a compaction that takes the waiting files and adds those with the placed rows."""
    taken = CommitMessage(*work.bucket, POSTPONED, compact_before=work.files)
    placed = (replace(each, new_files=(), compact_after=each.new_files) for each in written)
    return [taken, *placed]


def _bucket_count(entries: Sequence[ManifestEntry], options: TableOptions) -> int:
    """Return the number of buckets of a partition, by its live files."""
    present = next((e.total_buckets for e in entries if e.bucket != POSTPONED), None)
    count = present or options.get(opt.POSTPONE_DEFAULT_BUCKET_NUM)
    if count is not None:
        return count
    target_rows = options.get(opt.POSTPONE_TARGET_ROWS)
    if target_rows is not None:
        return max(1, -(-sum(entry.file.row_count for entry in entries) // target_rows))
    size = sum(entry.file.file_size for entry in entries)
    return max(1, -(-size // options.get(opt.POSTPONE_TARGET_SIZE)))
