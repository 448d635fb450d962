"""Partition columns that data files lack: every reader takes their values from the partition of the manifest entry."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.bare_files import bare_copy
from tests.support.tables.fixture_tables import ROOT

OTHERS = ROOT / "wh_others/others.db"
APPEND = ["append_parts", "append_bucket_parts", "append_dv64_parts"]
VALUES: dict[pa.DataType, Any] = {
    pa.bool_(): True,
    pa.int8(): -5,
    pa.int64(): 1 << 40,
    pa.decimal128(30, 2): Decimal("-1.50"),
    pa.string(): "a long text of a partition",
    pa.date32(): dt.date(2024, 2, 29),
    pa.timestamp("ms"): dt.datetime(2024, 2, 29, 10, 30),
    pa.timestamp("us"): dt.datetime(2024, 2, 29, 10, 30, 0, 123456),
}


def bare(name: str, folder: Path) -> wt.Table:
    """A table of Paimon's Java whose data files lack the column p."""
    return without(OTHERS / name, folder / "others.db" / name)


def without(source: Path | str, path: Path, *names: str) -> wt.Table:
    bare_copy(Path(source), path, names or ["p"])
    return wt.Table.open(path)


def rows(table: wt.Table | Path, **how: Any) -> list[dict[str, Any]]:
    table = table if isinstance(table, wt.Table) else wt.Table.open(table)
    return sorted(table.scan(**how).to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("name", [*APPEND, "cross_deduplicate", "cross_first_row"])
def test_a_scan_has_the_values_of_the_partition(tmp_path: Path, name: str) -> None:
    table = bare(name, tmp_path)
    assert rows(table) == rows(OTHERS / name)
    assert rows(table, columns=["p"]) == rows(OTHERS / name, columns=["p"])
    assert table.scan(columns=["p"]).count() == len(rows(table))


@pytest.mark.parametrize("name", APPEND)
@pytest.mark.parametrize("condition", ["p = 1", "p <> 1", "p IS NULL", "p IS NOT NULL"])
def test_filters_by_partition_keep_its_rows(tmp_path: Path, name: str, condition: str) -> None:
    expected = rows(OTHERS / name, filter=condition)
    assert rows(bare(name, tmp_path), filter=condition) == expected
    assert expected or "IS NULL" in condition


@pytest.mark.parametrize("name", [*APPEND, "cross_deduplicate"])
def test_changes_have_the_values_of_the_partition(tmp_path: Path, name: str) -> None:
    original, table = wt.Table.open(OTHERS / name), bare(name, tmp_path)
    newest = table.snapshots()[-1].id
    assert table.changes(0, newest).equals(original.changes(0, newest))


def keyed(folder: Path, kind: pa.DataType, **options: str) -> wt.Table:
    schema = pa.schema([("p", kind), ("k", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
    options = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update", **options}
    return wt.Catalog(str(folder)).create_table(
        "db.t", schema, primary_key=["p", "k"], partition_by=["p"], options=options
    )


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_of_every_type_come_back_by_scan_lookup_and_compaction(
    tmp_path: Path, kind: pa.DataType
) -> None:
    table, value = keyed(tmp_path, kind), VALUES[kind]
    table.write([{"p": value, "k": 1, "v": "a"}, {"p": value, "k": 2, "v": "b"}])
    table.write([{"p": value, "k": 1, "w": 7}])
    table = without(table.path, tmp_path / "db.db/bare")
    expected = [
        {"p": value, "k": 1, "v": "a", "w": 7},
        {"p": value, "k": 2, "v": "b", "w": None},
    ]
    assert rows(table) == expected
    assert table.lookup([{"p": value, "k": 1}]).to_pylist() == expected[:1]
    assert table.audit().ok
    table.compact(full=True)
    assert rows(table) == expected
    table = without(table.path, tmp_path / "db.db/compacted")
    assert rows(table) == expected
    assert table.lookup([{"p": value, "k": 2}]).to_pylist() == expected[1:]


def test_a_column_that_is_no_partition_column_stays_absent(tmp_path: Path) -> None:
    table = keyed(tmp_path, pa.int64())
    table.write([{"p": 1, "k": 1, "v": "a", "w": 2}])
    assert rows(without(table.path, tmp_path / "db.db/bare", "p", "w")) == [
        {"p": 1, "k": 1, "v": "a", "w": None}
    ]
