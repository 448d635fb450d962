"""Tables x -> y -> z of which jobs q and r make the later ones, to take back: q counts wrong."""

from __future__ import annotations

import copy
from pathlib import Path

import widetable as wt
from tests.support.tables.derived_job import Job, sink_table, source_table


class CountsWrong(Job):
    """Adds one too many with each batch."""

    def run_batch(self, end: int, *, dies_before_log: bool = False) -> wt.CommitResult:
        self.counts.update(dict.fromkeys(self.sources, 1))
        return super().run_batch(end, dies_before_log=dies_before_log)


class Chain:
    """x -> q -> y -> r -> z, each with one row a barrier more in x. `wrong`: q counts wrong."""

    def __init__(self, warehouse: Path, producer: str = "lookup") -> None:
        self.warehouse = warehouse
        self.catalog = wt.Catalog(warehouse)
        self.x = source_table(warehouse, "x", changelog_producer=producer)
        self.y = sink_table(warehouse, "y", ["x"], **{"changelog-producer": producer})
        self.z = sink_table(warehouse, "z", ["y"], **{"changelog-producer": producer})
        self.root = self.catalog.writer("d.x", "w")
        topology = self.catalog.topology()
        for job, source, sink in (("q", "d.x", "d.y"), ("r", "d.y", "d.z")):
            topology.register(job, sources=[source], sinks={sink: None})
            topology.running(job)
        self.runs = 0

    def in_copy(self, warehouse: Path) -> Chain:
        """The same in a copy of its files."""
        other = copy.copy(self)
        other.catalog = wt.Catalog(warehouse)
        other.x, other.y, other.z = (other.catalog.table(f"d.{name}") for name in "xyz")
        return other

    @property
    def tables(self) -> tuple[wt.Table, ...]:
        return self.x, self.y, self.z

    def job(self, name: str, kind: type[Job] = Job) -> Job:
        """With a new checkpoint."""
        self.runs += 1
        source, sink = {"q": ("x", "y"), "r": ("y", "z")}[name]
        tables = {"x": self.x, "y": self.y, "z": self.z}
        return kind(name, {source: tables[source]}, tables[sink], run=str(self.runs))

    def put(self, barrier: int) -> None:
        self.root.write({"id": [barrier], "v": [barrier]}, barrier=barrier, complete=True)

    def fill(self, *barriers: int, kind: type[Job] = CountsWrong) -> tuple[Job, Job]:
        """Each barrier goes through both jobs before the next."""
        q, r = self.job("q", kind), self.job("r")
        for barrier in barriers:
            self.put(barrier)
            assert q.run() == [barrier]
            assert r.run() == [barrier]
        return q, r

    def resumed(self, name: str, count: int) -> Job:
        """A job whose state was made again: it had counted so many when its tables went back."""
        job = self.job(name)
        job.counts.update(dict.fromkeys(job.sources, count))
        return job

    def seen(self, as_of: int | None = None) -> tuple[int | None, list[int]]:
        """The barrier of a session over all, and how many rows x has, y and z say."""
        with self.catalog.session(as_of=as_of) as session:
            x = session.table("d.x").scan().count()
            y, z = (session.table(f"d.{n}").scan().to_arrow().to_pylist() for n in "yz")
            return session.barrier, [x, *(row["x"] for row in y), *(row["y"] for row in z)]

    def audit(self) -> None:
        for table in self.tables:
            assert table.audit().findings == ()

    def versions(self) -> dict[str, int]:
        return {one.table: one.version for one in self.catalog.topology().tables()}
