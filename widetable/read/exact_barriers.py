"""Finds the exact barriers of a table: the complete barriers that each of its jobs has completed itself.

A derived job that is behind does not take every barrier of its sources. If it went from 40 to 60, the table is complete
up to 50 when the others are, but has that job's rows as of 40: 50 is not exact. Roots are exact at every complete
barrier; a job that joins counts from the barrier at which it joins. Source: rule R11 of docs/consistency.md. Raises
NotFoundError, and what reading snapshots raises.

    snapshot                1     2     3
    root r has completed    40    60    60          the table is complete up to 40, then 60
    job j has completed     40    40    60
    newest exact one up to  60: 60    50: 40    40: 40    30: none that is kept

A barrier without records can be exact: a job may complete it without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widetable.commit.barriers.barrier_state import DERIVED, BarrierState
from widetable.errors import NotFoundError


@dataclass(frozen=True)
class ExactBarriers:
    """The exact barriers of one table. ids: its kept snapshots. state: returns the barriers as of one of them. end:
    returns the first snapshot that is complete up to a complete barrier. first: the table has no earlier barriers
    (`BarrierState.first`).
    """

    ids: Sequence[int]
    state: Callable[[int], BarrierState]
    end: Callable[[int], int]
    path: str
    first: int = 0

    @property
    def has_all(self) -> bool:
        """Whether each barrier up to which the table is complete is exact now."""
        return not self.ids or not _derived(self.state(self.ids[-1]))

    def at_most(self, barrier: int) -> int:
        """Return the newest exact barrier up to a complete barrier; 0 if none is kept.

        Each job has a newest barrier that it completed. The lowest of these is tried next, as the
        other jobs may have skipped it. The barrier decreases in each step, so the loop ends.
        """
        while barrier >= max(self.first, 1):
            end = self.end(barrier)
            jobs = _derived(self.state(end))
            lowest = min((self._completed(job, end, barrier) for job in jobs), default=barrier)
            if lowest == barrier:
                return barrier
            barrier = lowest
        return 0

    def check(self, barrier: int) -> None:
        """Refuse a complete barrier that is not exact."""
        before = self.at_most(barrier)
        if before == barrier:
            return
        raise NotFoundError(
            f"barrier {barrier} of {self.path}",
            found=self._reason(barrier, before),
            expected="a barrier that each of its jobs completed",
            action=f"Read barrier {before}, or a later one." if before else "Read a later barrier.",
        )

    def _reason(self, barrier: int, before: int) -> str:
        jobs = _derived(self.state(self.end(barrier)))
        first = self.state(self.ids[0]).members
        if before:
            return f"a barrier that {', '.join(jobs)} skipped after {before}"
        if any(job in first and first[job].frontier > barrier for job in jobs):
            return "a barrier that has expired"
        return f"a barrier before the first one of {', '.join(jobs)}"

    def between(self, after: int, last: int) -> list[int]:
        """Return the exact barriers after one, up to a complete one, ascending."""
        exact: list[int] = []
        interval = self.state(self.ids[-1]).interval if self.ids else 1
        barrier = self.at_most(last)
        while barrier > after:
            exact.append(barrier)
            barrier = self.at_most(barrier - interval)
        return exact[::-1]

    def _completed(self, job: str, end: int, barrier: int) -> int:
        """Return the newest barrier up to the given one that a job has completed; 0 if none is known. The job is a
        member as of the snapshot `end`.

        The search goes back snapshot by snapshot from `end`, as long as the job is a member there. It
        takes a few steps for a job that is not far ahead of the others. A job that left and joined
        again counts from there.
        """
        for id in range(end, self.ids[0] - 1, -1):
            member = self.state(id).members.get(job)
            if member is None:
                return 0
            if member.frontier <= barrier:
                return member.frontier
        return 0


def _derived(state: BarrierState) -> list[str]:
    return sorted(name for name, member in state.members.items() if member.kind == DERIVED)
