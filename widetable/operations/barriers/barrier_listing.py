"""The barriers that sessions of a catalog have shown: that of the last session over the same tables, at the same
consistency.

The last `_MAX_SETS` sets of tables are remembered, in this process only: `Session.fell_back_from` ignores sessions of
other processes. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from widetable.operations.barriers.session import Session

_MAX_SETS: Final = 1000


class ShownBarrier(NamedTuple):
    """Holds a barrier and its revision; None if the tables are in no warehouse."""

    barrier: int
    revision: int | None


class ShownBarriers:
    """Remembers the barriers of one catalog; picklable. Threads may share it. The order of tables does not matter."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, frozenset[str]], ShownBarrier] = {}

    def last(self, consistency: str, tables: Iterable[str]) -> ShownBarrier | None:
        """Return the barrier that was shown last; None if there is none."""
        return self._last.get((consistency, frozenset(tables)))

    def note(self, consistency: str, session: Session) -> None:
        """Remember the barrier of a session. One without a barrier (`ReadUncommitted`) is ignored."""
        if session.barrier is None:
            return
        key = consistency, frozenset(session.snapshot_ids())
        # The key is removed first, so that it moves to the end: the oldest entry is the first one.
        self._last.pop(key, None)
        self._last[key] = ShownBarrier(session.barrier, session.revision)
        for oldest in [*self._last][:-_MAX_SETS]:
            self._last.pop(oldest, None)
