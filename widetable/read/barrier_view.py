"""Which files hold the rows of a table as of a barrier: those of its base, and later ones that belong to it.

    by snapshot   base      the newest kept snapshot that has no record of a later barrier
                  extras    what appends after it added whose label is the barrier or an earlier one
    by cut        base      the newest kept snapshot that has none above level 0
                  hidden    files at level 0 there whose label is later
                  extras    as above

    snapshots    1 wa@10   2 wb@10   3 wa@20   4 wb@20          barrier 10: base 2      barrier 20: base 4
                 1 wa@10   2 wa@20   3 wb@10                    barrier 10: base 1 and the files of 3
                 ..        4 a compaction, cut at 10            barrier 10: base 4 without the file of 2

Both give the same rows: a table's rows are what merging all records gives. But extras may count as earlier than the
base: an append that was overtaken gets numbers above all live ones (0061), which a compaction may have made smaller
since that base. So a base that is a snapshot by itself is taken first, other clients read it too; else what has fewer
extras, which is the cut: it has none, as compactions take complete barriers only, unless another client has compacted.
What is compared never goes back from snapshot to snapshot, so ends are found by bisection; but by a revision, so only
the snapshots from the one on are looked at that took the table back last, up to the next such (0046). After the first
snapshot that is complete up to the barrier nothing of it comes. Source: rules R14, R20 of docs/consistency.md.
Raises NotFoundError for a barrier that is not complete, which says who is missing, for one that is not exact
(`exact_barriers`), and for one that has expired;
InvalidError for a table without barriers and a number that is none; what reading lists raises. Of a table that was put
under barriers later its first complete barrier is the first that there is, and has all rows of before (0064).

Compactions between base and end move rows of the base and of extras into other files. These are
not read: an extra is the file that the append added, which the snapshot of the append still
names. So a view needs all snapshots from `first_id` on; it does not hold them itself.

Cost: a bisection loads log2(n) snapshots; extras one list of manifests for each append of
theirs, so a view is as dear as the barrier's writers are apart. That is what the cut is for:
with one writer an hour behind, the newest snapshot without later records is an hour old, and a
compaction that was cut at the barrier is not.
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
from widetable.read.exact_barriers import ExactBarriers
from widetable.schema.derived_options import WIDENER_OF
from widetable.schema.table_schema import TableSchema


def waiting_for(writers: Iterable[str]) -> str:
    """What a reader may do about writers that are missing."""
    is_widener = any(writer.startswith(WIDENER_OF) for writer in writers)
    how = f" (who maintains the table runs those called {WIDENER_OF}..)" if is_widener else ""
    return f"Wait for these writers{how}, let those that have ended leave"


@dataclass(frozen=True)
class BarrierView:
    """base: None where the first kept snapshot is that of a later barrier. end: the first snapshot that is complete up
    to it. extras: entries of files, oldest first. first_id: it needs the snapshots from here on. hidden: files of the
    base that are not read.
    """

    barrier: int
    base: Snapshot | None
    end: Snapshot
    extras: tuple[ManifestEntry, ...]
    first_id: int
    hidden: frozenset[Identity] = frozenset()

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that has just these rows; None where there is none."""
        is_whole = not self.extras and not self.hidden
        return self.base.id if self.base is not None and is_whole else None

    def files(self, of_base: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """What is read: of some live files of the base those that are, and all extras.

        of_base: those that a plan has left of it. Extras are not pruned by its partitions and
        buckets yet, so the plan asks for each bucket again.
        """
        return [*(e for e in of_base if e.identity not in self.hidden), *self.extras]


class BarrierViews:
    """Of one table. path: for messages."""

    def __init__(
        self,
        schema: TableSchema,
        level0: Level0Labels,
        live_files: LiveFiles,
        ids: range,
        path: str,
        visible: Callable[[int], int] = lambda newest: newest,
    ) -> None:
        """ids: of the snapshots that are kept. visible: the last revision that counts, of that of the newest one.

        Reads snapshots at once: `self.ids` are those of one revision, each of which says, or
        follows from one that says, how far the writers are; none from before the table was under
        barriers. Raises NotFoundError for those that expire meanwhile.
        """
        self.interval = interval_of(schema, path)
        self._level0 = level0
        # Bisections of one moment look at the same snapshots: each halves the same range.
        self._load_any = lru_cache(maxsize=256)(level0.load)
        self._live_files = live_files
        self._path = path
        ids = self._under_barriers(ids)
        self.ids = self._of_revision(ids[self._unknown(ids) :], visible)
        self.first_barrier = self.newest().first
        self.exact = ExactBarriers(self.ids, self.state, self._end, path, self.first_barrier)

    def newest(self) -> BarrierState:
        """How far the table and its writers are."""
        return self.state(self.ids[-1]) if self.ids else BarrierState.new(self.interval)

    def view(self, barrier: int) -> BarrierView:
        """Where the rows as of a barrier are.

        by snapshot                      by cut                    taken
        no extras                        not looked for            by snapshot: other clients can read it
        some extras                      fewer extras              by cut
        some extras                      as many, more, none       by snapshot
        base has expired                 there is one              by cut
        """
        self.check(barrier)
        return self._up_to(barrier, self._end(barrier))

    def by_snapshot(self, barrier: int) -> BarrierView:
        """By the newest kept snapshot without a record of a later barrier."""
        return self._upon_base(barrier, self._end(barrier))

    def ahead(self, barrier: int, files: Sequence[ManifestEntry]) -> BarrierView:
        """Where the rows as of a barrier are that the newest snapshot with these files is complete up to.

        Not checked: the caller knows that. Of snapshots themselves such a barrier is not
        complete yet: files are those that writers have staged, or none, where the rows are
        wanted of all writers but one (a widener).
        """
        view = self._up_to(barrier, self.ids[-1])
        return replace(view, extras=(*view.extras, *files))

    def by_cut(self, barrier: int) -> BarrierView | None:
        """By the newest kept snapshot without one above level 0; None where there is none, or it is not known to which
        barrier a file at level 0 belongs.

        A file whose commit has expired has a label that is only an upper bound. Up to the
        barrier that is enough: it is read. Above it, it may belong to the barrier or not.
        """
        return self._upon_cut(barrier, self._end(barrier))

    def floor_id(self, barrier: int) -> int | None:
        """The first snapshot that reads need as of a barrier and later ones; None in a table without snapshots. It says
        itself how far each writer is.
        """
        if not self.ids:
            return None
        found = bisect_right(self.ids, barrier, key=lambda id: self.state(id).highest)
        floor_id = self.ids[max(found - 1, 0)]
        while floor_id > self.ids[0] and BARRIERS not in self._load(floor_id).properties:
            floor_id -= 1
        return floor_id

    def _up_to(self, barrier: int, end: int) -> BarrierView:
        """What `view` says, of the snapshots up to one."""
        try:
            found = self._upon_base(barrier, end)
        except NotFoundError:
            by_cut = self._upon_cut(barrier, end)
            if by_cut is None:
                raise
            return by_cut
        if not found.extras:
            return found
        by_cut = self._upon_cut(barrier, end)
        return by_cut if by_cut and len(by_cut.extras) < len(found.extras) else found

    def _upon_base(self, barrier: int, end: int) -> BarrierView:
        base = self._base(barrier)
        first_id = base.id if base else self.ids[0]
        extras = self._extras_between(base.id + 1 if base else first_id, end, barrier)
        return BarrierView(barrier, base, self._load(end), extras, first_id)

    def _upon_cut(self, barrier: int, end: int) -> BarrierView | None:
        found = bisect_right(self.ids, barrier, key=lambda id: self.state(id).moved)
        if not found:
            return None
        base = self._load(self.ids[found - 1])
        files = self._level0.at(base, self.interval).files
        later = {identity: file for identity, file in files.items() if file.label > barrier}
        if not all(file.is_known for file in later.values()):
            return None
        extras = self._extras_between(base.id + 1, end, barrier)
        return BarrierView(barrier, base, self._load(end), extras, base.id, frozenset(later))

    def _end(self, barrier: int) -> int:
        """The first snapshot that is complete up to a barrier.
        Raises IndexError for one that none is complete to: whoever asks has checked.
        """
        return self.ids[bisect_left(self.ids, barrier, key=lambda id: self.state(id).frontier)]

    def _extras_between(self, first: int, last: int, barrier: int) -> tuple[ManifestEntry, ...]:
        ids = range(first, last + 1)
        return tuple(entry for id in ids for entry in self._extras(id, barrier))

    def _base(self, barrier: int) -> Snapshot | None:
        """The newest kept snapshot without a record of a later barrier; None where the table
        begins with one.
        """
        found = bisect_right(self.ids, barrier, key=lambda id: self.state(id).highest)
        if found:
            return self._load(self.ids[found - 1])
        if self.ids[0] == 1:
            return None
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found="a barrier that has expired",
            expected=f"{self._oldest()} or a later one",
            action="Read a later barrier; snapshots that are kept longer keep older ones.",
        )

    def _under_barriers(self, ids: range) -> range:
        """Without the snapshots of before the table was put under barriers."""
        since = self.state(ids[-1]).since if ids else 0
        return range(min(max(ids.start, since), ids.stop), ids.stop)

    def _unknown(self, ids: range) -> int:
        """How many of the first snapshots are other clients', behind ones of ours that have expired.

        They say nothing of barriers, and what they follow on is gone. The newest one is never
        counted: it is asked, and raises NotFoundError where nobody knows anything.
        """
        for at, id in enumerate(ids[:-1]):
            with contextlib.suppress(NotFoundError):
                self.state(id)
                return at
        return max(len(ids) - 1, 0)

    def _of_revision(self, ids: range, visible: Callable[[int], int]) -> range:
        """The snapshots of the last revision that counts.

            revision    0 0 0 4 4 4 7 7       7 counts: the last two       7 is noted and not active: those of 4

        A revision begins with the snapshot that takes the table back, and takes frontiers back
        with it, so what bisections compare ascends within these alone.
        """
        newest = self.state(ids[-1]).revision if ids else 0
        if not newest:
            return ids
        end = bisect_right(ids, visible(newest), key=lambda id: self.state(id).revision)
        last = self.state(ids[end - 1]).revision if end else 0
        return ids[bisect_left(ids, last, hi=end, key=lambda id: self.state(id).revision) : end]

    def _oldest(self) -> int:
        """The first barrier that has a base."""
        highest = self.state(self.ids[0]).highest
        return -(-highest // self.interval) * self.interval

    def _extras(self, id: int, barrier: int) -> Sequence[ManifestEntry]:
        """What one snapshot adds of the barrier or earlier ones; nothing for compactions, which
        have no label.
        """
        label = self.label(id)
        if label is None or label > barrier:
            return ()
        return [e for e in self._live_files.delta_entries(self._load(id)) if e.kind == ADD]

    def state(self, id: int) -> BarrierState:
        """The barriers as of a kept snapshot."""
        return state_at(self._load(id), self._load_any, self.interval)

    def label(self, id: int) -> int | None:
        """The barrier of the records that a kept snapshot brought; None for none."""
        snapshot = self._load(id)
        if snapshot.commit_kind != COMMIT_KIND_APPEND:
            return None
        return label_of(snapshot, self._load_any, self.interval)

    def schema_id(self, id: int) -> int:
        """Of a kept snapshot."""
        return self._load(id).schema_id

    def _load(self, id: int) -> Snapshot:
        """One that is there, not one that is only remembered."""
        found = self._load_any(id)
        if found.id != id:
            raise NotFoundError(
                f"snapshot {id} of {self._path}",
                found="an expired snapshot",
                expected="one that is kept",
                action="Read again.",
            )
        return found

    def check(self, barrier: int) -> None:
        """Raises NotFoundError for a barrier that is not complete, or not exact."""
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
            up_to, earlier = "up to none", "a barrier that all its writers have completed"
        raise NotFoundError(
            f"barrier {barrier} of {self._path}",
            found=f"a table that is complete {up_to}; missing: {missing or 'any writer'}",
            expected=earlier,
            action=f"{waiting_for(behind)}, or read an earlier barrier.",
        )

    def _check_first(self, barrier: int) -> None:
        """Rows of before the table was put under barriers belong to its first complete one: of earlier ones nothing is
        known.
        """
        if barrier < self.first_barrier:
            raise NotFoundError(
                f"barrier {barrier} of {self._path}",
                found="one of before the table was put under barriers and came to its first one",
                expected=f"{self.first_barrier} or a later one",
                action="Read such a barrier, or a snapshot of before.",
            )

    def _check_revision(self, barrier: int) -> None:
        """A revision keeps the rows as of the barrier that it went back to; those before are of
        the time before it.
        """
        first = self.state(self.ids[0])
        if first.revision and barrier < first.frontier:
            raise NotFoundError(
                f"barrier {barrier} of {self._path}",
                found=f"one of before revision {first.revision}, in which the table went back",
                expected=f"{first.frontier} or a later one",
                action="Read such a barrier; who reads changes starts anew with the rows as of one.",
            )
