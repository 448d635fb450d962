"""What must hold of the tables in every state, whatever was read, and what it means to be finished. Raises Broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.model_checking.chain import (
    Row,
    Table,
    changelog_at,
    completed,
    counts,
    data,
    fold,
    frontier,
    membership,
    rows,
    truth,
    view_by_cut,
    view_by_snapshot,
)
from tests.model_checking.configuration import roundest
from tests.model_checking.search import Broken
from tests.model_checking.state import DEAD, State
from tests.model_checking.world import World

Tables = tuple[Table, ...]


class Invariants:
    """Content is compared with the same function of what the roots gave, whatever the table."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._checked: set[Tables] = set()

    def check(self, state: State) -> None:
        """All that is said of states is said of tables, so it is looked at once per set of tables."""
        if state.tables in self._checked:
            return
        self._checked.add(state.tables)
        self.check_frontiers(state)
        for name in self.world.configuration.tables:
            self.check_content(state, name)
        self.check_common(state)

    def check_frontiers(self, state: State) -> None:
        for name, job in self.world.configuration.jobs.items():
            own = self.world.member(state, job.sink, name) or 0
            for source in job.sources:
                top = frontier(self.world.chain(state, source))
                if own > top:
                    raise Broken(f"{name} has a barrier in {job.sink}, {source} is at {top}")

    def check_content(self, state: State, name: str) -> None:
        """Both views of a barrier are its rows, and so is its changelog, folded."""
        table = self.world.table(state, name)
        chain = table.chain
        for barrier in self.world.exact(chain):
            for view in (view_by_snapshot, view_by_cut):
                found = view(table, barrier)
                if found is not None and self.world.mistake != "reader_takes_newest":
                    self.compare(state.tables, name, barrier, found.files)
            if name in self.world.configuration.compacted:
                at = changelog_at(chain, barrier)
                if at is not None:
                    self.compare(state.tables, name, barrier, fold(chain[:at]).upper)

    def check_common(self, state: State) -> None:
        """The newest common barrier can be read; with the rule of skipping there is one as often as there can be."""
        configuration = self.world.configuration
        common = self.world.common(state)
        for name in configuration.expiring:
            if common and view_by_snapshot(self.world.table(state, name), common) is None:
                raise Broken(f"the newest common barrier {common} cannot be read in {name}")
        tops = [frontier(table.chain) for table in state.tables]
        if configuration.is_rounding and min(tops):
            high = roundest(range(1, max(tops) + 1))
            if common < high <= min(tops):
                raise Broken(f"all tables are past {high}, their newest common one is {common}")

    def compare(self, tables: Tables, name: str, barrier: int, ids: Iterable[int]) -> None:
        chain = tables[self.world.places[name]].chain
        found: Mapping[str, int | Row]
        expected: Mapping[str, int | Row]
        if name in self.world.configuration.root_tables:
            found, expected = counts(chain, ids), self.expected_counts(tables, name, barrier)
        else:
            found, expected = rows(chain, ids), self.expected_rows(tables, name, barrier)
        found = {writer: row for writer, row in found.items() if row}
        if found != expected:
            raise Broken(f"{name} at barrier {barrier} has {found}, the sources say {expected}")

    def expected_counts(self, tables: Tables, name: str, barrier: int) -> dict[str, int]:
        """Per root of a table: its records up to a barrier, none left out."""
        found = {}
        for writer, root in self.world.configuration.roots.items():
            if name in root.tables:
                lead = tables[self.world.places[root.tables[0]]].chain
                found[writer] = truth(lead, writer, barrier)
        return {writer: records for writer, records in found.items() if records}

    def expected_rows(self, tables: Tables, name: str, barrier: int) -> dict[str, Row]:
        """Per job of a table: its row at a barrier, or that of its last one if it was away."""
        found = {}
        chain = tables[self.world.places[name]].chain
        for writer, job in self.world.configuration.jobs.items():
            if job.sink == name:
                own = completed(chain, writer)
                shown = barrier
                if barrier not in own and barrier not in membership(chain, writer):
                    shown = max((each for each in own if each <= barrier), default=0)
                found[writer] = tuple(
                    sorted(
                        ((source, root), records)
                        for source in job.sources
                        for root, records in self.expected_counts(tables, source, shown).items()
                    )
                )
        return {writer: row for writer, row in found.items() if row}

    def finished(self, state: State) -> bool:
        """Everything is written, everywhere, up to the last barrier, and nobody is about to do anything."""
        configuration = self.world.configuration
        is_at_rest = state.reader.session is None and not any(state.compactions)
        if state.now < configuration.barriers or not is_at_rest:
            return False
        dead = configuration.leaver if state.leaver == DEAD else None
        for (name, root), own in zip(configuration.roots.items(), state.roots, strict=True):
            if own.logged < root.batches and name != dead:
                return False
        for name, job in zip(configuration.jobs, state.jobs, strict=True):
            if job.ahead is not None and name != dead:
                return False
        if self.world.common(state) < configuration.barriers:
            return False
        chains = [self.world.chain(state, name) for name in configuration.compacted]
        return all(
            data(chain, id).label > configuration.barriers
            for chain in chains
            for id in fold(chain).level0
        )
