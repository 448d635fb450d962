"""For how long a lease holds: until its time is up, and no longer than its process lives.

A process of this machine that has ended holds nothing (`process_identity`). A time that lies further ahead than any
such lease can have been taken for was written by a clock that is wrong: it is not believed either, or one writer whose
clock is a year ahead would hold things up for a year. Clocks that disagree by less make a lease longer or shorter.

    leases of at most 60 s; time left by this clock     its process             force
    0 or less                                           any                     OVER
    up to 120 s                                         lives, or not known     IN_FORCE
    up to 120 s                                         has ended here          VOID
    more                                                any                     VOID
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from widetable.commit.clock import Clock
from widetable.commit.passed_over import pass_over
from widetable.commit.process_identity import has_ended
from widetable.errors import DamagedError

# How much longer than its longest duration a lease may seem to run because clocks disagree.
_DISBELIEF: Final = 2


class Force(Enum):
    """IN_FORCE: it holds. OVER: its time is up. VOID: it never could, or can no more, whatever its time says."""

    IN_FORCE = "in force"
    OVER = "over"
    VOID = "void"


class NotedLease(NamedTuple):
    """A file that holds something: kind of lease, its path, whose it is and the first snapshot that it holds, where it
    says so; until when, epoch milliseconds, and whether it does.
    """

    kind: str
    path: str
    owner: str | None
    snapshot_id: int | None
    expires_millis: int
    force: Force


@dataclass(frozen=True)
class LeaseTerm:
    """expires_millis: wall clock since the epoch. process: its identity; None where nothing is known of it."""

    expires_millis: int
    process: str | None

    def force(self, path: str, longest_millis: int, clock: Clock) -> Force:
        """Whether it holds now. longest_millis: for which such a lease is taken at most."""
        left_millis = self.expires_millis - clock.now_nanos() // 1_000_000
        if left_millis <= 0:
            return Force.OVER
        if left_millis > _DISBELIEF * longest_millis:
            pass_over(
                DamagedError(
                    path,
                    found=f"a lease that runs for {left_millis} ms more",
                    expected=f"{_DISBELIEF * longest_millis} ms at most",
                    action="Set the clock of the machine that wrote it, or of this one; it is not in force.",
                )
            )
            return Force.VOID
        if self.process is not None and has_ended(self.process):
            return Force.VOID
        return Force.IN_FORCE

    def ended_millis(self, force: Force, modified_millis: int) -> int | None:
        """When it ended, None for one that has not. modified_millis: of its file, for one that says nothing true."""
        if force is Force.IN_FORCE:
            return None
        return self.expires_millis if force is Force.OVER else modified_millis
