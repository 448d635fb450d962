"""The protocol of timestamp barriers over tables that are chains of snapshots, as a system to search.

Roots write one table or two and label each commit with the barrier that its records belong to; membership of writers
is in the chain. Derived jobs plan one barrier for all their sources, write it ahead, run, commit, log. Compactions move
files of level 0 up to a cut, and their changelog is that of these files. Expiry, pins, a slow reader, writers that die,
come back, come late. Each process may crash, and then loses what it held in memory. Raises Broken (`Invariants`).
"""

from __future__ import annotations

from tests.model_checking.chain import Entry, Gone, Join, Table, base, fold
from tests.model_checking.compactor import CompactorProcess
from tests.model_checking.configuration import Configuration, Mistake
from tests.model_checking.invariants import Invariants
from tests.model_checking.job import JobProcess
from tests.model_checking.reader import ReaderProcess
from tests.model_checking.root import RootProcess
from tests.model_checking.state import DEAD, GONE, THERE, ReaderState, RootState, State, Steps
from tests.model_checking.world import World


class Protocol:
    def __init__(self, configuration: Configuration, mistake: Mistake | None = None) -> None:
        self.configuration = configuration
        self.world = World(configuration, mistake)
        self.invariants = Invariants(self.world)
        self.jobs = [
            JobProcess(self.world, index, name) for index, name in enumerate(configuration.jobs)
        ]
        self.processes: tuple[RootProcess | JobProcess | CompactorProcess, ...] = (
            *(RootProcess(self.world, *each) for each in enumerate(configuration.roots)),
            *self.jobs,
            *(CompactorProcess(self.world, *each) for each in enumerate(configuration.compacted)),
        )
        self.reader = ReaderProcess(self.world, self.invariants)

    def start(self) -> State:
        """All are members but who comes late."""
        entries: dict[str, list[Entry]] = {name: [] for name in self.configuration.tables}
        for name, root in self.configuration.roots.items():
            if name != self.configuration.late:
                for table in root.tables:
                    entries[table].append(Join(name, 0))
        for name, job in self.configuration.jobs.items():
            entries[job.sink].append(Join(name, 0))
        return State(
            now=1,
            tables=tuple(Table(tuple(each), 1) for each in entries.values()),
            roots=tuple(RootState() for _ in self.configuration.roots),
            jobs=tuple(job.start() for job in self.jobs),
            compactions=tuple(None for _ in self.configuration.compacted),
            reader=ReaderState(None, self.configuration.sessions),
            crashes=self.configuration.crashes,
            leaver=THERE,
        )

    def steps(self, state: State) -> Steps:
        if state.now < self.configuration.barriers:
            yield "clock", state._replace(now=state.now + 1)
        for process in self.processes:
            yield from process.steps(state)
        for name in self.configuration.expiring:
            yield from self.expire(state, name)
        yield from self.reader.steps(state)
        yield from self.leave(state)

    def expire(self, state: State, name: str) -> Steps:
        """The oldest snapshot goes, unless the newest common barrier, a job or a reader needs it."""
        table = self.world.table(state, name)
        chain, first = table
        if first >= len(chain):
            return
        mistake, session = self.world.mistake, state.reader.session
        needed = [len(chain)]
        if mistake != "expiry_without_floor":
            needed.append(base(chain, self.world.common(state)))
        for job, own in zip(self.configuration.jobs.values(), state.jobs, strict=True):
            if name in job.sources:
                needed.append(base(chain, own.consumer[job.sources.index(name)]))
        if session is not None and mistake != "expiry_without_pins":
            needed += [pin for pinned, pin in session.pins if pinned == name]
        if first < min(needed):
            after = state.with_table(self.world.places[name], Table(chain, first + 1))
            yield f"{name} expires snapshot {first}", after

    def leave(self, state: State) -> Steps:
        """A member is declared gone, which is no last one; it joins again, or is never seen again."""
        leaver = self.configuration.leaver
        if leaver is None:
            return
        home = self.configuration.home(leaver)
        member = self.world.member(state, home, leaver)
        is_last = len(fold(self.world.chain(state, home)).frontiers) < 2
        if state.leaver == THERE and member is not None and not is_last:
            after = self.world.publish(state, home, Gone(leaver))
            yield f"{leaver} is declared gone", after._replace(leaver=GONE)
        if state.leaver == GONE and member is None:
            yield f"{leaver} stays dead", state._replace(leaver=DEAD)

    def check(self, state: State) -> None:
        self.invariants.check(state)

    def finished(self, state: State) -> bool:
        return self.invariants.finished(state)
