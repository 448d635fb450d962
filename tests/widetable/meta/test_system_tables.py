"""The tables of FLIP-276 in the database `__meta`: what they hold, and that they may be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.widetable.meta.test_topology import catalog_of
from widetable.errors import InvalidError
from widetable.meta.system_tables import SINKS, SOURCES, VERSIONS


def rows_of(catalog: wt.Catalog, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = catalog.table(name).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def snapshot_ids(catalog: wt.Catalog) -> list[list[int]]:
    return [
        [one.id for one in catalog.table(name).snapshots()] for name in (SOURCES, SINKS, VERSIONS)
    ]


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    """The jobs of case 13, and one that is only planned."""
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("j1", sources=["db.a"], sinks={"db.b": ["p"]})
    topology.register("j2", sources=["db.b"], sinks={"db.c": None})
    topology.register("j5", sources=["db.a"], sinks={"db.b": ["q"]})
    for job in ("j1", "j2", "j5"):
        topology.running(job)
    topology.register("planned", sources=["db.a"], sinks={"db.b": ["v"]})
    return catalog


def test_case_13_sources_sinks_and_versions_are_those_of_jobs_that_run(catalog: wt.Catalog) -> None:
    assert catalog.topology().rebuild() == {SOURCES: 3, SINKS: 3, VERSIONS: 3}
    assert rows_of(catalog, "__meta.__META_ETL_SOURCE") == [
        {"job_id": "j1", "table_name": "db.a"},
        {"job_id": "j2", "table_name": "db.b"},
        {"job_id": "j5", "table_name": "db.a"},
    ]
    assert rows_of(catalog, "__meta.__META_ETL_SINK") == [
        {"table_name": "db.b", "job_id": "j1"},
        {"table_name": "db.c", "job_id": "j2"},
        {"table_name": "db.b", "job_id": "j5"},
    ]
    assert rows_of(catalog, "__meta.__META_TABLE_VERSION") == [
        {"table_name": "db.a", "version": 1, "table_type": "Root"},
        {"table_name": "db.b", "version": 1, "table_type": "Intermediate"},
        {"table_name": "db.c", "version": 1, "table_type": "Intermediate"},
    ]
    assert catalog.topology().layers() == [["db.a"], ["db.b"], ["db.c"]]


def test_case_17_what_was_dropped_is_made_anew(catalog: wt.Catalog) -> None:
    for name, job in (("db.a", "clicks"), ("db.b", "j1"), ("db.b", "j5"), ("db.c", "j2")):
        catalog.writer(name, job, ["p"] if job == "j1" else ["q"]).complete(20)
    catalog.topology().rebuild()

    def all_that_is_said() -> str:
        said: dict[str, Any] = {name: rows_of(catalog, name) for name in (SOURCES, SINKS, VERSIONS)}
        said["jobs"] = [repr(job) for job in catalog.topology().jobs()]
        said["frontiers"] = {one.table: one.barrier for one in catalog.topology().tables()}
        said["barriers"] = [repr(catalog.topology().barriers(name)) for name in said["frontiers"]]
        with catalog.session() as session:
            said["session"] = [session.barrier, session.snapshot_ids()]
        return json.dumps(said)

    before = all_that_is_said()
    for name in (SOURCES, SINKS, VERSIONS):
        catalog.drop_table(name)
    catalog.topology().rebuild()
    assert all_that_is_said() == before
    assert '"session": [20, ' in before


def test_what_changed_is_one_commit_of_what_differs(catalog: wt.Catalog) -> None:
    topology = catalog.topology()
    topology.rebuild()
    ids = snapshot_ids(catalog)
    topology.rebuild()
    assert snapshot_ids(catalog) == ids
    topology.drop("j2")
    topology.rebuild()
    sinks = catalog.table(SINKS)
    newest = sinks.snapshots()[-1].id
    assert sinks.changes(newest - 1, newest).to_pylist() == [
        {"table_name": "db.c", "job_id": "j2", "_row_kind": "-D"}
    ]
    changed = catalog.table(VERSIONS)
    newest = changed.snapshots()[-1].id
    assert changed.changes(newest - 1, newest).to_pylist() == [
        {"table_name": "db.c", "version": 1, "table_type": "Root", "_row_kind": "+I"}
    ]
    for job in ("j1", "j5", "planned"):
        topology.drop(job)
    assert topology.rebuild() == {SOURCES: 0, SINKS: 0, VERSIONS: 3}
    assert (rows_of(catalog, SOURCES), rows_of(catalog, SINKS)) == ([], [])


def test_a_table_of_somebody_else_is_left_alone(catalog: wt.Catalog) -> None:
    catalog.create_table(SINKS, {"table_name": "STRING"}, primary_key=["table_name"])
    with pytest.raises(InvalidError, match="expected the columns table_name, job_id"):
        catalog.topology().rebuild()
    assert catalog.table(SINKS).scan().count() == 0
