"""What the sessions of a catalog have shown: the barrier of the last one over the same tables, at the same consistency.

So many sets of tables are known, those that were read last. It lives in this process:
`Session.fell_back_from` says nothing of sessions of another one. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from widetable.operations.barriers.session import Session

_MOST_SETS: Final = 1000


class ShownBarrier(NamedTuple):
    """revision: that the barrier goes by; None where the tables are in no warehouse."""

    barrier: int
    revision: int | None


class ShownBarriers:
    """Of one catalog; picklable. Threads may share it.
    A set of tables that is read in another order is the same set.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, frozenset[str]], ShownBarrier] = {}

    def last(self, consistency: str, tables: Iterable[str]) -> ShownBarrier | None:
        """None where nothing is known."""
        return self._last.get((consistency, frozenset(tables)))

    def note(self, consistency: str, session: Session) -> None:
        """What it shows.
        Nothing for one without a barrier (`ReadUncommitted`).
        """
        if session.barrier is None:
            return
        asked = consistency, frozenset(session.snapshot_ids())
        # Taken out, so that it comes in at the end: the first one is that which was noted longest ago.
        self._last.pop(asked, None)
        self._last[asked] = ShownBarrier(session.barrier, session.revision)
        for oldest in [*self._last][:-_MOST_SETS]:
            self._last.pop(oldest, None)
