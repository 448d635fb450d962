"""When a job tries again after its server or its warehouse did not answer. Pure.

    fails ─► 0.25 s ─► fails ─► 0.5 s ─► 1 s ─► ... ─► 30 s ─► 30 s ...      a round that is done begins anew

A limit is the time since the last round that was done, or since the first failure, after which the job gives up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FIRST_SECONDS: Final = 0.25
_MOST_SECONDS: Final = 30.0


@dataclass
class Retries:
    """The failures of a job since it last went well. limit_seconds: None for no limit."""

    limit_seconds: float | None
    failures: int = 0
    since: float = 0.0

    def went_well(self) -> None:
        """Forget the failures."""
        self.failures = 0

    def pause(self, now: float) -> float | None:
        """Return for how many seconds to wait before the job tries again; None if it is to give up.

        now: seconds of a clock that does not go back.
        """
        if not self.failures:
            self.since = now
        self.failures += 1
        seconds = min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self.failures - 1, 20))
        if self.limit_seconds is None:
            return seconds
        left = self.since + self.limit_seconds - now
        return min(seconds, left) if left > 0 else None
