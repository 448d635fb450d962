"""The rule of labels under barriers, without the engine: to which barrier records belong, how far their table is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

INTERVAL: Final = 10


@dataclass
class Labels:
    """frontier, last: of each writer, the barrier that it has completed and the highest one that it has written to.

    complete: of the table.
    """

    frontier: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    complete: int = 0

    def join(self, writer: str) -> None:
        self.frontier.setdefault(writer, self.complete)

    def leave(self, writer: str) -> None:
        self.frontier.pop(writer, None)
        self._advance()

    def written(self, writer: str, barrier: int, *, all: bool) -> int:
        """The label of records that are meant for a barrier, and with them all of it."""
        self.join(writer)
        label = self.label(writer, barrier)
        self.last[writer] = label
        if all and label == barrier:
            self.frontier[writer] = barrier
        self._advance()
        return label

    def label(self, writer: str, barrier: int) -> int:
        """The same before they are in."""
        frontier = self.frontier.get(writer, self.complete)
        return max(barrier, frontier + INTERVAL, self.last.get(writer, 0))

    def finish(self, writer: str, barrier: int) -> None:
        if barrier <= self.frontier.get(writer, self.complete):
            return
        self.join(writer)
        self.frontier[writer] = max(self.frontier[writer], barrier)
        self._advance()

    def copy(self) -> Labels:
        return Labels(dict(self.frontier), dict(self.last), self.complete)

    def _advance(self) -> None:
        self.complete = max(self.complete, min(self.frontier.values(), default=self.complete))
