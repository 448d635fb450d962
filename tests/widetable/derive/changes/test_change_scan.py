"""What a range of changes can be turned into: each form has the rows of `Table.changes`, in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.branched import create, put
from widetable.read.arrow_rows import ArrowRows
from widetable.read.change_read import StreamRead

MODES = pytest.mark.parametrize("mode", ["auto", "delta", "changelog", "diff"])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Two buckets; snapshots 1, 3 and 5 append, 2, 4 and 6 have the changelog."""
    made = create(tmp_path, **{"changelog-producer": "lookup"})
    put(made, dict.fromkeys(range(20), "a"))
    put(made, {3: "b", 20: "b"})
    put(made, {4: "c"})
    made.create_tag("first", 2)
    assert [one.commit_kind for one in made.snapshots()] == ["APPEND", "COMPACT"] * 3
    return made


@MODES
@pytest.mark.parametrize("columns", [None, ["v"]])
@pytest.mark.parametrize("span", [(0, 6), ("first", 6), (2, 2)])
def test_every_form_has_the_rows_of_changes(
    table: wt.Table, mode: str, columns: list[str] | None, span: tuple[Any, Any]
) -> None:
    rows = table.changes(*span, columns, mode=mode)
    scan = table.scan_changes(*span, columns, mode=mode)
    assert scan.arrow_schema == rows.schema
    assert scan.to_arrow() == pa.table(scan) == rows
    assert pa.Table.from_batches(scan, scan.arrow_schema) == rows
    assert scan.to_reader().read_all() == rows
    assert scan.count() == rows.num_rows
    assert scan.to_pandas().to_dict("list") == rows.to_pydict()
    assert scan.to_polars().rows() == [tuple(row.values()) for row in rows.to_pylist()]
    assert polars.DataFrame(scan).rows() == scan.to_polars().rows()
    relation = scan.to_duckdb()
    for _ in range(2):
        assert relation.aggregate("count(*)").fetchall() == [(rows.num_rows,)]
    with duckdb.connect() as connection:
        assert scan.to_duckdb(connection).fetchall() == scan.to_polars().rows()
    for most in (0, 1, 7, rows.num_rows + 1):
        assert scan.limit(most).to_arrow() == scan.head(most) == rows.slice(0, most)
        assert scan.limit(most).count() == scan.limit(9999).limit(most).count()
        assert scan.limit(most).count() == min(most, rows.num_rows)


def test_commits_come_along(table: wt.Table) -> None:
    scan = table.scan_changes(0, 6, commit_columns=True)
    assert scan.to_arrow() == table.changes(0, 6, commit_columns=True)
    assert scan.arrow_schema.names == ["k", "v", "_row_kind", "_snapshot_id", "_commit_time"]
    assert scan.count() == scan.to_arrow().num_rows


@MODES
def test_it_says_what_it_reads(table: wt.Table, mode: str) -> None:
    said = repr(table.scan_changes(2, 6, mode=mode))
    assert said.startswith("ChangeScan(")
    assert "3 columns" in said
    if mode == "diff":
        assert "difference of snapshots 2 and 6" in said
        return
    rows = table.changes(2, 6, mode=mode).num_rows
    assert f"after snapshot 2 up to 6, 3 columns, at most {rows} rows in " in said
    assert said.endswith(" buckets)")
    assert "at most 1 row" in repr(table.scan_changes(2, 6, mode=mode).limit(1))


def test_nothing_is_read_before_it_is_asked_for_nor_beyond(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    to_batches = StreamRead.to_batches

    def counted(one: StreamRead, **how: Any) -> Any:
        found.append(one.split.snapshot_id)
        return to_batches(one, **how)

    monkeypatch.setattr(StreamRead, "to_batches", counted)
    scan = table.scan_changes(0, 6)
    repr(scan)
    assert found == []
    assert scan.head(3).num_rows == 3
    assert found == [2]


def test_a_wrong_range_is_refused_at_once(table: wt.Table) -> None:
    wrong: list[tuple[type[Exception], tuple[Any, ...], dict[str, Any]]] = [
        (wt.NotFoundError, (0, 99), {}),
        (wt.InvalidError, (2, 1), {}),
        (wt.NotFoundError, ("no-tag", 6), {}),
        (wt.InvalidError, (0, 6), {"mode": "x"}),
        (wt.InvalidError, (0, 6), {"mode": "diff", "commit_columns": True}),
        (wt.NotFoundError, (0, 6), {"columns": ["x"]}),
    ]
    for kind, ends, how in wrong:
        with pytest.raises(kind) as of_changes:
            table.changes(*ends, **how)
        with pytest.raises(kind) as of_scan:
            table.scan_changes(*ends, **how)
        assert str(of_scan.value) == str(of_changes.value)
    with pytest.raises(wt.InvalidError, match="rows"):
        table.scan_changes(0, 6).limit(-1)


def test_scans_of_rows_and_of_changes_have_the_same_forms(table: wt.Table) -> None:
    forms = {name for name in dir(ArrowRows) if not name.startswith("_")}
    assert forms >= {"count", "head", "limit", "to_pandas", "to_polars", "to_duckdb", "to_batches"}
    for scan in (table.scan(), table.scan_changes(0, 6)):
        assert forms <= set(dir(scan))
        assert hasattr(scan, "__arrow_c_stream__")
        assert type(scan).__repr__ is not object.__repr__
