"""Which barrier the files at level 0 belong to: each file has the label of the commit that added it.

    at       the files of a snapshot; from those of an earlier one and what came since, where that is remembered
    state    the barriers as of a snapshot, with what waits at level 0 looked up where other clients have committed

A file whose commit has expired has a label that no record of the oldest kept snapshot is above:
such a file moves up later than it could, and never too early. One of before the table was put under
barriers has the lowest label, and nobody looks which commit added it.

    snapshot 8 known: {a: 10, b: 20};  9 adds c, label 20;  10 is a compaction that takes a
        at(10) = {b: 20, c: 20}        two deltas are read, however many files there are

Thread-safe: what is remembered is replaced as a whole, and only followed while its snapshot is
the one that is there under its id. Raises NotFoundError for a snapshot that has expired,
ConflictError for a compaction that is not cut at a barrier, and what reading manifests raises.
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
from widetable.commit.notes.skipped_files import if_there
from widetable.commit.snapshots.committed import Load, before
from widetable.commit.snapshots.committed_columns import columns_of
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import ConflictError, NotFoundError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.manifest_entry import ADD, DELETE, Identity, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.merge.order_dependence import Values

# Snapshots that are read in one go where nobody has looked for so long: some 0.2 s. So a table
# whose barriers do not complete for long still answers soon when one does.
_BEHIND_AT_MOST: Final = 512


class LabelledFile(NamedTuple):
    """is_known: False where the label is only not higher. columns: see `columns_of`.

    Of a file whose commit has expired nothing is known: its label is the highest that it can have had,
    and it may have values in all columns.
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
        """The lowest label, None without files. lower_bound: instead of those that are not known.

        Their `label` is a bound from above, and would be too high here.
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
        """Where files of that barrier or earlier ones are."""
        return frozenset(file.bucket for file in self.files.values() if file.label <= barrier)

    def staying(
        self, entries: Sequence[ManifestEntry], barrier: int, *, ordered: frozenset[int] | None
    ) -> set[str]:
        """Names of those of live entries that a compaction with that cut leaves (`barrier_cut.staying`)."""
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
    """Of one table, at `path`. load: a snapshot by id, remembered ones too (`LastCommits.load`)."""

    def __init__(self, live_files: LiveFiles, load: Load) -> None:
        self.load = load
        self.path: Final = live_files.paths.root
        self._live_files = live_files
        self._last = Level0(None, {})

    def state(self, snapshot: Snapshot | None, interval: int) -> BarrierState:
        """The barriers as of a snapshot, None for a table without one."""
        state = state_at(snapshot, self.load, interval)
        if snapshot is None or (BARRIERS in snapshot.properties and state.waiting != UNKNOWN):
            return state
        return replace(state, waiting=self.at(snapshot, interval).lowest(state.waiting))

    def compacted(
        self, snapshot: Snapshot, interval: int, deletes: Iterable[ManifestEntry]
    ) -> BarrierState:
        """The barriers behind a compaction that takes these files of the snapshot.

        What it took counts as moved, what it left waits. One of older levels alone changes nothing.
        Refuses one that was planned without a cut, by who did not know yet that the table is under barriers,
        and takes records of a barrier that is not complete: they would be shown as of an earlier one.
        """
        state = self.state(snapshot, interval)
        taken = {entry.identity for entry in deletes if entry.file.level == 0}
        if not taken:
            return state
        level0 = self.at(snapshot, interval)
        labels = [level0.files[identity].label for identity in taken if identity in level0.files]
        moved = max([state.moved, *labels])
        if moved > max(state.moved, state.frontier):
            raise ConflictError(
                f"compaction of {self.path}",
                found=f"files of barrier {moved} among those that it takes; the table is complete up to "
                f"{state.frontier}",
                expected="a compaction that was planned since the table is under barriers, which takes none of these",
                action="Compact again.",
            )
        return replace(state, moved=moved, waiting=level0.lowest(state.waiting, without=taken))

    def begun(self, snapshot: Snapshot | None, interval: int) -> BarrierState | None:
        """The barriers behind the snapshot by which a table is put under them.

        None where it has no rows yet, or says its barriers already.
        """
        if snapshot is None or says_barriers(snapshot, self.load):
            return None
        waits = any(e.file.level == 0 for e in self._live_files.live_entries(snapshot))
        return BarrierState.begun(interval, snapshot.id + 1, interval if waits else None)

    def at(self, snapshot: Snapshot, interval: int) -> Level0:
        """The files of a snapshot."""
        known = self._last
        if known.snapshot == snapshot:
            return known
        start = known.snapshot
        # Gone where somebody went back: its id may be another snapshot's by now.
        is_there = start is not None and if_there(self.load, start.id) == start
        found = self._followed(known, snapshot, interval) if is_there else None
        found = found or self._looked_up(snapshot, interval)
        if start is None or not is_there or start.id < snapshot.id:
            self._last = found
        return found

    def keep_up(self, snapshot: Snapshot, interval: int) -> None:
        """Now and then, so that who asks for the files of a later snapshot looks at few; nobody asks now."""
        known = self._last.snapshot
        if known is None or snapshot.id - known.id >= _BEHIND_AT_MOST:
            self.at(snapshot, interval)

    def _followed(self, known: Level0, snapshot: Snapshot, interval: int) -> Level0 | None:
        """None where that is no earlier snapshot, or snapshots in between have expired. known: of one that is there."""
        start = known.snapshot
        if start is None or start.id > snapshot.id:
            return None
        files = dict(known.files)
        try:
            for id in range(start.id + 1, snapshot.id + 1):
                one = snapshot if id == snapshot.id else self.load(id)
                if one.id != id:
                    return None
                self._follow(files, one, interval)
        except NotFoundError:
            return None
        return Level0(snapshot, files)

    def _follow(self, files: dict[Identity, LabelledFile], one: Snapshot, interval: int) -> None:
        """Add to `files` what one snapshot brought to level 0, and take away what it deleted.
        Files that a revision puts back have its barrier as label.
        """
        label = label_of(one, self.load, interval)
        for entry in self._live_files.delta_entries(one):
            if entry.kind == DELETE:
                files.pop(entry.identity, None)
            elif entry.file.level == 0:
                files[entry.identity] = self._labelled(entry, one, label, interval)

    def _looked_up(self, snapshot: Snapshot, interval: int) -> Level0:
        """From nothing: back over the commits until each file has been found, or to where barriers begin."""
        live = self._live_files.live_entries(snapshot)
        wanted = {entry.identity: entry for entry in live if entry.file.level == 0}
        files: dict[Identity, LabelledFile] = {}
        since = state_at(snapshot, self.load, interval).since
        oldest = snapshot
        one: Snapshot | None = snapshot
        while one is not None and wanted and one.id >= since:
            try:
                label = label_of(one, self.load, interval)
                added = [e for e in self._live_files.delta_entries(one) if e.kind == ADD]
            except NotFoundError:
                if one.id == snapshot.id:
                    raise
                break
            for identity in [e.identity for e in added if e.identity in wanted]:
                files[identity] = self._labelled(wanted.pop(identity), one, label, interval)
            oldest, one = one, self._before(one)
        if wanted:
            is_from_before = oldest.id <= since
            label = interval if is_from_before else self._highest(oldest, snapshot, interval)
            for identity, entry in wanted.items():
                files[identity] = LabelledFile(entry.bucket_id, label, is_from_before, None)
        return Level0(snapshot, files)

    def _highest(self, oldest: Snapshot, newest: Snapshot, interval: int) -> int:
        """Return the highest label of the records of `oldest`, or an upper bound of it.

        Nothing may be known of the barriers of the oldest kept snapshots: they are other clients', and what they
        follow has expired. Labels only rise, so the first snapshot of which it is known gives the bound.
        `newest` is one of those.
        """
        for id in range(oldest.id, newest.id):
            with suppress(NotFoundError):
                return state_at(self.load(id), self.load, interval).highest
        return state_at(newest, self.load, interval).highest

    def _before(self, snapshot: Snapshot) -> Snapshot | None:
        """The one before, None when it has expired."""
        found = before(snapshot, self.load)
        return found if found is not None and found.id == snapshot.id - 1 else None

    def _labelled(
        self, entry: ManifestEntry, of: Snapshot, label: int | None, interval: int
    ) -> LabelledFile:
        if label is not None:
            return LabelledFile(entry.bucket_id, label, True, columns_of(of))
        bound = state_at(of, self.load, interval).highest
        return LabelledFile(entry.bucket_id, bound, False, None)
