"""Columns of a scan that some data file holds, by the ids of the schemas that the files were written with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.read.held_columns import FILE_FIELDS, FileFields, held_columns
from widetable.read.predicate import Predicate


def _table(root: Path) -> wt.Table:
    fields = [pa.field("k", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)]
    fields += [pa.field(name, pa.int64()) for name in "abcd"]
    return wt.Catalog(str(root)).create_table(
        "db.t",
        pa.schema(fields),
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "partial-update", "write-only": "true"},
    )


def _held(table: wt.Table, **scan: object) -> set[str]:
    return set(held_columns(table.scan(**scan).split_reads()))  # type: ignore[arg-type]


def test_the_columns_of_all_files_count(tmp_path: Path) -> None:
    table = _table(tmp_path)
    assert _held(table) == set()
    table.write([{"k": 1, "n": 1, "a": 1}])
    assert _held(table) == {"k", "n", "a"}
    table.write([{"k": 1, "n": 1, "c": None}])
    assert _held(table) == {"k", "n", "a", "c"}
    assert _held(table, snapshot_id=1) == {"k", "n", "a"}


def test_of_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write([{"k": 1, "n": 1, "a": 1}])
    assert _held(table, columns=["b", "a"]) == {"a"}
    assert _held(table, columns=["b"], filter="a = 1") == set()


def test_a_column_goes_by_its_id(tmp_path: Path) -> None:
    table, catalog = _table(tmp_path), wt.Catalog(str(tmp_path))
    table.write([{"k": 1, "n": 1, "a": 1, "b": 1}])
    catalog.alter_table("db.t", rename_columns={"a": "z"})
    catalog.alter_table("db.t", drop_columns=["b"])
    table = catalog.alter_table("db.t", add_columns={"b": pa.int64(), "a": pa.int64()})
    assert _held(table) == {"k", "n", "z"}
    assert _held(table, snapshot_id=1) == {"k", "n", "a", "b"}


def test_a_file_that_is_missing_is_told_as_a_scan_tells_it(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write([{"k": 1, "n": 1, "a": 1}])
    reads = table.scan().split_reads()
    next(Path(table.path).glob("bucket-0/*.parquet")).unlink()
    with pytest.raises(wt.DamagedError, match="snapshot 1"):
        held_columns(reads)


def test_a_footer_is_read_once(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write([{"k": 1, "n": 1, "a": 1}])
    reads = table.scan().split_reads()
    before = held_columns(reads)
    next(Path(table.path).glob("bucket-0/*.parquet")).unlink()
    assert held_columns(reads) == before


def test_what_is_kept_of_footers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widetable.read.held_columns._MAX_BYTES", 10_000)
    kept = FileFields()
    for number in range(1000):
        kept.keep(f"file {number}", 1 << 800)
    found = [number for number in range(1000) if kept.get(f"file {number}") is not None]
    assert found == list(range(980, 1000)), "the newest 20 of 500 bytes each"
    assert FILE_FIELDS is not kept


def test_a_filter_takes_rows_of_held_columns_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking rows of thousands of columns of nulls costs thousands of times as much."""
    table = _table(tmp_path)
    table.write([{"k": k, "n": k, "a": k} for k in range(3)])
    table.write([{"k": 1, "n": 1, "c": 7}])
    filtered, rows_of = [], Predicate.rows_of

    def spied(predicate: Predicate, rows: pa.RecordBatch) -> pa.RecordBatch:
        filtered.append(set(rows.schema.names) - {"_SEQUENCE_NUMBER", "_VALUE_KIND"})
        return rows_of(predicate, rows)

    monkeypatch.setattr(Predicate, "rows_of", spied)
    rows = table.scan(filter="a > 0 AND d IS NULL").to_arrow()
    assert rows.sort_by("k").to_pylist() == [
        {"k": 1, "n": 1, "a": 1, "b": None, "c": 7, "d": None},
        {"k": 2, "n": 2, "a": 2, "b": None, "c": None, "d": None},
    ]
    assert filtered == [{"k", "n", "a", "c", "d"}]
