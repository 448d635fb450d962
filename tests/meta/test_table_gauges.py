"""Gauges of every table: each is what an inspection of the table says, and a table that is damaged hides no other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.stored_bytes import stored_bytes
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.operations.handle.held_lease import held_lease
from widetable_meta.table_gauges import TableGauges

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
WRITE_ONLY = {"write-only": "true", "widetable.fsync": "false"}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys]}, SCHEMA)


def make(catalog: wt.Catalog, name: str, **options: str) -> wt.Table:
    return catalog.create_table(name, SCHEMA, primary_key=["k"], options={**WRITE_ONLY, **options})


def values(catalog: wt.Catalog) -> dict[tuple[str, ...], float]:
    """By name of the gauge without its beginning, and its labels."""
    return {
        (sample.name.removeprefix("widetable_table_"), *sample.labels.values()): sample.value
        for family in TableGauges(catalog).collect()
        for sample in family.samples
    }


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(tmp_path)


def test_a_table_under_no_barriers_has_all_gauges(catalog: wt.Catalog) -> None:
    table = make(catalog, "db.t", **{"changelog-producer": "lookup"})
    for key in range(3):
        table.write(rows(key))
    ConsumerStore(table._file_io, table._paths).record("dashboard", 2)
    with held_lease(table._state()):
        found = values(catalog)
        state = table.inspect()
    assert found["readable", "db.t"] == 1
    assert found["snapshots", "db.t"] == 3
    assert found["level0_files", "db.t"] == state.backlog.files == 3
    assert found["commits_without_changelog", "db.t"] == state.commits_without_changelog == 3
    assert found["sorted_runs", "db.t"] == state.sorted_runs == 3
    assert found["consumer_lag_snapshots", "db.t", "dashboard"] == 2
    assert state.commit_millis is not None
    assert found["commit_duration_seconds", "db.t"] == state.commit_millis / 1000
    assert state.latest_time_millis is not None
    assert found["last_commit_seconds", "db.t"] == state.latest_time_millis / 1000
    assert found["snapshot_bytes", "db.t"] == sum(level.bytes for level in state.levels)
    assert 0 <= found["level0_age_seconds", "db.t"] < 600
    assert 0 <= found["maintainer_heartbeat_age_seconds", "db.t"] < 600


def test_what_a_table_has_not_has_no_sample(catalog: wt.Catalog) -> None:
    make(catalog, "db.empty")
    found = values(catalog)
    assert found["snapshots", "db.empty"] == found["level0_files", "db.empty"] == 0
    assert found["named_bytes", "db.empty"] == found["sorted_runs", "db.empty"] == 0
    without = ("last_commit_seconds", "commit_duration_seconds", "maintainer_heartbeat_age_seconds")
    assert not any((name, "db.empty") in found for name in without)


def test_named_bytes_are_those_of_the_files_that_are_there(catalog: wt.Catalog) -> None:
    table = make(catalog, "db.t", **{"changelog-producer": "lookup"})
    table.write(rows(1))
    table.create_tag("first")
    table.create_branch("b", tag="first")
    table.write(rows(2))
    table.compact(full=True)
    assert values(catalog)["named_bytes", "db.t"] == stored_bytes(table.path)


def test_a_damaged_table_hides_no_other(catalog: wt.Catalog) -> None:
    broken = make(catalog, "db.broken")
    broken.write(rows(1))
    make(catalog, "db.whole").write(rows(1))
    (Path(broken.path) / "snapshot/snapshot-1").write_text("{")
    found = values(catalog)
    assert (found["readable", "db.broken"], found["readable", "db.whole"]) == (0, 1)
    assert ("level0_files", "db.broken") not in found
    assert found["level0_files", "db.whole"] == 1
