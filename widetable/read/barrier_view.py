"""Finds the files with the rows of a table as of a barrier: those of a base snapshot, and later files of the barrier.

    by snapshot   base      the newest kept snapshot that has no record of a later barrier
                  extras    files of later appends whose label is the barrier or an earlier one
    by cut        base      the newest kept snapshot that has no record of a later barrier above level 0
                  hidden    files at level 0 of the base whose label is later
                  extras    files of later appends, as above

    snapshots    1 wa@10   2 wb@10   3 wa@20   4 wb@20          barrier 10: base 2      barrier 20: base 4
                 1 wa@10   2 wa@20   3 wb@10                    barrier 10: base 1 and the files of 3
                 ..        4 a compaction, cut at 10            barrier 10: base 4 without the file of 2

Both give the same rows, because a table's rows are the merge of all its records. But extras may be ordered before the
base: an overtaken append gets numbers above all live ones (0061), which a compaction may have lowered since that base.
So a base without extras is preferred; other clients can read it as a snapshot. Otherwise the view with fewer extras is
used. A cut has none, because compactions take complete barriers only, unless another client has compacted. The compared
values never decrease from snapshot to snapshot, so bisection finds the ends. Only a revision takes them back; so only
the snapshots from the last revision that counts up to the next one are considered (0046). After the first snapshot that
is complete up to the barrier, no record of it follows. Source: rules R14, R20 of docs/consistency.md.
Raises NotFoundError for a barrier that is not complete (it names the missing writers), not exact (`exact_barriers`), or
expired; InvalidError for a table without barriers and for an invalid number; what reading lists raises. In a table that
was put under barriers later, the first complete barrier has all rows from before (0064).

Compactions between base and end move rows of the base and of extras into other files. These are
not read: an extra is the file that the append added, which the snapshot of the append still
names. So a view needs all snapshots from `first_id` on; it does not keep them from expiry.

Cost: a bisection loads log2(n) snapshots. Extras load one manifest list per append, so the cost of a
view grows with the distance between the barrier's writers. The cut avoids that: if one writer is an
hour behind, the newest snapshot without later records is an hour old, but a compaction that was cut
at the barrier is not.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from widetable.commit.barriers.barrier_state import (
    BARRIERS,
    BarrierState,
    check_barrier,
    label_of,
    state_at,
)
from widetable.commit.barriers.barrier_table import interval_of
from widetable.commit.barriers.level0_labels import Level0Labels
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import ADD, Identity, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, Snapshot
from widetable.messages.error_code import ErrorCode
from widetable.read.exact_barriers import ExactBarriers
from widetable.schema.derived_options import WIDENER_OF
from widetable.schema.table_schema import TableSchema


def waiting_for(writers: Iterable[str]) -> str:
    """Return the advice to a reader about missing writers."""
    is_widener = any(writer.startswith(WIDENER_OF) for writer in writers)
    how = f" (the table's maintainer runs those named {WIDENER_OF}..)" if is_widener else ""
    return f"Wait for these writers{how}, remove those that have ended"


@dataclass(frozen=True)
class BarrierView:
    """The files with the rows as of a barrier.

    base: None if the first kept snapshot is that of a later barrier. end: the first snapshot that is complete up to the
    barrier. extras: entries of files, oldest first. first_id: the view needs the snapshots from here on. hidden: files
    of the base that are not read.
    """

    barrier: int
    base: Snapshot | None
    end: Snapshot
    extras: tuple[ManifestEntry, ...]
    first_id: int
    hidden: frozenset[Identity] = frozenset()

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that has exactly these rows; None if there is none."""
        is_whole = not self.extras and not self.hidden
        return self.base.id if self.base is not None and is_whole else None

    def files(self, of_base: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Return the files to read: live files of the base without hidden ones, and all extras.

        of_base: the live files of the base that a plan has not pruned. Extras are not yet pruned by
        partition and bucket, so the plan checks each bucket again.
        """
        return [*(e for e in of_base if e.identity not in self.hidden), *self.extras]


class BarrierViews:
    """The barrier views of one table. path: for messages."""

    def __init__(
        self,
        schema: TableSchema,
        level0: Level0Labels,
        live_files: LiveFiles,
        ids: range,
        path: str,
        visible: Callable[[int], int] = lambda newest: newest,
    ) -> None:
        """Read the snapshots. ids: the kept snapshots. visible: maps the newest revision to the last one that counts.

        `self.ids` are the snapshots of one revision, without those from before the table was under
        barriers. Each of them states the frontiers of the writers, or follows one that does. Raises
        NotFoundError for snapshots that expire meanwhile.
        """
        self.interval = interval_of(schema, path)
        self._level0 = level0
        # Bisections at one moment load the same snapshots: each halves the same range.
        self._load_any = lru_cache(maxsize=256)(level0.load)
        self._live_files = live_files
        self._path = path
        ids = self._under_barriers(ids)
        self.ids = self._of_revision(ids[self._unknown(ids) :], visible)
        self.first_barrier = self.newest().first
        self.exact = ExactBarriers(self.ids, self.state, self._end, path, self.first_barrier)

    def newest(self) -> BarrierState:
        """Return the barriers of the table and its writers as of the newest snapshot."""
        return self.state(self.ids[-1]) if self.ids else BarrierState.new(self.interval)

    def view(self, barrier: int) -> BarrierView:
        """Return the view of a barrier.

        by snapshot                      by cut                         result
        no extras                        not computed                   by snapshot: other clients can read it
        some extras                      fewer extras                   by cut
        some extras                      not fewer, or no cut           by snapshot
        base has expired                 exists                         by cut
        """
        self.check(barrier)
        return self._up_to(barrier, self._end(barrier))

    def by_snapshot(self, barrier: int) -> BarrierView:
        """Return the view on the newest kept snapshot without a record of a later barrier."""
        return self._upon_base(barrier, self._end(barrier))

    def ahead(self, barrier: int, files: Sequence[ManifestEntry]) -> BarrierView:
        """Return the view of a barrier that the newest snapshot completes together with these files.

        The caller ensures that; nothing is checked. The snapshots alone do not complete the barrier
        yet: files are those that writers have staged, or none, to read the rows of all writers but
        one (a widener).
        """
        view = self._up_to(barrier, self.ids[-1])
        return replace(view, extras=(*view.extras, *files))

    def by_cut(self, barrier: int) -> BarrierView | None:
        """Return the view on the newest kept snapshot without a later record above level 0. None if there is none, or
        if the barrier of a file at level 0 is unknown.

        The label of a file whose commit has expired is only an upper bound. That is sufficient for a
        label up to the barrier: the file is read. With a later label it may belong to the barrier or not.
        """
        return self._upon_cut(barrier, self._end(barrier))

    def floor_id(self, barrier: int) -> int | None:
        """Return the first snapshot that reads as of this barrier and later ones need; None in a table without
        snapshots. That snapshot itself states the frontier of each writer.
        """
        if not self.ids:
            return None
        count = bisect_right(self.ids, barrier, key=lambda id: self.state(id).highest)
        floor_id = self.ids[max(count - 1, 0)]
        while floor_id > self.ids[0] and BARRIERS not in self._load(floor_id).properties:
            floor_id -= 1
        return floor_id

    def _up_to(self, barrier: int, end: int) -> BarrierView:
        """Return the view of a barrier on the snapshots up to `end`, as `view` chooses it."""
        try:
            by_snapshot = self._upon_base(barrier, end)
        except NotFoundError:
            by_cut = self._upon_cut(barrier, end)
            if by_cut is None:
                raise
            return by_cut
        if not by_snapshot.extras:
            return by_snapshot
        by_cut = self._upon_cut(barrier, end)
        return by_cut if by_cut and len(by_cut.extras) < len(by_snapshot.extras) else by_snapshot

    def _upon_base(self, barrier: int, end: int) -> BarrierView:
        base = self._base(barrier)
        first_id = base.id if base else self.ids[0]
        extras = self._extras_between(base.id + 1 if base else first_id, end, barrier)
        return BarrierView(barrier, base, self._load(end), extras, first_id)

    def _upon_cut(self, barrier: int, end: int) -> BarrierView | None:
        count = bisect_right(self.ids, barrier, key=lambda id: self.state(id).moved)
        if not count:
            return None
        base = self._load(self.ids[count - 1])
        files = self._level0.at(base, self.interval).files
        later = {identity: file for identity, file in files.items() if file.label > barrier}
        if not all(file.is_known for file in later.values()):
            return None
        extras = self._extras_between(base.id + 1, end, barrier)
        return BarrierView(barrier, base, self._load(end), extras, base.id, frozenset(later))

    def _end(self, barrier: int) -> int:
        """Return the first snapshot that is complete up to a barrier.
        Raises IndexError if there is none; the caller checks that before.
        """
        return self.ids[bisect_left(self.ids, barrier, key=lambda id: self.state(id).frontier)]

    def _extras_between(self, first: int, last: int, barrier: int) -> tuple[ManifestEntry, ...]:
        ids = range(first, last + 1)
        return tuple(entry for id in ids for entry in self._extras(id, barrier))

    def _base(self, barrier: int) -> Snapshot | None:
        """Return the newest kept snapshot without a record of a later barrier; None if the first snapshot of the table
        has such a record.
        """
        count = bisect_right(self.ids, barrier, key=lambda id: self.state(id).highest)
        if count:
            return self._load(self.ids[count - 1])
        if self.ids[0] == 1:
            return None
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found="a barrier that has expired",
            expected=f"{self._oldest()} or a later one",
            action="Read a later barrier. Keep snapshots longer to keep older barriers.",
            code=ErrorCode.BARRIER_EXPIRED,
        )

    def _under_barriers(self, ids: range) -> range:
        """Return the ids without the snapshots from before the table was put under barriers."""
        since = self.state(ids[-1]).since if ids else 0
        return range(min(max(ids.start, since), ids.stop), ids.stop)

    def _unknown(self, ids: range) -> int:
        """Return how many of the first snapshots were written by other clients after ours that have expired.

        They do not state barriers, and the snapshots before them are gone. The newest one is never
        counted: its state is loaded later, which raises NotFoundError if no snapshot states barriers.
        """
        for at, id in enumerate(ids[:-1]):
            with contextlib.suppress(NotFoundError):
                self.state(id)
                return at
        return max(len(ids) - 1, 0)

    def _of_revision(self, ids: range, visible: Callable[[int], int]) -> range:
        """Return the snapshots of the last revision that counts.

            revision    0 0 0 4 4 4 7 7       7 counts: the last two       7 has a note and is not active: those of 4

        A revision begins with the snapshot that takes the table, and its frontiers, back. So the
        values that bisections compare ascend only within one revision.
        """
        newest = self.state(ids[-1]).revision if ids else 0
        if not newest:
            return ids
        end = bisect_right(ids, visible(newest), key=lambda id: self.state(id).revision)
        last = self.state(ids[end - 1]).revision if end else 0
        return ids[bisect_left(ids, last, hi=end, key=lambda id: self.state(id).revision) : end]

    def _oldest(self) -> int:
        """Return the first barrier that has a base."""
        highest = self.state(self.ids[0]).highest
        return -(-highest // self.interval) * self.interval

    def _extras(self, id: int, barrier: int) -> Sequence[ManifestEntry]:
        """Return the files of the barrier or earlier ones that one snapshot adds; none for compactions, which have no
        label.
        """
        label = self.label(id)
        if label is None or label > barrier:
            return ()
        return [e for e in self._live_files.delta_entries(self._load(id)) if e.kind == ADD]

    def state(self, id: int) -> BarrierState:
        """Return the barriers as of a kept snapshot."""
        return state_at(self._load(id), self._load_any, self.interval)

    def label(self, id: int) -> int | None:
        """Return the barrier of the records that a kept snapshot added; None if it added none."""
        snapshot = self._load(id)
        if snapshot.commit_kind != COMMIT_KIND_APPEND:
            return None
        return label_of(snapshot, self._load_any, self.interval)

    def schema_id(self, id: int) -> int:
        """Return the schema id of a kept snapshot."""
        return self._load(id).schema_id

    def _load(self, id: int) -> Snapshot:
        """Load a kept snapshot. `_load_any` may return the summary of an expired one, which is refused."""
        snapshot = self._load_any(id)
        if snapshot.id != id:
            raise NotFoundError(
                f"snapshot {id} of {self._path}",
                found="an expired snapshot",
                expected="a snapshot that is kept",
                action="Read again.",
                code=ErrorCode.SNAPSHOT_EXPIRED,
            )
        return snapshot

    def check(self, barrier: int) -> None:
        """Check a barrier. Raises NotFoundError if it is not complete, or not exact."""
        check_barrier(barrier, self.interval)
        state = self.newest()
        if barrier <= state.frontier:
            self._check_first(barrier)
            self._check_revision(barrier)
            self.exact.check(barrier)
            return
        behind = state.behind(barrier)
        missing = ", ".join(f"{w} (at {at})" for w, at in behind.items())
        up_to, earlier = f"up to {state.frontier}", f"{state.frontier} or an earlier barrier"
        if not state.frontier:
            up_to, earlier = "up to no barrier", "a barrier that all its writers have completed"
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found=f"a table that is complete {up_to}; missing: {missing or 'any writer'}",
            expected=earlier,
            action=f"{waiting_for(behind)}, or read an earlier barrier.",
            code=ErrorCode.BARRIER_INCOMPLETE,
        )

    def _check_first(self, barrier: int) -> None:
        """Refuse barriers before the table's first complete one, which has the rows from before the table was put under
        barriers: nothing is known of earlier barriers.
        """
        if barrier < self.first_barrier:
            raise NotFoundError(
                f"barrier {barrier} of {self._path}",
                found="a barrier before the first one that the table completed under barriers",
                expected=f"{self.first_barrier} or a later one",
                action="Read such a barrier, or an earlier snapshot.",
                code=ErrorCode.BARRIER_EXPIRED,
            )

    def _check_revision(self, barrier: int) -> None:
        """Refuse barriers before the one to which the last revision took the table back: they belong to the snapshots
        before the revision.
        """
        first = self.state(self.ids[0])
        if first.revision and barrier < first.frontier:
            raise NotFoundError(
                f"barrier {barrier} of {self._path}",
                found=f"a barrier before revision {first.revision}, which took the table back",
                expected=f"{first.frontier} or a later one",
                action="Read such a barrier. A reader of changes must start again with the rows as of one.",
                code=ErrorCode.BARRIER_EXPIRED,
            )
