"""Which complete barriers a table shows as they are: those that each job that makes it has come to.

A derived job that is behind does not take every barrier of its sources. Where it went from 40 to 60, the table is
complete up to 50 when the others are, and has that job's rows as of 40: 50 is not exact. Roots are exact at every
complete barrier; who joins counts from where it joins. Source: rule R11 of docs/consistency.md. Raises NotFoundError,
and what reading snapshots raises.

    snapshot                1     2     3
    root r has completed    40    60    60          the table is complete up to 40, then 60
    job j has completed     40    40    60
    newest exact one up to  60: 60    50: 40    40: 40    30: none that is kept

That nobody has written for a barrier does not make it inexact: a job that completes it without
rows came to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widetable.commit.barriers.barrier_state import DERIVED, BarrierState
from widetable.errors import NotFoundError


@dataclass(frozen=True)
class ExactBarriers:
    """Of one table. ids: of its kept snapshots. state: the barriers as of one of them. end: the first snapshot that is
    complete up to a complete barrier. first: earlier barriers are none of the table's (`BarrierState.first`).
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
        """The newest exact one that is not after a complete barrier; 0 without one that is kept.

        Each job names the newest barrier that it came to; the lowest of these is tried next, as
        the other jobs may have passed over that one. It goes down in each step, so it ends.
        """
        while barrier >= max(self.first, 1):
            end = self.end(barrier)
            jobs = _derived(self.state(end))
            found = min((self._came_to(job, end, barrier) for job in jobs), default=barrier)
            if found == barrier:
                return barrier
            barrier = found
        return 0

    def check(self, barrier: int) -> None:
        """Refuse a complete barrier that is not exact."""
        before = self.at_most(barrier)
        if before == barrier:
            return
        raise NotFoundError(
            f"barrier {barrier} of {self.path}",
            found=self._reason(barrier, before),
            expected="a barrier that each of its jobs came to",
            action=f"Read barrier {before}, or a later one." if before else "Read a later barrier.",
        )

    def _reason(self, barrier: int, before: int) -> str:
        jobs = _derived(self.state(self.end(barrier)))
        first = self.state(self.ids[0]).members
        if before:
            return f"one that {', '.join(jobs)} passed over behind {before}"
        if any(job in first and first[job].frontier > barrier for job in jobs):
            return "a barrier that has expired"
        return f"one before the first barrier of {', '.join(jobs)}"

    def between(self, after: int, last: int) -> list[int]:
        """The exact ones after a barrier, up to a complete one, ascending."""
        found: list[int] = []
        interval = self.state(self.ids[-1]).interval if self.ids else 1
        barrier = self.at_most(last)
        while barrier > after:
            found.append(barrier)
            barrier = self.at_most(barrier - interval)
        return found[::-1]

    def _came_to(self, job: str, end: int, barrier: int) -> int:
        """The newest barrier up to the given one that the job had completed; 0 for none that is known. It is a member
        as of the snapshot `end`, and was before as long as it is one there.

        Goes back snapshot by snapshot from where the table was complete: a job that is not far
        ahead of the others is found in a few steps. One that left and joined again counts from
        there.
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
