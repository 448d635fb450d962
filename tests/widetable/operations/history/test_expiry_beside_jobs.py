"""What expires in the sources of jobs that wait, are behind, or look at them just then."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.derived_job import Job, sink_table, source_table
from tests.widetable.operations.barriers.test_derived_jobs import put, rows
from widetable.errors import ConflictError, NotFoundError
from widetable.operations.barriers.aligned_source import AlignedSource
from widetable.storage.local import LocalFileIO


def test_a_new_job_waits_for_changes_that_its_source_still_has_the_rows_before(
    tmp_path: Path,
) -> None:
    """They are made by a maintainer that is far behind: the newest that are out stop at a barrier that has expired."""
    options = {"write_only": "true", "widetable__barriers_kept": "0"}
    x = source_table(tmp_path, "x", changelog_producer="lookup", **options)
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    for barrier in range(10, 70, 10):
        put(writer, range(barrier, barrier + 10), barrier)
        if barrier == 10:
            x.compact()
    x.expire_snapshots(1, 1, 0)
    job = Job("count", {"x": x}, sink_table(tmp_path, "z", ["x"]))
    assert job.run() == []
    x.compact()
    assert job.run() == [60]
    assert rows(job.sink.scan(barrier=60))[0]["x"] == 60


@pytest.mark.parametrize("is_renewed", [True, False])
def test_a_source_that_forgets_consumers_keeps_those_of_jobs_that_run(
    tmp_path: Path, is_renewed: bool
) -> None:
    """The job waits for y for longer than consumers of x may stand still, and x goes on."""
    options = {"consumer__expiration_time": "1 h", "widetable__barriers_kept": "0"}
    tables = {"x": source_table(tmp_path, "x", **options), "y": source_table(tmp_path, "y")}
    catalog = wt.Catalog(tmp_path)
    topology = catalog.topology()
    job = Job("count", tables, sink_table(tmp_path, "z", ["x", "y"]))
    topology.register("count", sources=["d.x", "d.y"], sinks={"d.z": None})
    topology.running("count")
    x, y = (catalog.writer(f"d.{name}", "w") for name in "xy")
    for writer in (x, y):
        put(writer, range(10), 10)
    assert job.run() == [10]
    topology.keep()
    for barrier in range(20, 70, 10):
        put(x, range(barrier, barrier + 10), barrier)
    consumers = list(Path(tables["x"].path, "consumer").iterdir())
    assert {file.name for file in consumers} == {"consumer-count", "consumer-widetable-barriers"}
    two_hours_ago = time.time() - 7_200
    for file in consumers:
        os.utime(file, (two_hours_ago, two_hours_ago))
    if is_renewed:
        topology.renew("count")
        topology.keep()
    forgotten = tables["x"].expire_snapshots(1, 1, 0).consumers
    put(y, range(10, 20), 60)
    if is_renewed:
        assert forgotten == ()
        assert job.run() == [40, 60]
        assert rows(job.sink.scan(barrier=60))[0]["x"] == 60
    else:
        assert forgotten == ("count", "widetable-barriers")
        with pytest.raises(ConflictError, match="was deleted or has expired"):
            Job("count", tables, job.sink, run="2").run()
        with pytest.raises(NotFoundError, match="have expired"):
            job.run()


class ExpiresMeanwhile(LocalFileIO):
    """Before it reads a snapshot file for the so many-th time, all snapshots expire that may."""

    def __init__(self, table: wt.Table, reads_before: int) -> None:
        super().__init__(fsync=False)
        self.table = table
        self.reads_left: int | None = reads_before

    def read(self, path: str) -> bytes:
        if self.reads_left is not None and "/snapshot/snapshot-" in path:
            self.reads_left -= 1
            if self.reads_left < 0:
                self.reads_left = None
                self.table.expire_snapshots(1, 1, 0)
        return super().read(path)


LOOKS: dict[str, tuple[Callable[[AlignedSource, wt.Table], object], object]] = {
    "decided": (lambda source, _: source.decided(60, None), 80),
    "reads": (lambda source, _: len(source.reads(60, 80)), 1),
    "record": (lambda source, _: source.record(80), None),
    "scan": (lambda _, table: table.scan(barrier=80).count(), 80),
    "changes": (lambda _, table: table.changes(70, 80, mode="barrier").num_rows, 10),
}


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_an_expiry_meanwhile_is_no_end_of_a_job(tmp_path: Path, producer: str) -> None:
    """It takes snapshots that nobody needs, and a look at all barriers goes through them."""
    made = tmp_path / "made"
    x = source_table(made, "x", changelog_producer=producer, widetable__barriers_kept="0")
    job = Job("count", {"x": x}, sink_table(made, "z", ["x"]))
    writer = wt.Catalog(made).writer("d.x", "w")
    for barrier in range(10, 90, 10):
        put(writer, range(barrier, barrier + 10), barrier)
        if barrier == 60:
            assert job.run() == [60]
    for name, (look, expected) in LOOKS.items():
        reads_before, was_in_between = 0, True
        while was_in_between:
            warehouse = shutil.copytree(made, tmp_path / f"{name}-{reads_before}")
            catalog = wt.Catalog(warehouse)
            storage = ExpiresMeanwhile(catalog.table("d.x"), reads_before)
            table = wt.Catalog(warehouse, file_io=storage).table("d.x")
            source = AlignedSource("count", table, [table], catalog.table("d.z"), None)
            assert look(source, table) == expected, (name, reads_before)
            was_in_between = storage.reads_left is None
            reads_before += 1
        assert reads_before > 1, name
