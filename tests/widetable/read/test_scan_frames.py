"""What a scan can be turned into: each form has the rows of `to_arrow`, and reads no more than it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.random_table import data_of, make, stamped_commits, table_specs
from widetable.format.printed_value import printed_rows
from widetable.read import scan as scan_module
from widetable.read.split import SplitRead

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("s", pa.string())])


def texts(rows: pa.Table) -> list[str]:
    return [json.dumps(row) for row in printed_rows(rows)]


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Keys 0 to 99, in two buckets of one level; 7 is deleted above it, and 8 is new."""
    options = {"bucket": "2", "write-only": "true"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=options
    )
    made.write(pa.table([range(100), range(100), map(str, range(100))], schema=SCHEMA))
    made.compact(full=True)
    rows = pa.table([[7, 8], [None, 80], ["x", "y"]], schema=SCHEMA)
    made.write(rows.append_column("_row_kind", pa.array(["-D", "+I"])))
    return made


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.data())
def test_every_form_has_the_rows_of_the_scan(data: st.DataObject) -> None:
    spec = data.draw(table_specs(), "table")
    with TemporaryDirectory() as folder:
        table = make(folder, spec)
        for _ in range(data.draw(st.integers(0, 3), "commits")):
            table.write(data_of(spec.schema, data.draw(stamped_commits(spec.schema, spec.keys))))
            if data.draw(st.booleans(), "compact"):
                table.compact(full=True)
        columns = data.draw(st.none() | st.lists(st.sampled_from(spec.schema.names), unique=True))
        name = data.draw(st.none() | st.sampled_from(spec.schema.names), "filter")
        condition = None if name is None else f"`{name}` IS NOT NULL"
        scan = table.scan(columns, condition)
        rows = scan.to_arrow()
        assert scan.count() == rows.num_rows
        assert texts(pa.table(scan)) == texts(rows)
        assert pa.table(scan).schema == scan.arrow_schema
        assert [batch.schema for batch in scan] == [scan.arrow_schema] * len(list(scan))
        most = data.draw(st.integers(0, rows.num_rows + 1), "limit")
        some = scan.limit(most)
        assert texts(some.to_arrow()) == texts(rows.slice(0, most))
        assert texts(scan.head(most)) == texts(rows.slice(0, most))
        assert some.count() == min(most, rows.num_rows)
        assert sum(batch.num_rows for batch in some) == min(most, rows.num_rows)


def test_frames_of_other_libraries(table: wt.Table) -> None:
    scan = table.scan()
    rows = scan.to_arrow()
    assert scan.to_pandas(types_mapper=None).to_dict("list")["k"] == rows["k"].to_pylist()
    assert scan.to_polars().rows() == [tuple(row.values()) for row in rows.to_pylist()]
    assert polars.DataFrame(scan).rows() == scan.to_polars().rows()
    relation = scan.to_duckdb()
    for _ in range(2):
        assert relation.aggregate("count(*), sum(v)").fetchall() == [
            (99, sum(rows["v"].to_pylist()))
        ]
    with duckdb.connect() as connection:
        assert connection.sql("select s from scan where k = 8").fetchall() == [("y",)]
        assert scan.to_duckdb(connection).filter("k = 7").fetchall() == []


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_a_library_that_is_missing_is_named(
    table: wt.Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(wt.UnsupportedError, match=f"pip install {name}"):
        getattr(table.scan(), f"to_{name}")()


@pytest.mark.parametrize("rows", [-1, 1.5, True, "5", None])
def test_a_wrong_limit_is_refused(table: wt.Table, rows: Any) -> None:
    with pytest.raises(wt.InvalidError, match="rows"):
        table.scan().limit(rows)
    with pytest.raises(wt.InvalidError, match="rows"):
        table.scan().head(rows)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The buckets that have been read, from now on."""
    found: list[int] = []
    to_batches = SplitRead.to_batches

    def counted(one: SplitRead, **how: Any) -> Any:
        found.append(one.split.bucket.number)
        return to_batches(one, **how)

    monkeypatch.setattr(SplitRead, "to_batches", counted)
    return found


def test_a_count_reads_only_what_has_to_be_merged(table: wt.Table, read: list[int]) -> None:
    merged = {split.bucket.number for split in table.scan().splits() if split.needs_merge}
    assert table.scan().count() == 99
    assert set(read) == merged
    table.compact(full=True)
    read.clear()
    assert table.scan().count() == 99
    assert table.scan(snapshot_id=2).count() == 100
    assert read == []
    assert table.scan(filter="v > 50").count() == 50
    assert read


def test_a_limit_reads_no_further(table: wt.Table, read: list[int]) -> None:
    assert table.scan().head(3).num_rows == 3
    assert table.scan().head(0).num_rows == 0
    assert len(read) == 1


def test_no_columns_are_no_relation_of_duckdb(table: wt.Table) -> None:
    with pytest.raises(wt.UnsupportedError, match="no columns"):
        table.scan([]).to_duckdb()


def test_a_limit_of_a_limit_is_the_smaller_one(table: wt.Table) -> None:
    assert table.scan().limit(3).head().num_rows == 3
    assert table.scan().limit(3).limit(7).count() == 3
    assert table.scan().limit(7).limit(3).count() == 3


def test_a_connection_that_is_none_is_refused(table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError, match="connection"):
        table.scan().to_duckdb("x")


def test_a_scan_says_what_it_will_read(table: wt.Table, tmp_path: Path) -> None:
    files = sum(len(split.files) for split in table.scan().splits())
    text = f"in {files} files of 2 buckets)"
    assert repr(table.scan()) == f"TableScan(snapshot 3, 3 columns, at most 102 rows {text}"
    assert (
        repr(table.scan(["k"]).limit(5)) == f"TableScan(snapshot 3, 1 column, at most 5 rows {text}"
    )
    empty = wt.Catalog(str(tmp_path)).create_table(
        "db.e", SCHEMA, primary_key=["k"], options={"bucket": "1"}
    )
    assert "no snapshot" in repr(empty.scan())
    scan = table.scan()
    for manifest in (Path(table.path) / "manifest").iterdir():
        manifest.unlink()
    assert "TableScan(snapshot 3, " in repr(wt.Table.open(table.path).scan())
    assert repr(scan)


def test_databases_are_listed(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    assert catalog.list_databases() == []
    for name in ("b.t", "a.t", "a.u"):
        catalog.create_table(name, SCHEMA, primary_key=["k"], options={"bucket": "1"})
    (tmp_path / "file.db").write_text("no database")
    for name in (".db", os.fsdecode(b"\xff.db")):
        (tmp_path / name).mkdir()
    assert catalog.list_databases() == ["a", "b"]


def test_the_version_is_that_of_the_installation() -> None:
    assert wt.__version__ == version("widetable")
    command = [sys.executable, "-c", "from widetable.cli.app import main; main(['--version'])"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"widetable {wt.__version__}\n"


def test_what_is_counted_and_read_is_planned_once(
    table: wt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table.scan()
    assert one.count() == one.to_arrow().num_rows
    monkeypatch.delattr(scan_module, "plan")
    assert one.count() == one.to_arrow().num_rows
