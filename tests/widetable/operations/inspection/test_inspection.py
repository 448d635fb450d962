"""An inspection shows what is there: of each fact one table that has it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.holds.read_lease import hold
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.operations.compaction.backlog import Backlog, ConsumerLag
from widetable.operations.handle.held_lease import held_lease

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys]}, SCHEMA)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., wt.Table]:
    def make_table(**options: str) -> wt.Table:
        options = {"bucket": "2", "widetable.fsync": "false", "write-only": "true", **options}
        return wt.Catalog(str(tmp_path)).create_table(
            "db.t", SCHEMA, primary_key=["k"], options=options
        )

    return make_table


def test_a_table_without_snapshots(make: Callable[..., wt.Table]) -> None:
    found = make().inspect()
    assert found.latest_snapshot_id is None
    assert found.levels == ()
    assert found.backlog == Backlog(0, 0, 0, 0, None)
    assert found.warnings == ()
    assert found.write_only
    assert found.buckets == 2


def test_files_by_level_and_what_waits(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(rows(*range(10)))
    table.compact(full=True)
    before = time.time()
    table.write(rows(1, 2, 3))
    table.write(rows(1))
    found = table.inspect()
    entries = table._committer.live_files.live_entries(table.snapshots()[-1])
    fresh = [entry for entry in entries if entry.file.level == 0]
    assert [(one.level, one.rows) for one in found.levels] == [(0, 4), (5, 10)]
    assert sum(one.files for one in found.levels) == len(entries)
    assert found.levels[0].bytes == sum(entry.file.file_size for entry in fresh)
    assert (found.backlog.files, found.backlog.rows) == (len(fresh), 4)
    assert found.backlog.most_in_a_bucket == 2
    assert found.backlog.oldest_age_millis is not None
    assert 0 <= found.backlog.oldest_age_millis <= (time.time() - before) * 1000 + 1000
    assert (found.last_compaction_id, found.commits_since_compaction) == (2, 2)
    assert found.last_compaction_time_millis == table.snapshots()[1].time_millis
    assert (found.earliest_snapshot_id, found.latest_snapshot_id) == (1, 4)
    assert (found.latest_kind, found.merge_engine) == ("APPEND", "deduplicate")


@pytest.mark.parametrize("zones", [("Asia/Tokyo", "America/Lima"), ("America/Lima", "Asia/Tokyo")])
def test_ages_do_not_depend_on_time_zones(
    make: Callable[..., wt.Table], monkeypatch: pytest.MonkeyPatch, zones: tuple[str, str]
) -> None:
    """Data files note local times of their writers."""
    table, before, ages = make(), time.time(), []
    try:
        for zone in zones:
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            table.write(rows(1))
            ages.append(table.inspect().backlog.oldest_age_millis)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert ages[0] is not None
    assert ages[1] is not None
    assert 0 <= ages[0] <= ages[1] <= (time.time() - before) * 1000 + 1


def test_files_that_a_compaction_left_wait_since_then_at_least(
    make: Callable[..., wt.Table],
) -> None:
    table = make(**{"num-sorted-run.compaction-trigger": "2"})
    for key in (0, 1, 2, 5):  # three of them are in one bucket
        table.write(rows(key))
    compacted = table.compact()
    assert compacted.committed
    found = table.inspect()
    assert found.last_compaction_id == compacted.snapshot_id
    assert (found.commits_since_compaction, found.backlog.files > 0) == (0, True)
    assert found.backlog.oldest_age_millis is not None


def test_who_reads_and_who_compacts(make: Callable[..., wt.Table]) -> None:
    table = make()
    for key in range(3):
        table.write(rows(key))
    state = table._state(table.schema)
    store = ConsumerStore(state.file_io, state.paths)
    store.record("late", 2)
    store.record("done", 4)
    table.create_tag("t", 1)
    lease = hold(state.file_io, state.paths, 3, 60_000)
    with held_lease(state, "somebody:"):
        found = table.inspect()
    assert found.lease_holder is not None
    assert found.lease_holder.startswith("somebody:")
    assert found.consumers == {"late": ConsumerLag(2, 2), "done": ConsumerLag(4, 0)}
    assert (found.tags, found.held_snapshot_ids) == (("t",), (3,))
    lease.release()
    after = table.inspect()
    assert (after.lease_holder, after.held_snapshot_ids) == (None, ())


def test_a_consumer_that_holds_much_or_missed_something_is_reported(
    make: Callable[..., wt.Table],
) -> None:
    table = make(**{"snapshot.num-retained.min": "1"})
    for key in range(12):
        table.write(rows(key))
    state = table._state(table.schema)
    store = ConsumerStore(state.file_io, state.paths)
    store.record("near", 3)
    store.record("far", 2)
    (reported,) = table.inspect().warnings
    assert "'far' is 11 snapshots behind" in reported
    store.delete("far")
    os.unlink(f"{table.path}/snapshot/snapshot-1")
    store.record("missed", 1)
    (reported,) = table.inspect().warnings
    assert "'missed' has not read snapshot 1" in reported


def test_a_long_backlog_of_one_bucket_is_reported(make: Callable[..., wt.Table]) -> None:
    table = make(**{"bucket": "1", "num-sorted-run.compaction-trigger": "2"})
    for key in range(10):
        table.write(rows(key))
    assert table.inspect().warnings == ()
    table.write(rows(0))
    (reported,) = table.inspect().warnings
    assert "11 level-0 files in one bucket" in reported
    assert "widetable maintain" in reported


def test_an_inspection_is_values_of_json(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(rows(1))
    body = json.loads(json.dumps(table.inspect().to_dict()))
    assert body["levels"][0]["files"] == 1
    assert body["backlog"]["rows"] == 1
