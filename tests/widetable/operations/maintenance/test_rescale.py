"""Tables that get another number of buckets: rows, lookups, changes and rollbacks as before, whoever writes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import FaultyFileIO
from tests.support.models.random_table import live_files
from tests.support.tables.rescaled import Model, check, create, write
from widetable.cli.app import main
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.operations.maintenance import rescale
from widetable.operations.maintenance.partition_move import PartitionMove
from widetable.storage.local import LocalFileIO


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_rows_stay_and_buckets_change(tmp_path: Path, producer: str, partitioned: bool) -> None:
    rng, model = random.Random(5), dict[tuple[int, int], int]()
    table = create(tmp_path, partitioned, **{"changelog-producer": producer})
    remembered: dict[int, Model] = {}
    for buckets in (3, 1, 2):
        for _ in range(2):
            write(table, model, rng)
        check(table.path, model)
        remembered[table.snapshots()[-1].id] = dict(model)
        done = table.rescale(buckets)
        assert len(done) == (3 if partitioned else 1)
        check(table.path, model)
        assert table.rescale(buckets) == []
        assert {place.number for place in live_files(table.path)} <= set(range(buckets))
        write(table, model, rng)
        check(table.path, model)
    for id, then in remembered.items():
        assert {k: v for k, v in rows_at(table, id).items()} == then
    first = min(remembered)
    table.rollback(first)
    model = dict(remembered[first])
    check(table.path, model)
    write(table, model, rng)
    check(table.path, model)


def rows_at(table: wt.Table, snapshot_id: int) -> Model:
    found = table.scan(snapshot_id=snapshot_id).to_arrow()
    keys = zip(found["p"].to_pylist(), found["k"].to_pylist(), strict=True)
    return dict(zip(keys, found["v"].to_pylist(), strict=True))


def test_readers_of_a_lookup_changelog_see_no_change(tmp_path: Path) -> None:
    table = create(tmp_path, True, **{"changelog-producer": "lookup"})
    write(table, {}, random.Random(1))
    last = table.snapshots()[-1].id
    table.rescale(3)
    table.compact()
    assert table.changes(last, table.snapshots()[-1].id).num_rows == 0
    table.write({"p": [1], "k": [1], "v": [7]})
    table.write({"p": [1], "k": [1], "v": [8]})
    changed = table.changes(table.snapshots()[-1].id - 1, table.snapshots()[-1].id)
    assert changed["v"].to_pylist() == [7, 8]


def test_only_the_partitions_that_are_named(tmp_path: Path) -> None:
    table, model, rng = create(tmp_path), dict[tuple[int, int], int](), random.Random(10)
    write(table, model, rng)
    assert len(table.rescale(8, [{"p": 1}])) == 1
    assert table.rescale(8, [{"p": 1}]) == []
    for _ in range(3):
        write(table, model, rng)
    check(table.path, model)
    table.write({"p": [9] * 20, "k": list(range(20)), "v": [1] * 20})
    counts = {r["partition"]: r["total_buckets"] for r in table.inspect.buckets().to_pylist()}
    assert sorted(counts.values()) == [2, 2, 2, 8]
    with pytest.raises(wt.InvalidError, match="no partitions"):
        create(tmp_path / "other", partitioned=False).rescale(8, [{"p": 1}])


def test_some_partitions_change_no_schema_where_partitions_may_differ_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever is killed leaves the number of those to come as it was."""
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(10))
    table.rescale(8, [{"p": 1}])
    before = table.schema
    assert before.num_buckets == 2

    def killed(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rescale, "wait_for_compactions", killed)
    with pytest.raises(KeyboardInterrupt):
        table.rescale(5, [{"p": 2}])
    assert table.schema == before
    monkeypatch.undo()
    assert len(table.rescale(5, [{"p": 2}])) == 1
    assert table.schema == before
    check(table.path, model)


def test_partitions_keep_their_buckets_where_only_the_option_changed(tmp_path: Path) -> None:
    """As another client changes it: what was there keeps 2 buckets, new partitions get 4."""
    table, model, rng = create(tmp_path), dict[tuple[int, int], int](), random.Random(3)
    write(table, model, rng)
    schema = json.loads(Path(table.path, "schema/schema-0").read_text())
    schema |= {"id": 1, "options": {**schema["options"], "bucket": "4"}}
    Path(table.path, "schema/schema-1").write_text(json.dumps(schema))
    table = wt.Table.open(table.path)
    for _ in range(3):
        write(table, model, rng)
    check(table.path, model)
    table.write({"p": [9] * 20, "k": list(range(20)), "v": [1] * 20})
    counts = {place.partition: 0 for place in live_files(table.path)}
    for place in live_files(table.path):
        counts[place.partition] = max(counts[place.partition], place.number + 1)
    assert sorted(counts.values()) == [2, 2, 2, 4]
    table.rescale(4)
    table.drop_partitions([{"p": 9}])
    check(table.path, model)


def test_killed_in_the_middle_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(4))
    attempt, done = rescale._attempt, list[object]()

    def once(*given: Any, **named: Any) -> object:
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return attempt(*given, **named)

    monkeypatch.setattr(rescale, "_attempt", once)
    with pytest.raises(KeyboardInterrupt):
        table.rescale(3)
    monkeypatch.undo()
    check(table.path, model)
    assert len(table.rescale(3)) == 2
    check(table.path, model)


