"""Derived jobs whose programs are in Python: writers that are registered with sources."""

from __future__ import annotations

from pathlib import Path

import pytest

import widetable as wt
from widetable.errors import ConflictError, InvalidError, NotFoundError


def catalog_of(warehouse: Path) -> wt.Catalog:
    """Tables db.a, db.b and db.c, under barriers."""
    catalog = wt.Catalog(warehouse)
    options = {"bucket": "1", "widetable.fsync": "false", "widetable.barrier-interval": "10 ms"}
    columns = dict.fromkeys(("id", "p", "v"), "BIGINT")
    for name in "abc":
        catalog.create_table(
            f"db.{name}",
            columns,
            primary_key=["id"],
            options={**options, "merge-engine": "partial-update"},
        )
    return catalog


def jobs_in_python(tmp_path: Path) -> tuple[wt.Catalog, dict[str, wt.BarrierWriter]]:
    """db.a, of which q makes db.b and r makes db.c."""
    catalog = catalog_of(tmp_path)
    for job, sink in (("q", "db.b"), ("r", "db.c")):
        catalog.topology().register(job, sources=["db.a"], sinks={sink: None})
        catalog.topology().running(job)
    writers = {
        name: catalog.writer(f"db.{table}", name, ["v"])
        for table, name in (("a", "root"), ("b", "q"), ("c", "r"))
    }
    return catalog, writers


def test_barriers_that_a_job_in_python_passes_over_are_not_shown(tmp_path: Path) -> None:
    """As of a job of Spark: rows of barrier 10 are not those of 20."""
    catalog, writers = jobs_in_python(tmp_path)
    for name, barriers in {"root": range(10, 90, 10), "q": (10, 40, 80), "r": (10, 60)}.items():
        for barrier in barriers:
            writers[name].write({"id": [1], "v": [barrier]}, barrier=barrier, complete=True)
    with catalog.session() as session:
        assert session.barrier == 10
    for barrier in (20, 40, 60):
        with pytest.raises(NotFoundError, match="skipped after"):
            catalog.session(as_of=barrier)
    assert catalog.session(["db.a", "db.b"]).barrier == 80
    writers["r"].complete(80)
    assert catalog.session().barrier == 80
    tables = {table.table: table.writers[0].kind for table in catalog.topology().tables()}
    assert tables == {"db.a": "root", "db.b": "derived", "db.c": "derived"}


def test_a_job_in_python_that_comes_back_is_the_job_that_it_was(tmp_path: Path) -> None:
    catalog, writers = jobs_in_python(tmp_path)
    writers["q"].complete(10)
    writers["q"].leave()
    assert catalog.topology().downstream("db.a") == ["db.c"]
    writers["q"].complete(20)
    assert catalog.topology().downstream("db.a") == ["db.b", "db.c"]
    catalog.topology().drop("q", force=True)
    catalog.topology().register("back", sources=["db.b"], sinks={"db.a": ["p"]})
    catalog.topology().running("back")
    with pytest.raises(ConflictError, match=r"the cycle db\.\w -> "):
        writers["q"].complete(30)
    catalog.topology().drop("back", force=True)
    writers["q"].complete(30)
    assert [job.sources for job in catalog.topology().jobs() if job.name == "q"] == [("db.a",)]


def test_a_write_without_rows_moves_nothing(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    writer = catalog.writer("db.a", "w")
    for identifier in (None, 1):
        assert not writer.write({"id": [], "v": []}, identifier, barrier=50).committed
    assert writer.write({"id": [1], "v": [1]}, barrier=20, complete=True).committed
    assert writer.frontier == 20
    assert writer.write({"id": [], "v": []}, barrier=30, complete=True).committed
    assert writer.frontier == 30


def test_a_write_without_rows_takes_no_name_back(tmp_path: Path) -> None:
    """Another process has it since."""
    catalog = catalog_of(tmp_path)
    old = catalog.writer("db.a", "w")
    new = catalog.writer("db.a", "w")
    with pytest.raises(ConflictError, match="another process that has taken its name"):
        old.write({"id": [], "v": []}, barrier=50)
    assert new.write({"id": [1], "v": [1]}, barrier=20, complete=True).committed


def test_a_write_without_rows_of_one_that_was_dropped_is_waited_for_again(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    writer = catalog.writer("db.a", "w")
    writer.complete(10)
    catalog.topology().drop("w", force=True)
    writer.write({"id": [], "v": []}, barrier=50)
    assert writer.frontier == 10


def test_a_job_in_python_goes_on_where_a_revision_took_it(tmp_path: Path) -> None:
    catalog, writers = jobs_in_python(tmp_path)
    for barrier in (10, 20, 30):
        for writer in writers.values():
            writer.write({"id": [barrier], "v": [1]}, barrier=barrier, complete=True)
    catalog.revise("db.b", to=10)
    with pytest.raises(ConflictError, match="at revision 0 of the table, which is at 1 now"):
        writers["q"].complete(40)
    again = catalog.writer("db.b", "q", ["v"])
    assert again.frontier == 10
    again.complete(20)
    with catalog.session(["db.a", "db.b"]) as session:
        assert session.barrier == 20
        assert session.table("db.b").scan().to_arrow()["id"].to_pylist() == [10]
    assert [f for name in "abc" for f in catalog.table(f"db.{name}").audit().findings] == []


def test_a_session_of_the_topology_waits_for_all_that_is_made_of_its_tables(tmp_path: Path) -> None:
    catalog, writers = jobs_in_python(tmp_path)
    catalog.create_table(
        "db.alone",
        {"id": "BIGINT"},
        primary_key=["id"],
        options=catalog.table("db.a").schema.options,
    )
    for name, barriers in {"root": (10, 20, 30), "q": (10, 20, 30), "r": (10,)}.items():
        for barrier in barriers:
            writers[name].complete(barrier)
    with catalog.session(["db.b"]) as session:
        assert (session.barrier, list(session.snapshot_ids())) == (30, ["db.b"])
    with catalog.session(["db.b"], scope="topology") as session:
        assert (session.barrier, list(session.snapshot_ids())) == (10, ["db.b", "db.a", "db.c"])
    assert catalog.topology().connected(["db.alone"]) == ["db.alone"]
    with pytest.raises(wt.NotFoundError, match="no table under barriers"):
        catalog.topology().connected(["db.alone", "db.nobody"])
    with pytest.raises(InvalidError, match="tables, topology"):
        catalog.session(["db.b"], scope="all")
