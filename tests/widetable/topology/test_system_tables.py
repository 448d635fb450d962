"""The tables in the database `__meta`: what they hold, and that they may be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.models.barrier_labels import INTERVAL
from tests.support.models.revised_chain import Chain
from tests.support.tables.barrier_tables import NAME, new_table
from tests.widetable.topology.test_topology import catalog_of
from widetable.errors import InvalidError
from widetable.topology.barrier_history import MOST, BarrierRow, Reach, with_expired_barriers
from widetable.topology.system_tables import (
    BARRIERS,
    JOB_BARRIERS,
    JOBS,
    REVISIONS,
    SETTINGS,
    SINKS,
    SOURCES,
    VERSIONS,
)

ALL = (SOURCES, SINKS, VERSIONS, JOBS, BARRIERS, JOB_BARRIERS, REVISIONS, SETTINGS)
PLACES = ("base_id", "snapshot_id", "changelog_snapshot_id")


def rows_of(catalog: wt.Catalog, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = catalog.table(name).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def snapshot_ids(catalog: wt.Catalog) -> list[list[int]]:
    return [[one.id for one in catalog.table(name).snapshots()] for name in ALL]


def said(catalog: wt.Catalog) -> str:
    """All that the tables say, as JSON."""
    return json.dumps({name: rows_of(catalog, name) for name in ALL})


def drop_all(catalog: wt.Catalog) -> None:
    for name in catalog.list_tables("__meta"):
        catalog.drop_table(name)


def by_barrier(catalog: wt.Catalog, table: str, revision: int = 0) -> dict[int, dict[str, Any]]:
    return {
        row["barrier"]: row
        for row in rows_of(catalog, BARRIERS)
        if (row["table_name"], row["revision"]) == (table, revision)
    }


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
    counts = {SOURCES: 3, SINKS: 3, VERSIONS: 3, JOBS: 4, SETTINGS: 9}
    assert catalog.topology().rebuild() == counts | {BARRIERS: 0, JOB_BARRIERS: 0, REVISIONS: 0}
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


def test_settings_are_the_options_of_barriers(catalog: wt.Catalog) -> None:
    catalog.alter_table("db.b", set_options={"widetable.barriers-kept": "7"})
    catalog.topology().rebuild()
    found = {
        (row["table_name"], row["setting"]): row["value"] for row in rows_of(catalog, SETTINGS)
    }
    assert {setting: found["db.b", setting] for _, setting in found} == {
        "widetable.barrier-interval": f"{INTERVAL} ms",
        "widetable.barriers-kept": "7",
        "widetable.barrier-stage": "false",
    }
    assert found["db.a", "widetable.barriers-kept"] == "3"
    for (table, setting), value in found.items():  # as options take them
        catalog.create_table(
            f"db.{table[-1]}_{setting[-4:]}",
            {"k": "BIGINT"},
            primary_key=["k"],
            options={"widetable.barrier-interval": "10 ms", setting: value},
        )


def test_case_17_what_was_dropped_is_made_anew(catalog: wt.Catalog) -> None:
    for name, job in (("db.a", "clicks"), ("db.b", "j1"), ("db.b", "j5"), ("db.c", "j2")):
        catalog.writer(name, job, ["p"] if job == "j1" else ["q"]).complete(20)
    catalog.topology().rebuild()

    def all_that_is_said() -> str:
        found: dict[str, Any] = {"tables": said(catalog)}
        found["jobs"] = [repr(job) for job in catalog.topology().jobs()]
        found["frontiers"] = {one.table: one.barrier for one in catalog.topology().tables()}
        found["barriers"] = [repr(catalog.topology().barriers(t)) for t in found["frontiers"]]
        with catalog.session() as session:
            found["session"] = [session.barrier, session.snapshot_ids()]
        return json.dumps(found)

    before = all_that_is_said()
    drop_all(catalog)
    catalog.topology().rebuild()
    assert all_that_is_said() == before
    assert '"session": [20, ' in before
    assert len(rows_of(catalog, BARRIERS)) == 3
    # j5 joined where its table was complete, which j1 alone had made so.
    assert [row["job_id"] for row in rows_of(catalog, JOB_BARRIERS)] == ["clicks", "j1", "j2"]
    jobs = {row["job_id"]: row for row in rows_of(catalog, JOBS)}
    assert jobs["j1"] == {"job_id": "j1", "kind": "derived", "state": "running", "barrier": 20}
    assert (jobs["clicks"]["kind"], jobs["clicks"]["barrier"]) == ("root", 20)
    assert (jobs["planned"]["state"], jobs["planned"]["barrier"]) == ("pending", None)


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
    counts = {name: count for name, count in topology.rebuild().items() if count}
    assert counts == {VERSIONS: 3, SETTINGS: 9}
    assert (rows_of(catalog, SOURCES), rows_of(catalog, SINKS)) == ([], [])


def test_a_table_of_somebody_else_is_left_alone(catalog: wt.Catalog) -> None:
    catalog.create_table(SINKS, {"table_name": "STRING"}, primary_key=["table_name"])
    with pytest.raises(InvalidError, match="expected the columns table_name, job_id"):
        catalog.topology().rebuild()
    assert catalog.table(SINKS).scan().count() == 0


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_barriers_are_at_the_snapshots_that_the_topology_says(
    tmp_path: Path, producer: str
) -> None:
    """Writer b lags, so barriers have later commits; compactions go over some of them."""
    table = new_table(tmp_path, changelog_producer=producer, write_only="true")
    catalog = wt.Catalog(tmp_path)
    a, b = catalog.writer(NAME, "a", ["a"]), catalog.writer(NAME, "b", ["b"])
    for barrier in range(10, 80, 10):
        a.write({"id": [barrier], "a": [barrier]}, barrier=barrier, complete=True)
        if barrier % 20 == 0:
            b.write({"id": [barrier, 1], "b": [barrier, 1]}, barrier=barrier - 10)
            b.complete(barrier - 10)
        if barrier % 30 == 0:
            table.compact()
    topology = catalog.topology()
    topology.rebuild()
    rows = by_barrier(catalog, NAME)
    expected = {one.barrier: one for one in topology.barriers(NAME) if one.is_complete}
    assert rows.keys() == expected.keys() == {10, 30, 50}
    for barrier, one in expected.items():
        assert [rows[barrier][place] for place in PLACES] == [getattr(one, p) for p in PLACES]
        assert rows[barrier]["extra_commits"] == one.extra_files  # in one bucket
    times = {one.barrier: one for one in topology.delays().tables}
    for barrier, row in rows.items():
        assert row["written_time_millis"] - barrier == times[barrier].written_delay_millis
    counts = {
        (row["job_id"], row["barrier"]): row["row_count"] for row in rows_of(catalog, JOB_BARRIERS)
    }
    of_a = {("a", barrier): 1 for barrier in range(10, 80, 10)}
    assert counts == of_a | {("b", barrier): 2 for barrier in (10, 30, 50)}


def test_barriers_that_a_table_has_let_go_of_keep_their_times(tmp_path: Path) -> None:
    table, catalog = new_table(tmp_path), wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "w")
    for barrier in (10, 20, 30):
        writer.write({"id": [1], "a": [barrier]}, barrier=barrier)
        writer.write({"id": [2], "a": [barrier]}, barrier=barrier, complete=True)
    topology = catalog.topology()
    topology.rebuild()
    before, jobs = by_barrier(catalog, NAME), rows_of(catalog, JOB_BARRIERS)
    assert [row["row_count"] for row in jobs] == [2, 2, 2]
    for barrier in range(40, 100, 10):
        writer.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    table.expire_snapshots(1, 1, 0)
    topology.rebuild()
    after = by_barrier(catalog, NAME)
    nothing = dict.fromkeys((*PLACES, "extra_commits"))
    assert [after[barrier] for barrier in (10, 20, 30)] == [
        before[barrier] | nothing for barrier in (10, 20, 30)
    ]
    assert after[90]["snapshot_id"] is not None
    assert all(after[barrier]["written_time_millis"] for barrier in (80, 90))
    assert [row for row in rows_of(catalog, JOB_BARRIERS) if row["barrier"] <= 30] == jobs
    drop_all(catalog)
    topology.rebuild()
    kept = by_barrier(catalog, NAME)
    assert 10 not in kept
    assert {barrier: row for barrier, row in after.items() if barrier > 60} == {
        barrier: row for barrier, row in kept.items() if barrier > 60
    }


def test_nothing_is_said_of_a_table_that_was_dropped(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    for last in (30, 20):
        new_table(tmp_path)
        writer = catalog.writer(NAME, "w")
        for barrier in range(10, last + INTERVAL, INTERVAL):
            writer.write({"id": [1], "a": [1]}, barrier=barrier, complete=True)
        catalog.topology().rebuild()
        assert list(by_barrier(catalog, NAME)) == list(range(10, last + INTERVAL, INTERVAL))
        assert len(rows_of(catalog, JOB_BARRIERS)) == last // INTERVAL
        catalog.drop_table(NAME)
    counts = catalog.topology().rebuild()
    assert (counts[BARRIERS], counts[JOB_BARRIERS], counts[JOBS]) == (0, 0, 0)


def test_a_revision_begins_other_barriers(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30)
    topology = chain.catalog.topology()
    topology.rebuild()
    first = by_barrier(chain.catalog, "d.y")
    assert list(first) == [10, 20, 30]
    chain.catalog.revise("d.y", to=20)
    assert chain.resumed("q", 2).run() == [30]
    topology.rebuild()
    again = by_barrier(chain.catalog, "d.y", 1)
    assert list(again) == [20, 30]
    assert again[30]["snapshot_id"] > first[30]["snapshot_id"]
    gone = by_barrier(chain.catalog, "d.y")
    assert [row["written_time_millis"] for row in gone.values()] == [
        row["written_time_millis"] for row in first.values()
    ]
    assert {row["snapshot_id"] for row in gone.values()} == {None}
    assert rows_of(chain.catalog, REVISIONS) == [
        {"revision": 1, "table_name": name, "barrier": 20, "state": "active"}
        for name in ("d.y", "d.z")
    ]
    assert list(by_barrier(chain.catalog, "d.x")) == [10, 20, 30]


def test_so_many_barriers_of_a_table_are_remembered() -> None:
    def row(table: str, barrier: int) -> BarrierRow:
        return BarrierRow(table, 0, barrier, True, barrier, 0, barrier, barrier, barrier, barrier)

    last = 10 * (MOST + 5)
    now = [row("a", barrier) for barrier in range(last - 50, last + 10, 10)]
    before = [row(table, barrier) for table in "ab" for barrier in range(10, last - 50, 10)]
    found = with_expired_barriers(now, before, {"a": Reach(0, last, is_whole=False)})
    assert {one.table_name for one in found} == {"a"}
    assert sorted(one.barrier for one in found) == list(range(last - 10 * MOST + 10, last + 10, 10))
    assert {one for one in found if one.snapshot_id is not None} == set(now)
