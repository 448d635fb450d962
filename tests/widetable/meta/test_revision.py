"""Tables that jobs make go back to a barrier together, and are made again from there."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.derived_job import Job, sink_table, source_table
from tests.faults import Fault, FaultyFileIO
from widetable.errors import NotFoundError, StorageError
from widetable.storage.local import LocalFileIO


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


def files_of(table: wt.Table) -> set[str]:
    return set(table.inspect.files()["file_name"].to_pylist())


def all_files(warehouse: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in warehouse.rglob("*") if file.is_file()}


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_case_20_a_table_and_all_that_is_made_of_it_go_back(tmp_path: Path, producer: str) -> None:
    """Without a changelog r counts the records of y, one a barrier."""
    chain, is_kept = Chain(tmp_path, producer), producer == "lookup"
    chain.fill(10, 20, 30, 40, 50)
    at_30, at_50 = [(b, [b // 10, b // 5, 1 if is_kept else b // 10]) for b in (30, 50)]
    assert [chain.seen(barrier) for barrier in (30, 50)] == [at_30, at_50]
    before = all_files(tmp_path)
    planned = chain.catalog.revise("d.y", to=30, dry_run=True)
    assert all_files(tmp_path) == before
    assert (planned.number, planned.jobs) == (None, ("q", "r"))
    assert planned.to_dict()["tables"] == tuple(
        {"table": table, "barrier": 50, "to": 30, "commits": 2, "records": 2}
        for table in ("d.y", "d.z")
    )
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("publish", Fault.BEFORE, "y/snapshot/")
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=storage).revise("d.y", to=30)
    assert chain.seen() == at_50  # z has gone back already
    assert chain.versions() == {"d.x": 1, "d.y": 1, "d.z": 1}
    done = chain.catalog.revise("d.y", to=30)
    assert (done.number, done.tables) == (1, planned.tables)
    assert chain.seen() == at_30
    assert chain.versions() == {"d.x": 1, "d.y": 2, "d.z": 2}
    q = chain.resumed("q", 3)
    assert q.run() == [40, 50]
    assert chain.resumed("r", 1 if is_kept else 3).run() == [40, 50]
    assert chain.seen() == (50, [5, 5, 1 if is_kept else 5])
    assert chain.y.scan(barrier=40).to_arrow()["x"].to_pylist() == [4]
    chain.audit()


def test_what_is_made_again_is_what_is_made_from_scratch(tmp_path: Path) -> None:
    revised, fresh = Chain(tmp_path / "a"), Chain(tmp_path / "b")
    revised.fill(10, 20, 30, 40, 50)
    fresh.fill(10, 20, 30, 40, 50, kind=Job)
    assert revised.catalog.revise("d.y", to=None).tables[0].to is None
    assert [table.scan().count() for table in revised.tables] == [5, 0, 0]
    with pytest.raises(NotFoundError, match=r"complete in d\.y"):
        revised.seen()
    assert revised.job("q").run() == [50]
    assert revised.job("r").run() == [50]
    assert revised.seen() == fresh.seen() == (50, [5, 5, 1])
    assert revised.versions() == {"d.x": 1, "d.y": 2, "d.z": 2}
    revised.audit()
