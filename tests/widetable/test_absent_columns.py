"""A column that nobody wrote is in no file, whatever makes files, and rows and changes are as if it were there.

Expected rows are dictionaries that the tests keep themselves. Files are read by pyarrow alone.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.support.models.model import Record
from tests.support.tables.bucket import row_batch
from tests.support.tables.table_files import TableFiles
from widetable.format import data_file_writer
from widetable.format.bucket_id import BucketId
from widetable.format.parquet_layout import ROW_GROUP_BYTES, row_group_bytes
from widetable.schema.new_schema import new_schema
from widetable.write.rolling_writer import RollingWriter

ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]
DECLARED = [f"c{i}" for i in range(30)]


def create(
    folder: Path,
    columns: Sequence[str] = DECLARED,
    options: Mapping[str, str] | None = None,
) -> wt.Table:
    fields = [pa.field("k", pa.int64(), nullable=False), pa.field("r", pa.int64(), nullable=False)]
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([*fields, *(pa.field(name, pa.int64()) for name in columns)]),
        primary_key=["k"],
        options={"bucket": "1", "widetable.fsync": "false", **(options or {})},
    )


def write(table: wt.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """One commit of the columns that the first row has, and of `r`, which is NOT NULL."""
    table.write(pa.Table.from_pylist([{"r": row["k"], **row} for row in rows]))


def columns_of_files(folder: Path, prefix: str = "") -> dict[str, set[str]]:
    """By name of the file, without system columns."""
    return {
        path.name: {name for name in pq.read_schema(path).names if name[0] != "_"}
        for path in folder.rglob(f"{prefix}*.parquet")
    }


def rows_of(table: wt.Table, **choice: Any) -> dict[int, dict[str, Any]]:
    """By key, without columns that are null."""
    found = table.scan(**choice).to_arrow().to_pylist()
    return {row["k"]: {n: v for n, v in row.items() if v is not None} for row in found}


PRODUCERS = {
    "deduplicate": ("none", "lookup", "full-compaction", "input"),
    "partial-update": ("none", "lookup", "full-compaction", "input"),
    "aggregation": ("none", "lookup", "full-compaction"),
    "first-row": ("none", "lookup"),
}


@pytest.mark.parametrize("vectors", [False, True], ids=["merged", "vectors"])
@pytest.mark.parametrize(
    ("engine", "producer"), [(engine, each) for engine in ENGINES for each in PRODUCERS[engine]]
)
def test_files_have_no_column_that_nobody_wrote(
    engine: str, producer: str, vectors: bool, tmp_path: Path
) -> None:
    if vectors and (engine == "first-row" or producer == "full-compaction"):
        pytest.skip("Paimon refuses deletion vectors there")
    options = {"merge-engine": engine, "changelog-producer": producer}
    if vectors:
        options["deletion-vectors.enabled"] = "true"
    table = create(tmp_path, options=options)
    for number, columns in enumerate((["c3", "c4"], ["c4", "c9"], ["c3", "c4"], ["c9"])):
        write(table, [{"k": k, **dict.fromkeys(columns, number)} for k in range(number, 9)])
    table.compact()
    table.compact(full=True)
    files = columns_of_files(tmp_path)
    assert all({"k", "r"} <= held <= {"k", "r", "c3", "c4", "c9"} for held in files.values()), files
    expected = {"k": 8, "r": 8}
    expected |= {
        "deduplicate": {"c9": 3},
        "first-row": {"c3": 0, "c4": 0},
    }.get(engine, {"c3": 2, "c4": 2, "c9": 3})
    assert rows_of(table)[8] == expected
    assert table.lookup([8], columns=["c9", "c20", "c3"]).to_pylist() == [
        {"c9": expected.get("c9"), "c20": None, "c3": expected.get("c3")}
    ]


def test_a_compacted_file_is_as_large_as_if_no_other_column_were_declared(tmp_path: Path) -> None:
    shapes = []
    for declared in (20, 2000):
        names = [f"c{i}" for i in range(declared)]
        folder = tmp_path / str(declared)
        table = create(folder, names, {"merge-engine": "partial-update", "write-only": "true"})
        for commit in range(3):
            rows = [{"k": k, **{name: commit * k for name in names[:10]}} for k in range(5000)]
            write(table, rows)
        table.compact(full=True)
        path = max(folder.rglob("data-*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        found = pq.read_metadata(path)
        shapes.append((found.num_row_groups, found.num_columns, found.num_rows))
    assert shapes == [(1, 2 + 2 + 10, 5000)] * 2


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_old_readers_get_every_column_in_every_file(producer: str, tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "changelog-producer": producer}
    table = create(tmp_path, options={**options, "widetable.level0-columns": "all"})
    for number in range(3):
        write(table, [{"k": k, "c1": number} for k in range(5)])
    table.compact(full=True)
    assert all(held == {"k", "r", *DECLARED} for held in columns_of_files(tmp_path).values())


def test_a_column_of_the_last_key_range_alone_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged a few rows at a time: the file is begun before the rows with the column come."""
    options = {"merge-engine": "partial-update", "write-only": "true", "write-buffer-size": "1kb"}
    monkeypatch.setattr("widetable.lsm.compaction.MIN_BYTES", 100)
    table = create(tmp_path, options=options)
    write(table, [{"k": k, "c1": k} for k in range(100)])
    write(table, [{"k": k, "c2": k} for k in range(90, 100)])
    table.compact(full=True)
    rows = rows_of(table)
    assert rows[0] == {"k": 0, "r": 0, "c1": 0}
    assert rows[95] == {"k": 95, "r": 95, "c1": 95, "c2": 95}


