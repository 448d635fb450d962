"""Rows are deleted by condition and key, partitions as a whole; who follows the changes sees the deletes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.plain_rows import plain, python_rows, row_texts
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.operations.writes import delete
from widetable.schema.table_schema import TableSchema
from widetable.write.owned_columns import callers_columns
from widetable.write.table_writer import TableWriter

COLUMNS = {"p": "INT", "k": "BIGINT", "v": "BIGINT", "g": "BIGINT", "s": "STRING", "t": "BIGINT"}
REMOVES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "deduplicate by sequence": {"sequence.field": "g"},
    "deduplicate by descending sequence": {
        "sequence.field": "g",
        "sequence.field.sort-order": "descending",
    },
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    },
    "sequence group": {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        "partial-update.remove-record-on-sequence-group": "g",
    },
    "kinds in a column": {"rowkind.field": "s"},
}


def create(folder: Path | str, options: Mapping[str, str]) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        COLUMNS,
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "bucket": "2",
            "changelog-producer": "lookup",
            "widetable.fsync": "false",
            **options,
        },
    )


def rows(keys: range, p: int = 1) -> dict[str, list[Any]]:
    return {
        "p": [p] * len(keys),
        "k": list(keys),
        "v": [10 * k for k in keys],
        "g": [5] * len(keys),
        "s": ["+I"] * len(keys),
        "t": list(keys),
    }


def keys_of(table: wt.Table) -> list[tuple[int, int]]:
    found = table.scan(columns=["p", "k"]).to_arrow().to_pylist()
    return sorted((row["p"], row["k"]) for row in found)


def filled(folder: Path, options: Mapping[str, str]) -> wt.Table:
    table = create(folder, options)
    for p in (1, 2):
        table.write(rows(range(10), p))
    return table


@pytest.mark.parametrize("options", REMOVES.values(), ids=list(REMOVES))
def test_rows_go_by_a_condition(tmp_path: Path, options: dict[str, str]) -> None:
    table = filled(tmp_path, options)
    before = table.snapshots()[-1].id
    assert table.delete("v >= 70 AND p = 1", dry_run=True).rows == 3
    assert len(keys_of(table)) == 20
    assert table.delete("v >= 70 AND p = 1").rows == 3
    assert keys_of(table) == [(1, k) for k in range(7)] + [(2, k) for k in range(10)]
    changes = table.changes(before, table.snapshots()[-1].id).to_pylist()
    assert sorted((c["_row_kind"], c["k"], c["v"]) for c in changes) == [
        ("-D", k, 10 * k) for k in (7, 8, 9)
    ]
    table.compact(full=True)
    assert len(keys_of(table)) == 17
    assert not table.delete("k > 100").committed
    table.write(rows(range(8, 9)))
    assert (1, 8) in keys_of(table)
    assert table.audit().ok


@pytest.mark.parametrize("options", REMOVES.values(), ids=list(REMOVES))
def test_rows_go_by_their_keys(tmp_path: Path, options: dict[str, str]) -> None:
    table = filled(tmp_path, options)
    given = pa.table({"p": pa.array([1, 2, 1, 1], pa.int32()), "k": [3, 4, 3, 99]})
    assert table.delete_keys(given, dry_run=True).rows == 2
    assert table.delete_keys(given).rows == 2
    assert (1, 3) not in keys_of(table)
    assert (2, 4) not in keys_of(table)
    assert len(keys_of(table)) == 18
    assert not table.delete_keys(given).committed


def test_a_row_without_the_sequence_that_removes_is_not_deleted_in_part(tmp_path: Path) -> None:
    table = create(tmp_path, REMOVES["sequence group"])
    table.write([{"p": 1, "k": 1, "v": 1, "g": 5}])
    table.write([{"p": 1, "k": 2, "s": "only this"}])
    before = table.snapshots()[-1].id
    for dry_run in (True, False):
        with pytest.raises(wt.InvalidError, match=r"row k=2: found null in 'g'.*rewrite=True"):
            table.delete("true", dry_run=dry_run)
    assert table.snapshots()[-1].id == before
    assert table.delete("true", rewrite=True).rows == 2
    assert keys_of(table) == []


def test_dynamic_buckets(tmp_path: Path) -> None:
    table = filled(tmp_path, {"bucket": "-1", "dynamic-bucket.target-row-num": "3"})
    assert table.delete(pc.field("k") < 4).rows == 8
    assert table.delete_keys([{"p": 1, "k": 5}]).rows == 1
    assert len(keys_of(table)) == 11


def test_partitions_go_as_a_whole(tmp_path: Path) -> None:
    table = filled(tmp_path, {})
    assert table.drop_partitions([{"p": 2}, {"p": 7}]).committed
    assert {p for p, _ in keys_of(table)} == {1}
    assert not table.drop_partitions([{"p": 2}]).committed
    table.write(rows(range(2), 2))
    assert len(keys_of(table)) == 12
    assert table.audit().ok
    with pytest.raises(wt.InvalidError, match="'p'"):
        table.drop_partitions([{"k": 2}])


def test_a_repeated_delete_is_in_once(tmp_path: Path) -> None:
    table = filled(tmp_path, {})
    assert table.delete("k = 3", "job", 1).rows == 2
    table.write(rows(range(3, 4)))
    assert not table.delete("k = 3", "job", 1).committed
    assert (1, 3) in keys_of(table)


def test_a_row_that_was_written_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = filled(tmp_path, {}), wt.Table.open(tmp_path / "db.db/t")
    real = TableWriter.finish
    writes = iter([rows(range(3, 4)) | {"v": [0]}])

    def overtaken(writer: TableWriter) -> Any:
        found = real(writer)
        data = next(writes, None)
        if data is not None:
            other.write(data)
        return found

    monkeypatch.setattr(TableWriter, "finish", overtaken)
    table.delete("v = 30")
    assert (1, 3) in keys_of(table)
    assert (2, 3) not in keys_of(table)


# Options, and the words that say what would do.
REFUSED: list[tuple[dict[str, str], str]] = [
    (
        {"merge-engine": "partial-update"},
        "made with partial-update.remove-record-on-delete=true",
    ),
    (
        {"merge-engine": "partial-update", "fields.g.sequence-group": "v"},
        "made with partial-update.remove-record-on-sequence-group=g",
    ),
    ({"merge-engine": "aggregation"}, "made with aggregation.remove-record-on-delete=true"),
    ({"merge-engine": "first-row"}, "an engine in which a -D removes the row"),
    ({"ignore-delete": "true"}, "a table that takes deletes"),
]


@pytest.mark.parametrize(("options", "expected"), REFUSED, ids=str)
def test_a_table_in_which_deletes_remove_nothing(
    tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    table = create(tmp_path, options)
    table.write(rows(range(3)))
    with pytest.raises(wt.UnsupportedError, match=f"deletes: .*{expected}.*rewrite=True"):
        table.delete("k = 1")
    with pytest.raises(wt.UnsupportedError, match=f"deletes: .*{expected}.*rewrite=True"):
        table.delete_keys([{"p": 1, "k": 1}])
    assert len(keys_of(table)) == 3


def test_an_empty_table_and_wrong_arguments(tmp_path: Path) -> None:
    table = create(tmp_path, {})
    assert not table.delete("k = 1").committed
    assert not table.delete_keys([{"p": 1, "k": 1}]).committed
    table.write(rows(range(2)))
    with pytest.raises(wt.InvalidError):
        table.delete("nothing = 1")
    with pytest.raises(wt.InvalidError):
        table.delete_keys([{"k": 1}])
    assert len(table.snapshots()) == 2


def removes(options: Mapping[str, str]) -> bool:
    engine = options.get("merge-engine", "deduplicate")
    if options.get("ignore-delete") == "true":
        return False
    return engine == "deduplicate" or options.get(f"{engine}.remove-record-on-delete") == "true"


@settings(max_examples=max(5, settings().max_examples // 4))
@given(st.data())
def test_what_is_left_of_any_table_is_what_was_not_deleted(data: st.DataObject) -> None:
    specs = table_specs().filter(lambda spec: removes(spec.options))
    spec = data.draw(specs, "table")
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(1, 3), "commits")):
            table.write(data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys))))
        before = table.scan().to_arrow()
        chosen = [row for row in range(before.num_rows) if data.draw(st.booleans(), "deleted")]
        keys = before.select(list(spec.primary_key)).take(pa.array(chosen, pa.int64()))
        assert table.delete_keys(keys).rows == len(chosen)
        left = before.take(pa.array(sorted({*range(before.num_rows)} - {*chosen}), pa.int64()))
        expected = row_texts([plain(row) for row in python_rows(left)])
        assert row_texts([plain(row) for row in python_rows(table.scan().to_arrow())]) == expected
        table.compact(full=True)
        assert row_texts([plain(row) for row in python_rows(table.scan().to_arrow())]) == expected


def test_a_condition_that_is_not_there_deletes_nothing(tmp_path: Path) -> None:
    table = wt.Catalog(str(tmp_path)).create_table("db.none", {"k": "BIGINT"}, primary_key=["k"])
    with pytest.raises(wt.InvalidError, match="zz"):
        table.delete("zz = 1")  # also where there are no rows
    table.write({"k": [1, 2]})
    nothing: Any = None
    with pytest.raises(wt.InvalidError, match="None"):
        table.delete(nothing)
    assert table.scan().count() == 2


def test_a_delete_is_made_again_when_its_snapshot_expired_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"bucket": "1", "snapshot.num-retained.min": "1", "widetable.fsync": "false"}
    catalog = wt.Catalog(str(tmp_path))
    table = catalog.create_table(
        "db.slow", {"k": "BIGINT", "v": "BIGINT"}, primary_key=["k"], options=options
    )
    table.write({"k": [1, 2], "v": [1, 2]})
    as_deletes = delete._as_deletes

    def slow(batch: pa.RecordBatch, kind: str | None) -> pa.RecordBatch:
        monkeypatch.undo()
        for key in range(3):
            table.write({"k": [10 + key], "v": [0]})
        table.expire_snapshots(num_retained_max=1)
        return as_deletes(batch, kind)

    monkeypatch.setattr(delete, "_as_deletes", slow)
    assert table.delete("k = 1").rows == 1
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [2, 10, 11, 12]
    assert table.remove_orphan_files(older_than_millis=0, dry_run=True).paths == ()


def test_a_look_at_what_would_go_looks_again_when_its_snapshot_expired_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.slow",
        {"k": "BIGINT", "v": "BIGINT"},
        primary_key=["k"],
        options={"bucket": "1", "snapshot.num-retained.min": "1", "widetable.fsync": "false"},
    )
    table.write({"k": [1, 2], "v": [1, 2]})

    def slow(schema: TableSchema) -> frozenset[str]:
        monkeypatch.undo()
        table.write({"k": [10], "v": [0]})
        table.compact(full=True)
        table.expire_snapshots(num_retained_max=1)
        return callers_columns(schema)

    monkeypatch.setattr(delete, "callers_columns", slow)
    assert table.delete("k > 1", dry_run=True).rows == 2


# Found by a review: the columns are those of today, in the newest snapshot too, which may know others.

Alter = Mapping[str, Any]
ADDED: Alter = {"add_columns": {"n": "BIGINT"}}
RENAMED: Alter = {"rename_columns": {"v": "w"}}
DROPPED: Alter = {"drop_columns": ["v"]}
MADE_ANEW: Alter = {"add_columns": {"v": "BIGINT"}}
# What is altered, a condition, and the keys from 0 to 9 that it keeps, of rows with v = 10 * k before.
ALTERED: list[tuple[list[Alter], str, list[int]]] = [
    ([ADDED], "k = 1", [1]),
    ([ADDED], "n is null and k > 7", [8, 9]),
    ([ADDED], "n is not null", []),
    ([RENAMED], "w = 30", [3]),
    ([RENAMED, MADE_ANEW], "v is not null", []),
    ([RENAMED, MADE_ANEW], "v is null and w >= 80", [8, 9]),
    ([DROPPED], "k = 1", [1]),
    ([DROPPED, MADE_ANEW], "v is not null", []),
    ([DROPPED, MADE_ANEW], "v = 30", []),
    ([DROPPED, MADE_ANEW], "v is null and k < 2", [0, 1]),
]
KEEPS_COLUMNS = [name for name in REMOVES if name not in ("aggregation", "sequence group")]


@pytest.mark.parametrize("engine", KEEPS_COLUMNS)
@pytest.mark.parametrize(("steps", "condition", "gone"), ALTERED, ids=str)
def test_after_columns_were_altered_a_condition_means_those_of_today(
    tmp_path: Path, engine: str, steps: list[Alter], condition: str, gone: list[int]
) -> None:
    table = filled(tmp_path, REMOVES[engine])
    for step in steps:
        wt.Catalog(str(tmp_path)).alter_table("db.t", **step)
    left = [(p, k) for p in (1, 2) for k in range(10) if k not in gone]
    for opened in (table, wt.Table.open(table.path)):
        assert opened.delete(condition, dry_run=True).rows == 2 * len(gone)
    assert wt.Table.open(table.path).delete(condition).rows == 2 * len(gone)
    assert keys_of(wt.Table.open(table.path)) == left
    assert wt.Table.open(table.path).delete_keys([{"p": 1, "k": 5}, {"p": 1, "k": 77}]).rows == 1
    assert keys_of(wt.Table.open(table.path)) == [key for key in left if key != (1, 5)]


def test_what_is_not_there_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, tries = filled(tmp_path, {}), list[int]()

    def attempt(*given: Any) -> Any:
        tries.append(1)
        raise wt.NotFoundError("a file", found="no file", expected="one", action="Restore it.")

    monkeypatch.setattr(delete, "_attempt", attempt)
    with pytest.raises(wt.NotFoundError, match="a file"):
        table.delete("k = 1")
    assert len(tries) == 1
