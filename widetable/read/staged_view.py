"""The barriers of one table that includes its staged commits. Pure, except that it loads manifest lists.

    frontier    of a member: the barrier that it is about to complete, otherwise the one that it has completed
    rows at T   those of the newest snapshot without later ones, and the files that are staged for T or before

A barrier with staged commits counts only if each derived writer reaches it exactly. A writer that is ahead of it
does not tell whether it did, so then only the barriers of snapshots count. Source: rule R17 of docs/consistency.md,
read committed. Raises what `barrier_view` raises.

The notes are read before the snapshots. Otherwise a commit could be shown without the one before it:

    a writer     publishes 20               notes 30
    a reader              sees snapshots up to 10     reads the notes: 30          rows of 30 without those of 20

In the right order, 20 is in the snapshots when a note of 30 exists. If 30 was published as well, its
note is void, because the writer has completed 30 (`staged_commit.in_force`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from widetable.commit.barriers.barrier_state import DERIVED, BarrierState
from widetable.commit.barriers.staged_commit import StagedCommit, in_force
from widetable.read.barrier_view import BarrierView, BarrierViews


class StagedBarriers:
    """The barriers of one table. views: created after the notes were read; state: the barriers of its snapshots.
    staged: the notes.
    """

    def __init__(self, views: BarrierViews, staged: Sequence[StagedCommit]) -> None:
        self.views: Final = views
        self.state: Final = views.newest()
        self._staged = in_force(staged, self.state)

    @property
    def frontier(self) -> int:
        """The barrier up to which the table would be complete."""
        return staged_frontier(self.state, {w: one.barrier for w, one in self._staged.items()})

    def shows(self, barrier: int) -> bool:
        """Return whether the table can be read at a barrier.

        Up to the frontier of the snapshots they alone decide. Above it, each derived writer must
        have completed exactly this barrier: a writer that is ahead may have skipped it, and no
        snapshot tells that yet.
        """
        if barrier <= self.state.frontier:
            return self.views.exact.at_most(barrier) == barrier
        is_first = self.state.since and not self.state.first
        if is_first and barrier != self.frontier:  # earlier rows belong to the first barrier
            return False
        derived = [w for w, member in self.state.members.items() if member.kind == DERIVED]
        return barrier <= self.frontier and all(self._completed(w) == barrier for w in derived)

    def view(self, barrier: int) -> BarrierView:
        """Return the files with the rows at a barrier. Raises NotFoundError for a barrier that it does not show."""
        if barrier <= self.state.frontier or not self.shows(barrier):
            return self.views.view(barrier)
        files = [e for one in self._staged.values() if one.barrier <= barrier for e in one.entries]
        return self.views.ahead(barrier, files)

    def _completed(self, writer: str) -> int:
        staged = self._staged.get(writer)
        return self.state.members[writer].frontier if staged is None else staged.barrier


def staged_frontier(state: BarrierState, barriers: dict[str, int]) -> int:
    """Return the barrier up to which the table will be complete. barriers: those that members are about to complete.

    root at 40, job at 40; the root is about to complete 60     40: the table waits for the job
    root at 60, job at 40; the job is about to complete 60      60
    """
    if not state.members:
        return state.frontier
    frontiers = (barriers.get(w, member.frontier) for w, member in state.members.items())
    return max(state.frontier, min(frontiers))


def newest_staged(tables: Collection[StagedBarriers], committed: int) -> int:
    """Return the newest barrier that all tables show. committed: that of their snapshots alone, 0 for none; it is the
    result if nothing is staged. Only the lowest frontier of the tables is tried: if it cannot be
    shown, the committed barrier is the result, and not one in between.
    """
    barrier = min(table.frontier for table in tables)
    if barrier > committed and all(table.shows(barrier) for table in tables):
        return barrier
    return committed