def test_changes_have_what_was_looked_up_below(tmp_path: Path) -> None:
    """c1 is in the bottom file alone, which is not rewritten: its values come before and after each change."""
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    table = create(tmp_path, options=options)
    write(table, [{"k": k, "c1": 10 * k} for k in range(50)])
    table.compact(full=True)
    write(table, [{"k": 7, "c2": 1}])
    last = table.snapshots()[-1].id
    changed = table.changes(last - 1, last, columns=["k", "c1", "c2", "c5"]).to_pylist()
    assert changed == [
        {"k": 7, "c1": 70, "c2": None, "c5": None, "_row_kind": "-U"},
        {"k": 7, "c1": 70, "c2": 1, "c5": None, "_row_kind": "+U"},
    ]
    files = columns_of_files(tmp_path, "changelog")
    assert set().union(*files.values()) == {"k", "r", "c1", "c2"}


def test_updates_that_change_nothing_are_found_although_columns_are_absent(tmp_path: Path) -> None:
    options = {
        "merge-engine": "partial-update",
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
    }
    table = create(tmp_path, options=options)
    write(table, [{"k": 1, "c1": 5}, {"k": 2, "c1": 5}])
    first = table.snapshots()[-1].id
    write(table, [{"k": 1, "c1": 5}])
    write(table, [{"k": 2, "c2": 6}])
    changed = table.changes(first, table.snapshots()[-1].id, columns=["k", "c2"]).to_pylist()
    assert [(row["k"], row["c2"], row["_row_kind"]) for row in changed] == [
        (2, None, "-U"),
        (2, 6, "+U"),
    ]


