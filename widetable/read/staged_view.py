"""The barriers of one table with what its writers have staged, as if it were in. Pure, but for loading lists.

    frontier    of a member: the barrier that it is about to complete, else the one that it has completed
    rows at T   those of the newest snapshot without later ones, and the files that are staged for T or before

A barrier of which something is staged counts only where each derived writer comes to it exactly; who is ahead of it
does not say whether it did, so then the barriers of snapshots count alone. Source: rule R17 of docs/consistency.md,
read committed. Raises what `barrier_view` raises.

Notes are read first, then the snapshots, or a commit could be shown without the one before it:

    a writer     publishes 20               notes 30
    a reader              looks: it is at 10          reads the notes: 30          rows of 30 without those of 20

The other way round 20 is in the snapshots by the time that a note of 30 is there; and if 30 was
published too, its note is void, as the writer has come to 30 (`staged_commit.in_force`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from widetable.commit.barriers.barrier_state import DERIVED, BarrierState
from widetable.commit.barriers.staged_commit import StagedCommit, in_force
from widetable.read.barrier_view import BarrierView, BarrierViews


class StagedBarriers:
    """views: of the table, made after the notes were read; state: how far its snapshots are. staged: the notes."""

    def __init__(self, views: BarrierViews, staged: Sequence[StagedCommit]) -> None:
        self.views: Final = views
        self.state: Final = views.newest()
        self._staged = in_force(staged, self.state)

    @property
    def frontier(self) -> int:
        """The barrier up to which the table would be complete."""
        return staged_frontier(self.state, {w: one.barrier for w, one in self._staged.items()})

    def shows(self, barrier: int) -> bool:
        """Whether it can be read at that barrier.

        Up to what snapshots are complete to they alone decide. Above, each derived writer must
        have come to just this one: one that is ahead of it may have passed it over, and no
        snapshot says so yet.
        """
        if barrier <= self.state.frontier:
            return self.views.exact.at_most(barrier) == barrier
        is_first = self.state.since and not self.state.first
        if is_first and barrier != self.frontier:  # rows of before belong to the first one
            return False
        derived = [w for w, member in self.state.members.items() if member.kind == DERIVED]
        return barrier <= self.frontier and all(self._came_to(w) == barrier for w in derived)

    def view(self, barrier: int) -> BarrierView:
        """Where its rows are. Raises NotFoundError for a barrier that it does not show."""
        if barrier <= self.state.frontier or not self.shows(barrier):
            return self.views.view(barrier)
        files = [e for one in self._staged.values() if one.barrier <= barrier for e in one.entries]
        return self.views.ahead(barrier, files)

    def _came_to(self, writer: str) -> int:
        staged = self._staged.get(writer)
        return self.state.members[writer].frontier if staged is None else staged.barrier


def staged_frontier(state: BarrierState, barriers: dict[str, int]) -> int:
    """barriers: that members are about to complete.

    Up to which barrier the table would then be complete:

    root at 40, job at 40; the root is about to complete 60     40: the job is waited for
    root at 60, job at 40; the job is about to complete 60      60
    """
    if not state.members:
        return state.frontier
    came = (barriers.get(w, member.frontier) for w, member in state.members.items())
    return max(state.frontier, min(came))


def newest_staged(tables: Collection[StagedBarriers], committed: int) -> int:
    """The newest barrier of all of them; committed: that of their snapshots alone, 0 for none, which is this one where
    nothing is staged. Only one is tried, that of the table that is least far: where it cannot
    be shown, what is committed is shown, and not something in between.
    """
    barrier = min(table.frontier for table in tables)
    if barrier > committed and all(table.shows(barrier) for table in tables):
        return barrier
    return committed
