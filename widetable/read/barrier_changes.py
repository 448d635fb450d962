"""Finds the snapshots with the changes from one barrier to another.

    producer        location of the changes
    none, input     in the commits whose label is after the first barrier, up to the second
    lookup          in the compactions after the position of the first barrier, up to that of the second

The *position* of a barrier is the first snapshot whose rows above level 0 are the table as of the barrier: complete up
to it, with no record of it at level 0 and no later record above. A compaction that takes several barriers at once
leaves the first ones without a position: ours do so if they are behind (`barrier_cut.py`), those of other clients at
any time. All snapshots after one that is past a position are past it as well, so bisection finds it. Source: rule R13
of docs/consistency.md. Raises NotFoundError for a barrier that is not complete or not exact, whose changes do not exist
yet, which has no position, or which has expired; InvalidError if the producer was altered in between.

    snapshot   1,2 join   3 wa@10   4 wb@10   5 wa@20   6 compaction, cut 10   7 wb@20   8 wb@30
    frontier   0          0         10        10        10                     20        20
    moved      0          0         0         0         10                     10        10
    waiting    -          10        10        10        20                     20        20

    lookup     position of 10: 6            changes up to 10: snapshots 2 to 6; up to 20: refused, as its files wait
    none       changes up to 10: 3 and 4    after 10, up to 20: 5 and 7         (without the compaction: 5 and 6)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.errors import InvalidError, NotFoundError
from widetable.messages.error_code import ErrorCode
from widetable.read.barrier_view import BarrierViews
from widetable.read.next_barrier import Available
from widetable.schema import options as opt
from widetable.write.table_state import TableState

BY_COMPACTION: Final = "lookup"
# The number of barriers in a message; the number of newest snapshots that are searched for them first; and the factor
# by which that number grows.
_SHOWN: Final = 3
_FIRST_IDS: Final = 16
_GROWTH: Final = 8


def is_past(state: BarrierState, barrier: int) -> bool:
    """Return whether a snapshot with that state is at the position of a barrier or after it.
    Later snapshots are so as well: the frontier does not go back, and later files have labels above it.
    """
    return state.frontier >= barrier and (state.waiting is None or state.waiting > barrier)


class BarrierChanges:
    """The changes of one table between barriers, in the snapshots of `views`.

    The snapshots are those of one moment: later commits and expiry are not visible
    (`operations/handle/barrier_scan.behind_expiry` reads again). A call bisects over the snapshots;
    `commits` and `available` read each snapshot of a range.
    """

    def __init__(self, state: TableState, views: BarrierViews) -> None:
        self._state = state
        self._views = views

    @property
    def has_all(self) -> bool:
        """Whether no record has expired yet."""
        ids = self._views.ids
        return not ids or ids[0] == 1 or not self._views.state(ids[0]).highest

    @property
    def newest_id(self) -> int:
        """The newest snapshot of the views; 0 if there is none."""
        return self._views.ids[-1] if self._views.ids else 0

    def snapshot_ids(self, start: int, end: int) -> list[int]:
        """Return the snapshots whose changes are those after the barrier `start` (0: all) up to `end`, in order.

        Both barriers must be complete and exact. Some snapshots may have no changes, such as those
        in which a writer joins.
        """
        self._views.check(end)
        if start:
            self._views.check(start)
        if self._producer == BY_COMPACTION:
            first = self.position(start) if start else self._before_all(start)
            ids = list(range(first + 1, self.position(end) + 1))
        else:
            ids = self.commits(start, end)
        self._check_one_producer(ids)
        return ids

    def commits(self, start: int, end: int | None = None) -> list[int]:
        """Return the snapshots whose records belong to barriers after `start` up to `end`, complete or not; `end` None:
        to all barriers after `start`. The table's producer does not matter. Raises NotFoundError if some have expired.
        """
        ids, state = self._views.ids, self._views.state
        self._check_kept(start)
        # No record before the first of these has a label above start; no record of `end` follows the first snapshot
        # that is complete up to it. The labels in between have any order.
        first, last = bisect_right(ids, start, key=lambda id: state(id).highest), len(ids)
        if end is not None:
            last = bisect_left(ids, end, key=lambda id: state(id).frontier) + 1
        labels = ((id, self._views.label(id)) for id in ids[first:last])
        return [
            i for i, of in labels if of is not None and start < of and (end is None or of <= end)
        ]

    def check_start(self, start: int) -> None:
        """Check that all changes after a complete barrier can be read. Raises NotFoundError."""
        self._views.check(start)
        if self._producer == BY_COMPACTION:
            self.position(start)
        else:
            self._check_kept(start)

    def position(self, barrier: int) -> int:
        """Return the first kept snapshot whose rows above level 0 are those as of the barrier.

        Raises NotFoundError if no snapshot is past the barrier yet, and if the first one that is
        past it has also taken a later barrier.
        """
        ids = self._views.ids
        at = bisect_left(ids, True, key=lambda id: self._has_moved(id, barrier))
        if at == len(ids):
            raise NotFoundError(
                f"changes up to barrier {barrier} of {self._state.paths.root}",
                found="files of it at level 0, whose changes do not exist yet",
                expected="a compaction after the commit that completes the barrier",
                action="Compact the table, or wait for its maintainer.",
            )
        moved = self._views.state(ids[at]).moved
        if moved > barrier:
            raise NotFoundError(
                f"changes up to barrier {barrier} of {self._state.paths.root}",
                found=f"a compaction that took all barriers up to {moved} at once",
                expected=f"a barrier at which changes can stop: {self._some()}",
                action="Choose one of these, or wait for the next.",
            )
        return ids[at]

    def available(self, after: int) -> Iterator[tuple[int, int]]:
        """Yield spans (first, last) of the barriers after one at which changes can stop, ascending.

        They are not checked for exactness. Changes of appends can stop at all barriers up to the
        frontier: (10, 20) in the example above. Changes of compactions: each snapshot yields the
        barriers from the last one that was moved up to the one before the first waiting file:
        snapshot 6 yields (10, 10). The barriers between two spans were taken by a compaction that
        took several at once.
        """
        interval = self._views.interval
        if self._producer != BY_COMPACTION:
            # Changes after a barrier before the oldest kept records may have expired.
            first = max(after + interval, self._views.first_barrier)
            newest = self._views.newest().frontier
            if not self.has_all:
                highest = self._views.state(self._views.ids[0]).highest
                first = max(first, -(-highest // interval) * interval)
            if newest >= first:
                yield first, newest
            return
        ids = self._views.ids
        begin = bisect_left(ids, True, key=lambda id: self._views.state(id).frontier > after)
        for id in ids[begin:]:
            state = self._views.state(id)
            last = state.frontier
            if state.waiting is not None:
                last = min(last, state.waiting - interval)
            first = max(state.moved, after + interval, self._views.first_barrier)
            if first <= last:
                yield first, last
                after = last

    def choices(self, after: int) -> Available:
        """Return the spans of `available`, and which of their barriers are exact."""
        spans = list(self.available(after))
        if self._views.exact.has_all:
            return Available(spans)
        return Available(spans, self._views.exact.between(after, self._views.newest().frontier))

    def first_needed(self, barrier: int) -> int:
        """Return the first snapshot that must be kept for the changes after a barrier, among those that exist.

        In the example above it is 6 for barrier 10 with `lookup`, whose changes after 10 begin after
        that position. With changes of appends it is 4, the last snapshot without a record of a later
        barrier.
        """
        ids = self._views.ids
        if self._producer == BY_COMPACTION:
            at = bisect_left(ids, True, key=lambda id: self._has_moved(id, barrier))
            return ids[min(at, len(ids) - 1)]
        count = bisect_right(ids, barrier, key=lambda id: self._views.state(id).highest)
        return ids[max(count - 1, 0)]

    @property
    def _producer(self) -> str:
        return self._state.options.get(opt.CHANGELOG_PRODUCER)

    def _has_moved(self, id: int, barrier: int) -> bool:
        return is_past(self._views.state(id), barrier)

    def _check_kept(self, start: int) -> None:
        """Raise NotFoundError if commits after a barrier have expired."""
        if not self.has_all and self._views.state(self._views.ids[0]).highest > start:
            raise self._expired(start)

    def _before_all(self, start: int) -> int:
        """Return the snapshot that all changes follow: the first one if it has no records, otherwise 0."""
        if not self.has_all:
            raise self._expired(start)
        ids = self._views.ids
        return 0 if not ids or self._views.state(ids[0]).highest else ids[0]

    def _expired(self, start: int) -> NotFoundError:
        first_id = self._views.ids[0]
        reason = f"snapshots before {first_id} that have expired"
        if self._views.state(first_id).since == first_id:
            reason = f"snapshots before {first_id} in which the table was not under barriers"
        return NotFoundError(
            f"changes after barrier {start} of {self._state.paths.root}",
            found=reason,
            expected=f"a later start: {self._some()}",
            action="Read the rows as of such a barrier with scan(barrier=..), then the changes from there.",
            code=ErrorCode.CHANGES_EXPIRED,
        )

    def _some(self) -> str:
        """Return the newest barriers for a message; search older snapshots only as long as there are too few."""
        ids, looks = self._views.ids, _FIRST_IDS
        while True:
            is_all = looks >= len(ids)
            after = 0 if is_all else self._views.state(ids[-looks]).frontier
            newest = [last for _, last in self.available(after)][-_SHOWN:]
            if is_all or len(newest) == _SHOWN:
                return ", ".join(map(str, newest)) or "there is none yet"
            looks *= _GROWTH

    def _check_one_producer(self, ids: list[int]) -> None:
        schemas = {self._views.schema_id(id) for id in ids}
        options = [self._state.schema_of(schema_id).typed_options for schema_id in schemas]
        producers = {each.get(opt.CHANGELOG_PRODUCER) for each in options}
        if producers - {self._producer}:
            raise InvalidError(
                "start and end",
                found=f"barriers between which {opt.CHANGELOG_PRODUCER.key} was altered",
                expected=f"a start after the alteration to {self._producer!r}",
                action="Choose a later start.",
            )
