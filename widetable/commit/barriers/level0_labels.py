"""The barrier of each file at level 0: a file has the label of the commit that added it.

    at       the files of a snapshot; computed from a cached earlier snapshot and the deltas since, if there is one
    state    the barriers as of a snapshot; the lowest waiting label is looked up if other clients have committed

If the commit of a file has expired, its label is an upper bound: the highest label in the oldest kept snapshot. Such a
file moves up later than it could, and never too early. A file from before the table was put under barriers has the
lowest label, without a search for its commit.

    snapshot 8 is cached: {a: 10, b: 20};  9 adds c, label 20;  10 is a compaction that takes a
        at(10) = {b: 20, c: 20}            two deltas are read, however many files the snapshot has

Thread-safe: the cached value is replaced as a whole, and used only while its snapshot is the one stored under its id.
Raises NotFoundError for a snapshot that has expired, ConflictError for a compaction that is not cut at a barrier, and
the errors of reading manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from widetable.commit.barriers.barrier_cut import Level0File, staying
from widetable.commit.barriers.barrier_state import (
    BARRIERS,
    UNKNOWN,
    BarrierState,
    label_of,
    says_barriers,
    state_at,
)
from widetable.commit.notes.skipped_files import or_none
from widetable.commit.snapshots.committed import Load, before
from widetable.commit.snapshots.committed_columns import columns_of
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import ConflictError, NotFoundError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.manifest_entry import ADD, DELETE, Identity, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.merge.order_dependence import Values

# Most snapshots by which the cache may lag (some 0.2 s to read). So a table whose barriers have
# not completed for a long time still answers soon when one does.
_BEHIND_AT_MOST: Final = 512


class LabelledFile(NamedTuple):
    """A level-0 file with its label. is_known: False if the label is only an upper bound. columns: see `columns_of`.

    If the commit of a file has expired, its label is the highest possible one, and it may have values in all columns.
    """

    bucket: BucketId
    label: int
    is_known: bool
    columns: frozenset[int] | None


@dataclass(frozen=True)
class Level0:
    """The files at level 0 of a snapshot, None for none."""

    snapshot: Snapshot | None
    files: Mapping[Identity, LabelledFile]

    def lowest(self, lower_bound: int | None, without: Collection[Identity] = ()) -> int | None:
        """Return the lowest label, None without files. without: files to leave out.

        lower_bound: counts instead of labels that are not known, as these are upper bounds, too high here.
        """
        return min(
            (
                file.label if file.is_known else lower_bound or UNKNOWN
                for identity, file in self.files.items()
                if identity not in without
            ),
            default=None,
        )

    def buckets_up_to(self, barrier: int) -> frozenset[BucketId]:
        """Return the buckets that have files of that barrier or earlier ones."""
        return frozenset(file.bucket for file in self.files.values() if file.label <= barrier)

    def staying(
        self, entries: Sequence[ManifestEntry], barrier: int, *, ordered: frozenset[int] | None
    ) -> set[str]:
        """Return the names of live level-0 files that a compaction cut at `barrier` leaves (`barrier_cut.staying`)."""
        waiting = [entry for entry in entries if entry.file.level == 0]
        return {
            name
            for members in by_bucket(waiting).values()
            for name in staying([*map(self._file, members)], barrier, ordered=ordered)
        }

    def _file(self, entry: ManifestEntry) -> Level0File:
        labelled, file = self.files[entry.identity], entry.file
        values = Values(labelled.columns, file.delete_row_count != 0)
        first, last = file.min_sequence_number, file.max_sequence_number
        return Level0File(file.file_name, labelled.label, values, first, last)


class Level0Labels:
    """The labels of one table, at `path`. load: returns a snapshot by id, cached ones too (`LastCommits.load`)."""

    def __init__(self, live_files: LiveFiles, load: Load) -> None:
        self.load = load
        self.path: Final = live_files.paths.root
        self._live_files = live_files
        self._last = Level0(None, {})

    def state(self, snapshot: Snapshot | None, interval: int) -> BarrierState:
        """Return the barriers as of a snapshot, None for a table without one."""
        state = state_at(snapshot, self.load, interval)
        if snapshot is None or (BARRIERS in snapshot.properties and state.waiting != UNKNOWN):
            return state
        return replace(state, waiting=self.at(snapshot, interval).lowest(state.waiting))

    def compacted(
        self, snapshot: Snapshot, interval: int, deletes: Iterable[ManifestEntry]
    ) -> BarrierState:
        """Return the barriers after a compaction that takes these files of the snapshot.

        Files that it takes count as moved, files that it leaves wait. A compaction of older levels alone changes
        nothing. Raises ConflictError for a compaction that takes records of an incomplete barrier, because it was
        planned without a cut before the table was under barriers: readers would see them as of an earlier barrier.
        """
        state = self.state(snapshot, interval)
        compacted = {entry.identity for entry in deletes if entry.file.level == 0}
        if not compacted:
            return state
        level0 = self.at(snapshot, interval)
        labels = [
            level0.files[identity].label for identity in compacted if identity in level0.files
        ]
        moved = max([state.moved, *labels])
        if moved > max(state.moved, state.frontier):
            raise ConflictError(
                f"compaction of {self.path}",
                found=f"files of barrier {moved} among those that it takes; the table is complete up to "
                f"{state.frontier}",
                expected="a compaction that was planned after the table was put under barriers, which takes none of "
                "these",
                action="Compact again.",
            )
        return replace(state, moved=moved, waiting=level0.lowest(state.waiting, without=compacted))

    def begun(self, snapshot: Snapshot | None, interval: int) -> BarrierState | None:
        """Return the barriers after the snapshot that puts a table under them.

        None if the table has no rows yet, or has barriers already.
        """
        if snapshot is None or says_barriers(snapshot, self.load):
            return None
        waits = any(e.file.level == 0 for e in self._live_files.live_entries(snapshot))
        return BarrierState.begun(interval, snapshot.id + 1, interval if waits else None)

    def at(self, snapshot: Snapshot, interval: int) -> Level0:
        """Return the labelled files of a snapshot."""
        cached = self._last
        if cached.snapshot == snapshot:
            return cached
        start = cached.snapshot
        # After a rollback the id may belong to another snapshot.
        is_there = start is not None and or_none(self.load, start.id) == start
        level0 = self._updated(cached, snapshot, interval) if is_there else None
        level0 = level0 or self._search_labels(snapshot, interval)
        if start is None or not is_there or start.id < snapshot.id:
            self._last = level0
        return level0

    def keep_up(self, snapshot: Snapshot, interval: int) -> None:
        """Update the cache now and then, so that a later call of `at` reads few snapshots."""
        cached = self._last.snapshot
        if cached is None or snapshot.id - cached.id >= _BEHIND_AT_MOST:
            self.at(snapshot, interval)

    def _updated(self, cached: Level0, snapshot: Snapshot, interval: int) -> Level0 | None:
        """Apply the deltas since a cached snapshot that still exists; None if it is later, or deltas have expired."""
        start = cached.snapshot
        if start is None or start.id > snapshot.id:
            return None
        files = dict(cached.files)
        try:
            for id in range(start.id + 1, snapshot.id + 1):
                one = snapshot if id == snapshot.id else self.load(id)
                if one.id != id:
                    return None
                self._apply_delta(files, one, interval)
        except NotFoundError:
            return None
        return Level0(snapshot, files)

    def _apply_delta(
        self, files: dict[Identity, LabelledFile], one: Snapshot, interval: int
    ) -> None:
        """Add to `files` the files that one snapshot added to level 0, and remove those that it deleted.

        Files that a revision restores have its barrier as label.
        """
        label = label_of(one, self.load, interval)
        for entry in self._live_files.delta_entries(one):
            if entry.kind == DELETE:
                files.pop(entry.identity, None)
            elif entry.file.level == 0:
                files[entry.identity] = self._labelled(entry, one, label, interval)

    def _search_labels(self, snapshot: Snapshot, interval: int) -> Level0:
        """Look up all labels without a cache: go back over the commits to those that added the files, or to the first
        snapshot with barriers.
        """
        live = self._live_files.live_entries(snapshot)
        unlabelled = {entry.identity: entry for entry in live if entry.file.level == 0}
        files: dict[Identity, LabelledFile] = {}
        since = state_at(snapshot, self.load, interval).since
        oldest = snapshot
        one: Snapshot | None = snapshot
        while one is not None and unlabelled and one.id >= since:
            try:
                label = label_of(one, self.load, interval)
                added = [e for e in self._live_files.delta_entries(one) if e.kind == ADD]
            except NotFoundError:
                if one.id == snapshot.id:
                    raise
                break
            for identity in [e.identity for e in added if e.identity in unlabelled]:
                files[identity] = self._labelled(unlabelled.pop(identity), one, label, interval)
            oldest, one = one, self._before(one)
        if unlabelled:
            is_from_before = oldest.id <= since
            label = interval if is_from_before else self._highest(oldest, snapshot, interval)
            for identity, entry in unlabelled.items():
                files[identity] = LabelledFile(entry.bucket_id, label, is_from_before, None)
        return Level0(snapshot, files)

    def _highest(self, oldest: Snapshot, newest: Snapshot, interval: int) -> int:
        """Return the highest label of the records of `oldest`, or an upper bound of it.

        The barriers of the oldest kept snapshots may not be known: these are other clients' snapshots that follow
        expired ones. Labels only rise, so the first snapshot whose barriers are known gives the bound.
        `newest` is such a snapshot.
        """
        for id in range(oldest.id, newest.id):
            with suppress(NotFoundError):
                return state_at(self.load(id), self.load, interval).highest
        return state_at(newest, self.load, interval).highest

    def _before(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot before, None if it has expired."""
        previous = before(snapshot, self.load)
        return previous if previous is not None and previous.id == snapshot.id - 1 else None

    def _labelled(
        self, entry: ManifestEntry, of: Snapshot, label: int | None, interval: int
    ) -> LabelledFile:
        if label is not None:
            return LabelledFile(entry.bucket_id, label, True, columns_of(of))
        bound = state_at(of, self.load, interval).highest
        return LabelledFile(entry.bucket_id, bound, False, None)
