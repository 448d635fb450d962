"""The Arrow tables of an inspection say what the files of the table say, whatever the table."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.support.tables.branched import create, opened, put
from tests.support.tables.fixture_tables import TABLES, FixtureTable
from widetable.commit.holds.read_lease import hold
from widetable.operations.handle.held_lease import held_lease
from widetable.operations.inspection import (
    inspected_barriers,
    inspected_files,
    inspected_holders,
    inspected_overlap,
    inspected_past,
)
from widetable.operations.inspection.inspected_names import NAMES, OF_A_SNAPSHOT

_MODULES = (
    inspected_barriers,
    inspected_files,
    inspected_holders,
    inspected_overlap,
    inspected_past,
)
DECLARED = {
    name: getattr(module, name.upper())
    for module in _MODULES
    for name in NAMES
    if hasattr(module, name.upper())
}


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_table_has_the_declared_columns(tmp_path: Path, name: str) -> None:
    table = create(tmp_path)
    found = table.inspect.frame(name)
    assert found.schema == DECLARED[name]
    assert getattr(table.inspect, name)() == found
    assert found.num_rows == {"schemas": 1, "options": found.num_rows}.get(name, 0)


@pytest.mark.parametrize("fixture", TABLES, ids=lambda table: table.id)
def test_tables_of_others_are_inspected(fixture: FixtureTable) -> None:
    table = wt.Table.open(fixture.path)
    frames = {name: table.inspect.frame(name) for name in NAMES}
    assert {name: frame.schema for name, frame in frames.items()} == DECLARED
    files = frames["files"]
    there = {str(path): path.stat().st_size for path in fixture.path.rglob("bucket-*/*")}
    for path, size in zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True):
        assert there[path] == size
    for name in ("partitions", "buckets"):
        for column in ("rows", "size_bytes"):
            assert sum(frames[name][column].to_pylist()) == sum(files[column].to_pylist())
        assert sum(frames[name]["files"].to_pylist()) == files.num_rows
    assert frames["snapshots"]["snapshot_id"].to_pylist() == [s.id for s in table.snapshots()]


@pytest.fixture
def days(tmp_path: Path) -> wt.Table:
    """Two partitions, two buckets, three commits; the second partition has one of them."""
    table = wt.Catalog(tmp_path).create_table(
        "db.days",
        {"day": "DATE", "k": "BIGINT", "s": "STRING"},
        primary_key=["day", "k", "s"],
        partition_by=["day"],
        options={"bucket": "2", "write-only": "true", "widetable.fsync": "false"},
    )
    first, second = dt.date(1970, 1, 2), dt.date(1970, 1, 3)
    for day, keys in ((first, range(10)), (first, range(5, 15)), (second, [1])):
        keys = list(keys)
        rows = {"day": [day] * len(keys), "k": keys, "s": ["x"] * len(keys)}
        table.write(pa.table(rows, schema=table.arrow_schema))
    return table


def test_files_are_those_on_the_disk(days: wt.Table) -> None:
    directories = {
        "day=1970-01-02": "day=1",
        "day=1970-01-03": "day=2",
    }  # shown as days, named by numbers
    rows = days.inspect.files().to_pylist()
    on_disk = {str(path) for path in Path(days.path).rglob("bucket-*/*")}
    assert {row["path"] for row in rows} == on_disk
    for row in rows:
        held = pq.read_table(row["path"], partitioning=None)
        keys = [key for key in held["k"].to_pylist()]
        assert row["rows"] == len(keys)
        assert (row["min_key"], row["max_key"]) == (
            f"k={min(keys)}, s='x'",
            f"k={max(keys)}, s='x'",
        )
        assert (row["level"], row["source"], row["deleted_rows"]) == (0, "append", 0)
        assert (
            row["path"]
            == f"{days.path}/{directories[row['partition']]}/bucket-{row['bucket']}/{row['file_name']}"
        )
    assert {row["partition"] for row in rows} == directories.keys()


def test_a_snapshot_or_tag_is_inspected_as_it_was(days: wt.Table) -> None:
    days.create_tag("first", 1)
    days.compact(full=True)
    first = days.inspect.files(snapshot_id=1)
    assert sum(first["rows"].to_pylist()) == 10
    for name in OF_A_SNAPSHOT:
        assert days.inspect.frame(name, snapshot_id=1) == days.inspect.frame(name, tag="first")
    assert sum(days.inspect.buckets()["rows"].to_pylist()) == 16
    with pytest.raises(wt.NotFoundError):
        days.inspect.buckets(snapshot_id=99)
    with pytest.raises(wt.InvalidError):
        days.inspect.files(snapshot_id=1, tag="first")
    with pytest.raises(wt.InvalidError, match="tags"):
        days.inspect.frame("tags", snapshot_id=1)


def test_partitions_and_buckets_add_up(days: wt.Table) -> None:
    first, second = days.inspect.partitions().to_pylist()
    assert (first["partition"], first["rows"], first["total_buckets"]) == ("day=1970-01-02", 20, 2)
    assert (second["partition"], second["rows"], second["buckets"]) == ("day=1970-01-03", 1, 1)
    for row in days.inspect.buckets().to_pylist():
        (level,) = row["levels"]
        assert level == {"level": 0, **{key: row[key] for key in ("files", "rows", "size_bytes")}}
        assert row["runs"] == row["level0_files"] == row["files"]
        assert (row["due_files"], row["due_bytes"]) == (0, 0)


def test_due_is_what_a_compaction_takes(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="1", **{"write-only": "true"})
    for number in range(4):
        put(table, {number: "x"})
    (before,) = table.inspect.buckets().to_pylist()
    assert (before["runs"], before["due_files"]) == (4, 4)
    assert before["due_bytes"] == before["size_bytes"]
    table.compact()
    (after,) = table.inspect.buckets().to_pylist()
    assert (after["runs"], after["due_files"], after["due_bytes"]) == (1, 0, 0)


def test_deleted_rows_are_those_of_the_deletion_vectors(tmp_path: Path) -> None:
    table = create(tmp_path, bucket="1", **{"deletion-vectors.enabled": "true"})
    put(table, dict.fromkeys(range(10), "a"))
    table.compact(full=True)
    put(table, dict.fromkeys(range(3), "b"))
    table.compact()
    files = table.inspect.files().to_pylist()
    alive = table.scan().to_arrow().num_rows
    assert alive == 10
    assert sum(file["rows"] - file["deleted_rows"] for file in files) == alive
    assert sum(file["deleted_rows"] for file in files) == 3
    (bucket,) = table.inspect.buckets().to_pylist()
    assert bucket["deleted_rows"] == 3


def test_manifests_count_the_files(days: wt.Table) -> None:
    rows = days.inspect.manifests().to_pylist()
    assert sum(row["added_files"] - row["deleted_files"] for row in rows) == len(
        days.inspect.files()
    )
    for row in rows:
        assert Path(days.path, "manifest", row["file_name"]).stat().st_size == row["size_bytes"]
    assert {row["list"] for row in rows} == {"base", "delta"}


def test_snapshots_schemas_and_options_say_what_their_files_say(days: wt.Table) -> None:
    days.alter_options({"snapshot.num-retained.max": "70"})
    for row in days.inspect.snapshots().to_pylist():
        file = json.loads(Path(days.path, "snapshot", f"snapshot-{row['snapshot_id']}").read_text())
        millis = round(row["time"].timestamp() * 1000)
        assert (millis, row["commit_user"]) == (file["timeMillis"], file["commitUser"])
        assert row["total_records"] == file["totalRecordCount"]
    schemas = days.inspect.schemas().to_pylist()
    assert [row["schema_id"] for row in schemas] == [0, 1]
    file = json.loads(Path(days.path, "schema", "schema-1").read_text())
    assert dict(schemas[1]["options"]) == file["options"]
    assert [c["name"] for c in schemas[1]["columns"]] == [f["name"] for f in file["fields"]]
    options = {row["key"]: row for row in days.inspect.options().to_pylist()}
    assert {key: row["value"] for key, row in options.items() if row["value"] is not None} == file[
        "options"
    ]
    assert options["snapshot.num-retained.max"]["value"] == "70"
    assert options["write-only"]["default"] == "false"


def test_tags_branches_and_consumers(tmp_path: Path) -> None:
    table = create(tmp_path)
    put(table, {1: "a"})
    table.create_tag("kept", time_retained_millis=60_000)
    table.create_tag("ever")
    table.create_branch("side", tag="ever")
    put(opened(table, "side"), {2: "b"})
    put(table, {3: "c"})
    list(table.follow(consumer_id="job", timeout=0))
    put(table, {4: "d"})
    ever, kept = table.inspect.tags().to_pylist()
    assert (ever["tag"], ever["expire_time"], kept["tag"]) == ("ever", None, "kept")
    assert kept["expire_time"] - kept["create_time"] == dt.timedelta(minutes=1)
    (side,) = table.inspect.branches().to_pylist()
    newest = opened(table, "side").snapshots()[-1]
    assert (side["branch"], side["snapshot_id"]) == ("side", newest.id)
    assert opened(table, "side").inspect.snapshots()["snapshot_id"].to_pylist()[-1] == newest.id
    (consumer,) = table.inspect.consumers().to_pylist()
    latest = table.snapshots()[-1].id
    assert consumer["next_snapshot_id"] + consumer["snapshots_behind"] == latest + 1
    assert consumer["snapshots_behind"] >= 1
    age = dt.datetime.now(dt.timezone.utc) - consumer["time"]
    assert dt.timedelta(-1) < age < dt.timedelta(1)


def test_leases_say_who_holds_what(days: wt.Table) -> None:
    state = days._state()
    reader = hold(state.file_io, state.paths, 2)
    with held_lease(state, "me "):
        rows = {row["kind"]: row for row in days.inspect.leases().to_pylist()}
    reader.release()
    assert rows.keys() == {"compaction", "read"}
    assert rows["compaction"]["owner"].startswith("me ")
    assert rows["compaction"]["state"] == "in force"
    assert (rows["read"]["snapshot_id"], rows["read"]["state"]) == (2, "in force")
    assert days.inspect.leases().num_rows == 0


def test_caches_are_those_of_live_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))
    table = create(tmp_path, **{"changelog-producer": "lookup"})
    put(table, dict.fromkeys(range(100), "a"))
    put(table, {1: "b"})
    files = {row["path"]: row["rows"] for row in table.inspect.files().to_pylist()}
    caches = table.inspect.caches().to_pylist()
    assert caches
    for cache in caches:
        assert files.get(cache["data_file"], cache["rows"]) == cache["rows"]
        assert Path(cache["path"]).is_dir()
        assert cache["size_bytes"] > 0


def test_numbers_that_no_arrow_table_holds_are_damage(days: wt.Table) -> None:
    path = Path(days.path, "snapshot", "snapshot-1")
    path.write_text(json.dumps({**json.loads(path.read_text()), "totalRecordCount": 2**70}))
    with pytest.raises(wt.DamagedError):
        wt.Table.open(days.path).inspect.snapshots()


def test_an_option_is_known_where_a_table_may_be_given_it(tmp_path: Path) -> None:
    known = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.default-aggregate-function": "max",
        "widetable.fsync": "false",
    }
    columns = {"k": "BIGINT", "v": "BIGINT"}
    table = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"], options=known)
    schema = Path(table.path, "schema/schema-0")
    text = schema.read_text().replace(
        '"options": {', '"options": {"of.others": "1", "index": "1", "index.v": "db.i", '
    )
    schema.write_text(text)
    rows = wt.Table.open(table.path).inspect.options().to_pylist()
    assert {row["key"] for row in rows if not row["is_known"]} == {"of.others", "index"}