@pytest.mark.parametrize("full", [False, True], ids=["", "full"])
def test_columns_that_are_added_renamed_dropped_and_widened(full: bool, tmp_path: Path) -> None:
    """Files name columns by their own schema: a new column of an old name gets no old value."""
    folder = tmp_path / "w"
    catalog = wt.Catalog(str(folder))
    fields = [pa.field("k", pa.int64(), False), pa.field("r", pa.int64(), False)]
    fields += [pa.field(name, pa.int32()) for name in ("a", "b", "c", "d")]
    options = {"merge-engine": "partial-update", "write-only": "true", "bucket": "1"}
    catalog.create_table("db.t", pa.schema(fields), primary_key=["k"], options=options)
    write(catalog.table("db.t"), [{"k": 1, "a": 1, "b": 2, "d": 4}])
    catalog.table("db.t").compact(full=full)
    catalog.alter_table("db.t", drop_columns=["a"], rename_columns={"b": "e"})
    catalog.alter_table("db.t", add_columns={"a": "INT", "f": "INT"}, change_types={"d": "BIGINT"})
    write(catalog.table("db.t"), [{"k": 2, "e": 5}])
    write(catalog.table("db.t"), [{"k": 3, "f": 6}])
    table = catalog.table("db.t")
    expected = {
        1: {"k": 1, "r": 1, "e": 2, "d": 4},
        2: {"k": 2, "r": 2, "e": 5},
        3: {"k": 3, "r": 3, "f": 6},
    }
    assert rows_of(table) == expected
    table.compact(full=True)
    assert rows_of(table) == expected
    newest = max(folder.rglob("data-*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert columns_of_files(folder)[newest.name] == {"k", "r", "e", "d", "f"}


@pytest.mark.parametrize("function", ["last_value", "first_value", "sum", "first_non_null_value"])
def test_functions_see_an_absent_column_as_null(
    function: str, rng: random.Random, tmp_path: Path
) -> None:
    """The same commits, compacted at other times: a null that counts may be one of a file without the column."""
    names = ["a", "b"]
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": function}
    tables = [
        create(tmp_path / how, [*names, "unused"], {"write-only": "true", **options})
        for how in ("never", "each", "some")
    ]
    must = ["a"] if function.endswith("t_value") and function != "first_non_null_value" else []
    for number in range(6):
        columns = must or rng.sample(names, 1)
        rows = [
            {"k": k, **{name: rng.choice([None, number]) for name in columns}}
            for k in rng.sample(range(12), 6)
        ]
        data = pa.Table.from_pylist(
            [{"r": row["k"], **row} for row in rows],
            pa.schema([("r", pa.int64()), ("k", pa.int64()), *((c, pa.int64()) for c in columns)]),
        )
        for at, table in enumerate(tables):
            table.write(data)
            if at == 1 or (at == 2 and rng.random() < 0.4):
                table.compact(full=rng.random() < 0.5)
    first = rows_of(tables[0])
    assert all(rows_of(table) == first for table in tables[1:])
    assert all("unused" not in held for held in columns_of_files(tmp_path).values())


def test_rows_do_not_grow_too_old_by_a_column_that_is_absent(tmp_path: Path) -> None:
    options = {
        "merge-engine": "partial-update",
        "record-level.expire-time": "1 d",
        "record-level.time-field": "c1",
    }
    table = create(tmp_path, options=options)
    write(table, [{"k": 1, "c2": 1}])
    table.compact(full=True)
    assert rows_of(table) == {1: {"k": 1, "r": 1, "c2": 1}}
    old = int((dt.datetime.now() - dt.timedelta(days=3)).timestamp())
    write(table, [{"k": 1, "c1": old}, {"k": 2, "c1": None}])
    table.compact(full=True)
    assert rows_of(table) == {2: {"k": 2, "r": 2}}


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_rows_that_move_to_other_buckets_get_no_columns(producer: str, tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "changelog-producer": producer}
    table = create(tmp_path, options=options)
    write(table, [{"k": k, "c1": k} for k in range(40)])
    table.compact(full=True)
    write(table, [{"k": k, "c2": k} for k in range(20)])
    before = rows_of(table)
    table.rescale(3)
    assert rows_of(table) == before
    assert set().union(*columns_of_files(tmp_path).values()) == {"k", "r", "c1", "c2"}


def test_a_file_ends_with_the_chunks_that_it_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six columns, so six chunks for each ten rows: a seventh group would make more than forty."""
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(data_file_writer, "MAX_COLUMN_CHUNKS", 40)
    schema = new_schema(
        pa.schema([("k", pa.int64()), *((name, pa.int64()) for name in DECLARED)]),
        primary_key=["k"],
        options={"bucket": "1"},
    )
    files = TableFiles(tmp_path, schema)
    bucket, columns = BucketId(bytes(12), 0), ["k", "c0", "c1", "c2"]
    (tmp_path / "bucket-0").mkdir()
    writer = RollingWriter(files.state, bucket, columns, level=0, file_source=0)
    for first in range(0, 200, 10):
        records: list[Record] = [
            ("+I", {"k": k, "c0": k, "c1": k, "c2": 2}) for k in range(first, first + 10)
        ]
        writer.write(row_batch(files.schema, records, columns, first))
    metas = writer.finish()
    found = [pq.read_metadata(tmp_path / "bucket-0" / meta.file_name) for meta in metas]
    assert [file.num_row_groups for file in found] == [6, 6, 6, 2]
    assert [file.num_columns for file in found] == [6] * 4


def test_many_windows_of_a_merge_fill_one_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"merge-engine": "partial-update", "write-only": "true", "write-buffer-size": "64kb"}
    table = create(tmp_path, options=options)
    for commit in range(3):
        write(table, [{"k": k, "c1": commit, "c2": k} for k in range(20_000)])
    table.compact(full=True)
    newest = max(tmp_path.rglob("data-*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert pq.read_metadata(newest).num_row_groups == 1


def test_a_group_of_many_columns_is_larger_as_far_as_the_budget_allows() -> None:
    assert row_group_bytes(13, 256 << 20) == ROW_GROUP_BYTES == 16 << 20
    assert row_group_bytes(3000, 512 << 20) == 3000 * 8192
    assert row_group_bytes(5000, 512 << 20) == 32 << 20
    assert row_group_bytes(5000, 256 << 20) == ROW_GROUP_BYTES