def test_the_newest_snapshot_may_expire_while_it_is_looked_at(tmp_path: Path) -> None:
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(7))

    def overtake() -> None:
        for _ in range(2):
            write(table, model, random.Random(8))
        assert table.expire_snapshots(1, 1, 0).ids

    files = FaultyFileIO(LocalFileIO(fsync=False))
    files.run_before("read", overtake, "manifest-list")
    MANIFEST_CACHE.clear()
    assert len(wt.Table.open(table.path, file_io=files).rescale(3)) == 3
    check(table.path, model)


def test_many_records_of_writers_of_different_columns(tmp_path: Path) -> None:
    """More than a write buffer keeps apart before it joins small batches."""
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.wide",
        {"k": "BIGINT", "a": "BIGINT", "b": "BIGINT"},
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "partial-update",
            "write-only": "true",
            "widetable.fsync": "false",
        },
    )
    for number in range(140):
        table.write({"k": [number % 5], "ab"[number % 2]: [number]})
    before = table.scan().to_arrow().sort_by("k")
    table.rescale(2)
    assert table.scan().to_arrow().sort_by("k").equals(before)
    table.compact(full=True)
    assert table.scan().to_arrow().sort_by("k").equals(before)


def test_dynamic_buckets_are_not_rescaled(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError, match="bucket"):
        create(tmp_path, bucket="-1").rescale(3)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(6))
    assert main(["rescale", table.path, "4"]) == 0
    assert capsys.readouterr().out == f"3 partitions of {len(model)} records now in 4 buckets\n"
    assert main(["rescale", table.path, "4"]) == 0
    assert capsys.readouterr().out == "0 partitions of 0 records now in 4 buckets\n"
    assert main(["rescale", table.path, "0"]) == 2
    check(table.path, model)


# Found by an attack


def test_a_column_that_is_added_meanwhile_keeps_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(tmp_path)
    table.write({"p": [1, 2], "k": [1, 1], "v": [1, 2]})
    follow = PartitionMove.follow

    def slow(*given: Any) -> Any:
        found = follow(*given)
        monkeypatch.undo()
        wt.Catalog(str(tmp_path)).alter_table("db.t", add_columns=[pa.field("n", pa.int64())])
        wt.Table.open(table.path).write({"p": [1, 2], "k": [1, 1], "v": [5, 6], "n": [76, 77]})
        return found

    monkeypatch.setattr(PartitionMove, "follow", slow)
    table.rescale(3)
    found = wt.Table.open(table.path).scan().to_arrow().to_pylist()
    assert found == [{"p": 1, "k": 1, "v": 5, "n": 76}, {"p": 2, "k": 1, "v": 6, "n": 77}]


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_large_partitions_are_not_emitted_again(
    tmp_path: Path, producer: str, vectors: str
) -> None:
    if vectors == "true" and producer == "full-compaction":
        return
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.large",
        {"k": "BIGINT", "v": "STRING"},
        primary_key=["k"],
        options={
            "bucket": "4",
            "write-buffer-size": "64 kb",
            "changelog-producer": producer,
            "deletion-vectors.enabled": vectors,
            "widetable.fsync": "false",
        },
    )
    keys = list(range(4000))
    table.write({"k": keys, "v": [str(key) * 40 for key in keys]})
    table.compact(full=True)
    last = table.snapshots()[-1].id
    table.rescale(1)
    (files,) = live_files(table.path).values()
    assert all(file.level > 0 for file in files)
    assert table.scan().count() == 4000
    table.write({"k": [9999], "v": ["x"]})
    table.compact(full=True)
    assert table.changes(last, table.snapshots()[-1].id)["k"].to_pylist() == [9999]
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def test_merged_rows_are_inserts_whatever_their_column_of_kinds_says(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.kinds",
        {"k": "BIGINT", "v": "BIGINT", "op": "STRING"},
        primary_key=["k"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.op.aggregate-function": "last_value",
            "rowkind.field": "op",
        },
    )
    table.write({"k": [1, 2], "v": [10, 20], "op": ["+I", "+I"]})
    table.write({"k": [1], "v": [3], "op": ["-U"]})
    before = table.scan().to_arrow().to_pylist()
    table.rescale(3)
    found = table.scan().to_arrow().to_pylist()
    assert sorted(found, key=str) == sorted(before, key=str)


# Found by a review


def test_of_two_rescalings_the_later_one_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(7))
    attempt, calls = rescale._attempt, list[object]()

    def second(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            assert len(wt.Table.open(table.path).rescale(8)) == 3
        return attempt(*given, **named)

    monkeypatch.setattr(rescale, "_attempt", second)
    with pytest.raises(wt.ConflictError, match="another rescaling, to 8 buckets"):
        table.rescale(4)
    monkeypatch.undo()
    assert wt.Table.open(table.path).rescale(8) == []
    check(table.path, model)


def test_a_partition_that_went_meanwhile_is_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = create(tmp_path), dict[tuple[int, int], int]()
    write(table, model, random.Random(8))
    due = rescale._due

    def dropping(*given: Any) -> Any:
        found = due(*given)
        monkeypatch.undo()
        table.drop_partitions([{"p": 1}])
        return found

    monkeypatch.setattr(rescale, "_due", dropping)
    done = table.rescale(4)
    assert [result.committed for result in done] == [True, True]
    check(table.path, {key: value for key, value in model.items() if key[0] != 1})
