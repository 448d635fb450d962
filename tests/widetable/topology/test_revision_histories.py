"""Random histories: roots, jobs in two layers, compactions, expiry, and revisions that fail and are finished later."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.tables.derived_job import Job, sink_table, source_table
from widetable.errors import ConflictError, NotFoundError, StorageError
from widetable.storage.local import LocalFileIO

# Job, and the table that it makes, to what it counts the rows of.
COUNTS = {"p": ("x",), "q": ("x", "y"), "r": ("p", "y")}
BEHIND = {"p": ("p", "r"), "q": ("q",), "r": ("r",)}


class Versioned(Job):
    """Writes what it counts, and how often it was put right: `version` on top of each number."""

    version = 0

    def run_batch(self, end: int, *, dies_before_log: bool = False) -> wt.CommitResult:
        on_top = dict.fromkeys(self.sources, self.version)
        self.counts.update(on_top)
        try:
            return super().run_batch(end, dies_before_log=dies_before_log)
        finally:
            self.counts.subtract(on_top)


class History:
    """The warehouse, and what its tables must say as of which barrier. roots: how many rows."""

    def __init__(self, warehouse: Path, rng: random.Random) -> None:
        self.warehouse, self.rng = warehouse, rng
        self.catalog = wt.Catalog(warehouse)
        self.tables = {
            name: source_table(warehouse, name, changelog_producer=rng.choice(("none", "lookup")))
            for name in "xy"
        }
        for name, columns in COUNTS.items():
            producer = {"changelog-producer": "lookup" if name == "p" else "none"}
            self.tables[name] = sink_table(warehouse, name, list(columns), **producer)
        topology = self.catalog.topology()
        for name, columns in COUNTS.items():
            topology.register(
                name, sources=[f"d.{each}" for each in columns], sinks={f"d.{name}": None}
            )
            topology.running(name)
        self.writers = {name: self.catalog.writer(f"d.{name}", "w") for name in "xy"}
        self.roots: dict[str, dict[int, int]] = {name: {0: 0} for name in "xy"}
        self.ends = dict.fromkeys("xy", 0)
        self.made: dict[str, dict[int, dict[str, int]]] = {name: {} for name in COUNTS}
        self.versions = dict.fromkeys(COUNTS, 0)
        self.runs = 0
        self.jobs = {name: self.job(name, 0) for name in COUNTS}
        self.pending: tuple[str, int | None] | None = None
        self.had: dict[str, set[int]] = {}
        self.revised = 0

    def job(self, name: str, at: int) -> Versioned:
        """With a new checkpoint; what it had counted as of a barrier was made again."""
        self.runs += 1
        sources = {each: self.tables[each] for each in COUNTS[name]}
        job = Versioned(name, sources, self.tables[name], run=str(self.runs))
        job.version = self.versions[name]
        if at:
            job.counts.update({each: self.rows(each, at) for each in COUNTS[name]})
        return job

    def rows(self, table: str, barrier: int) -> int:
        return self.roots[table][barrier] if table in self.roots else 1

    def write(self, name: str | None = None) -> None:
        name = name or self.rng.choice("xy")
        have, barrier = self.roots[name][self.ends[name]], self.ends[name] + 10
        ids = list(range(have, have + self.rng.randrange(3)))
        self.writers[name].write({"id": ids, "v": ids}, barrier=barrier, complete=True)
        if not ids:
            self.writers[name].complete(barrier)
        self.roots[name][barrier] = have + len(ids)
        self.ends[name] = barrier

    def run(self, name: str | None = None) -> bool:
        """One batch; whether there was one."""
        name = name or self.rng.choice(list(COUNTS))
        job = self.jobs[name]
        with contextlib.suppress(*((ConflictError,) if self.pending else ())):
            end = job.next_end()
            if end is not None:
                job.run_batch(end)
                self.made[name][end] = {
                    each: self.rows(each, end) + self.versions[name] for each in COUNTS[name]
                }
                return True
        return False

    def keep(self) -> None:
        self.catalog.topology().keep()
        table = self.rng.choice(list(self.tables.values()))
        table.compact(full=self.rng.random() < 0.5)
        table.expire_snapshots(1, 1, 0)

    def revise(self) -> None:
        """A barrier that may have expired by now; half of them end with a storage that fails."""
        name = self.rng.choice(list(COUNTS))
        known = [*self.made[name], None]
        table, to = self.pending or (name, self.rng.choice(known[-4:]))
        if self.pending is None:  # where tables go back to is said when it begins
            self.had = {each: set(made) for each, made in self.made.items()}
        storage = FaultyFileIO(LocalFileIO(fsync=False))
        if self.rng.random() < 0.5:
            skip, fault = self.rng.randrange(3), self.rng.choice((Fault.BEFORE, Fault.AFTER))
            storage.fail("publish", fault, skip=skip)
        try:
            wt.Catalog(self.warehouse, file_io=storage).revise(f"d.{table}", to=to)
        except StorageError:
            notes = len(list((self.warehouse / "__meta.db/service").glob("widetable-revision-*")))
            if notes % 2:
                self.pending = (table, to)
            elif notes // 2 > self.revised:  # it ended, and the answer was lost
                self._went_back(table, to or 0)
        except NotFoundError:
            assert self.pending is None
        else:
            self._went_back(table, to or 0)

    def _went_back(self, table: str, to: int) -> None:
        self.pending = None
        self.revised += 1
        for name in BEHIND[table]:
            self.versions[name] += 1
            kept = {at for at in self.had[name] if at <= to}
            self.made[name] = {at: row for at, row in self.made[name].items() if at in kept}
            self.jobs[name] = self.job(name, to if self.made[name] else 0)

    def check(self, names: Sequence[str] = ()) -> int:
        """By default some of the tables."""
        names = names or [name for name in self.tables if self.rng.random() < 0.8] or ["p"]
        try:
            session = self.catalog.session(tables=[f"d.{name}" for name in names])
        except NotFoundError:
            return 0
        with session:
            barrier = session.barrier or 0
            for name in names:
                found = session.table(f"d.{name}").scan().to_arrow()
                if name in self.roots:
                    assert found.num_rows == self.rows(name, barrier)
                else:
                    assert found.to_pylist() == [{"id": 0, **self.made[name][barrier]}]
        return barrier


def test_sessions_see_what_was_made_before_or_again(tmp_path: Path, rng: random.Random) -> None:
    history = History(tmp_path, rng)
    steps: tuple[Callable[[], object], ...] = (
        history.write,
        history.run,
        history.keep,
        history.revise,
    )
    seen = 0
    for _ in range(70):
        rng.choices(steps, (6, 8, 1, 1))[0]()
        seen += history.check() > 0
    while history.pending:
        history.revise()
    while len(set(history.ends.values())) > 1:
        history.write(min(history.ends, key=lambda name: history.ends[name]))
    for name in COUNTS:
        while history.run(name):
            pass
    assert seen
    assert history.check(["x", "y", *COUNTS]) == history.ends["x"]
    for table in history.tables.values():
        assert not table.audit().findings
