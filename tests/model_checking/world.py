"""What all processes see of a state: the tables, how a commit is published, what is complete, and its changes.

Broken: what must hold for every snapshot does not, or changes were expired before they were read.
"""

from __future__ import annotations

from tests.model_checking.chain import (
    Append,
    Chain,
    Compact,
    Entry,
    Idle,
    Join,
    Table,
    appends,
    changelog_at,
    completed,
    counts,
    fold,
    frontier,
    membership,
    put,
    value_of,
)
from tests.model_checking.configuration import Configuration, Mistake
from tests.model_checking.search import Broken
from tests.model_checking.state import State


class World:
    """A configuration and the mistake that is planted, if any."""

    def __init__(self, configuration: Configuration, mistake: Mistake | None) -> None:
        self.configuration, self.mistake = configuration, mistake
        self.places = {name: index for index, name in enumerate(configuration.tables)}
        self._exact: dict[Chain, frozenset[int]] = {}
        self._common: dict[tuple[Table, ...], int] = {}

    def table(self, state: State, name: str) -> Table:
        return state.tables[self.places[name]]

    def chain(self, state: State, name: str) -> Chain:
        return state.tables[self.places[name]].chain

    def member(self, state: State, name: str, writer: str) -> int | None:
        """The barrier that a writer has completed in a table; None: it is no member."""
        return value_of(fold(self.chain(state, name)).frontiers, writer)

    def publish(self, state: State, name: str, entry: Entry) -> State:
        """The state after a commit; what must hold for every snapshot is checked here."""
        chain, first = self.table(state, name)
        top = frontier(chain)
        if isinstance(entry, Append):
            self._check_label(name, chain, entry)
        session = state.reader.session
        pinned = session is not None and (name, len(chain)) in session.pins
        last = chain[-1]
        if isinstance(entry, Idle) and isinstance(last, Idle) and len(chain) > first and not pinned:
            chain, entry = chain[:-1], Idle(put(last.barriers, *entry.barriers[0]))
        after = (*chain, entry)
        if frontier(after) < top:
            raise Broken(f"{name} goes back from barrier {top} to {frontier(after)}")
        return state.with_table(self.places[name], Table(after, first))

    def _check_label(self, name: str, chain: Chain, entry: Append) -> None:
        top, done = frontier(chain), value_of(fold(chain).frontiers, entry.writer)
        assert done is not None or self.mistake == "zombie"
        text = f"{entry.writer} adds records of barrier {entry.label} to {name}, which"
        if done is not None and entry.label <= done:
            raise Broken(f"{text} it completed up to {done}")
        if entry.label <= top:
            raise Broken(f"{text} is complete up to {top}")

    def exact(self, chain: Chain) -> frozenset[int]:
        """Complete barriers. Roots are exact at every one, jobs at those that they completed; who was no member when
        a barrier became complete shows its last one.
        """
        known = self._exact.get(chain)
        if known is not None:
            return known
        barriers = frozenset(range(1, frontier(chain) + 1))
        for job in self.configuration.jobs:
            if any(isinstance(entry, Join) and entry.writer == job for entry in chain):
                away = barriers - membership(chain, job)
                barriers &= completed(chain, job) | away
        self._exact[chain] = barriers
        return barriers

    def common(self, state: State) -> int:
        """The newest barrier that is complete and exact in all tables, 0: none."""
        known = self._common.get(state.tables)
        if known is None:
            exact = [self.exact(table.chain) for table in state.tables]
            known = self._common[state.tables] = max(frozenset.intersection(*exact), default=0)
        return known

    def available(self, state: State, name: str) -> frozenset[int]:
        """Barriers whose changes a job may take: complete, exact, and wholly in the changelog."""
        chain = self.chain(state, name)
        exact = self.exact(chain)
        if name not in self.configuration.compacted:
            return exact
        if self.mistake == "first_group_is_taken_for_all":
            cuts = [entry.cut for entry in chain if isinstance(entry, Compact)]
            return frozenset(barrier for barrier in exact if barrier <= max(cuts, default=0))
        return frozenset(each for each in exact if changelog_at(chain, each) is not None)

    def available_in_all(self, state: State, names: tuple[str, ...]) -> frozenset[int]:
        return frozenset.intersection(*(self.available(state, name) for name in names))

    def changes(self, state: State, name: str, start: int, end: int) -> dict[str, int]:
        """Per root: its records in the changes of a table after barrier `start` up to `end`."""
        chain, first = self.table(state, name)
        if name in self.configuration.compacted:
            after = changelog_at(chain, start) or 0
            last = changelog_at(chain, end) or len(chain)
            needed: list[int] = []
            files: list[int] = []
            for id in range(after + 1, last + 1):
                entry = chain[id - 1]
                if isinstance(entry, Compact):
                    needed.append(id)
                    files += entry.moved
        else:
            needed = files = sorted({*appends(chain, 0, end)} - {*appends(chain, 0, start)})
        if any(id < first for id in needed):
            raise Broken(f"changes of {name} after barrier {start} expired before they were read")
        return counts(chain, files)
