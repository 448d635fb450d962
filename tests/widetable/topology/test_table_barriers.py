"""Which snapshots the barriers of a table are, and leaving one table."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.barrier_tables import NAME, new_table
from tests.widetable.topology.test_topology import HandClock, catalog_of, files_of
from widetable.errors import ConflictError, NotFoundError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.topology.topology import Topology


def test_case_2_a_barrier_with_extras_is_no_snapshot(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.t", **{"write-only": "true"})
    a, b = catalog.writer("db.t", "wa", ["p"]), catalog.writer("db.t", "wb", ["q"])
    a.write({"id": [1], "p": [1]}, barrier=10, complete=True)
    a.write({"id": [1], "p": [2]}, barrier=20, complete=True)
    last = b.write({"id": [1], "q": [5]}, barrier=10, complete=True)
    ten, twenty = catalog.topology().barriers("db.t")
    # 1 and 2 join, 3 is wa's of 10, 4 its of 20, 5 wb's of 10.
    assert last.snapshot_id == 5
    assert ten == wt.TableBarrier(10, True, True, 3, 1, 0, None, 5, ())
    assert twenty == wt.TableBarrier(20, False, False, None, None, None, None, None, ("wb",))
    done = b.complete(20)
    newest = catalog.topology().barriers("db.t", 1)
    assert newest == [
        wt.TableBarrier(20, True, True, 6, 0, 0, 6, 6, ()),
        wt.TableBarrier(30, False, False, None, None, None, None, None, ("wa", "wb")),
    ]
    assert done.snapshot_id == 6


def test_case_4_a_barrier_that_a_compaction_went_over_has_no_changelog_snapshot(
    tmp_path: Path,
) -> None:
    table = new_table(tmp_path, changelog_producer="lookup", write_only="true")
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "w")
    for barrier in range(10, 60, 10):
        writer.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    waiting = catalog.topology().barriers(NAME)
    assert [one.changelog_snapshot_id for one in waiting] == [None] * 6
    table.compact()
    found = {one.barrier: one for one in catalog.topology().barriers(NAME) if one.is_complete}
    positions = {barrier: one.changelog_snapshot_id for barrier, one in found.items()}
    assert [barrier for barrier, at in positions.items() if at is not None] == [40, 50]
    assert [one.extra_files for one in found.values()] == [0] * 5


def test_a_barrier_that_a_job_passed_over_is_not_exact(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("j", sources=["db.a"], sinks={"db.b": ["p"]})
    topology.running("j")
    root = catalog.writer("db.b", "root", ["q"])
    job = JobWriter(catalog.table("db.b"), "j", "1", ["p"])
    for number, (span, at) in enumerate([((0, 40), 40), ((40, 60), 50)]):
        job.commit([], JobBatch(number, 0, None, span))
        root.complete(at)
    root.complete(60)
    found = topology.barriers("db.b")
    # 40, then 50, up to which both have come, then 60.
    exact = {one.barrier: one.is_exact for one in found if one.is_complete}
    assert exact == {40: True, 50: False, 60: True}
    assert found[1] == wt.TableBarrier(50, True, False, None, None, None, None, None, ())
    assert [row.barrier for row in topology.delays().tables] == [40, 60]


def test_a_writer_leaves_one_table(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("two sinks", sinks={"db.a": None, "db.b": None})
    lead, follower = (catalog.writer(name, "two sinks") for name in ("db.a", "db.b"))
    with pytest.raises(NotFoundError, match="expected one of two sinks"):
        topology.leave("db.a", "nobody")
    lead.complete(20)
    follower.complete(10)
    with pytest.raises(ConflictError, match=r"db\.a at 20, db\.b at 10"):
        topology.leave("db.a", "two sinks")
    follower.complete(20)
    topology.leave("db.b", "two sinks", dry_run=True)
    assert len(files_of(tmp_path)) == 2
    topology.leave("db.b", "two sinks")
    assert [(job.name, job.tables) for job in topology.jobs()] == [("two sinks", ("db.a",))]
    with pytest.raises(NotFoundError, match="expected one of none"):
        topology.leave("db.b", "two sinks")


def test_a_writer_that_goes_on_elsewhere_leaves_by_force_only(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    topology = Topology(catalog, HandClock(), for_others=True)
    topology.register("j", sinks={"db.a": None})
    topology.running("j")
    BarrierWriter(catalog.table("db.a"), "j", None)
    for is_dry in (True, False):
        with pytest.raises(ConflictError, match="renews its registration"):
            topology.leave("db.a", "j", dry_run=is_dry)
    topology.leave("db.a", "j", force=True)
    assert (topology.jobs(), files_of(tmp_path)) == ([], {})


def test_a_drop_that_is_dry_says_which_tables_it_would_leave(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("j", sources=["db.a"], sinks={"db.c": None, "db.b": None})
    before = files_of(tmp_path)
    assert topology.drop("j", dry_run=True) == ["db.b", "db.c"]
    assert files_of(tmp_path) == before
    assert topology.drop("j") == ["db.b", "db.c"]
    assert files_of(tmp_path) == {}
