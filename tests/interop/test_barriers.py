"""Tables under barriers beside pypaimon: it reads their barriers by snapshot id, and what it writes breaks none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import row_texts
from tests.support.tables.barrier_tables import NAME, new_table, plain_table
from tests.support.tables.later_barriers import put
from widetable.errors import NotFoundError

pytestmark = pytest.mark.interop
Reader = Callable[..., list[str]]


def rows(table: wt.Table | wt.SessionTable) -> list[str]:
    return row_texts(table.scan().to_arrow().to_pylist())


def test_sessions_are_read_by_snapshot_ids(tmp_path: Path, pypaimon_rows: Reader) -> None:
    catalog = wt.Catalog(tmp_path)
    options = {"widetable.fsync": "false", "widetable.barrier-interval": "10 ms", "bucket": "2"}
    tables = {}
    for name in ("shop.a", "shop.b", "shop.c"):
        table = catalog.create_table(
            name, {"id": "BIGINT", "n": "BIGINT"}, primary_key=["id"], options=options
        )
        writer = catalog.writer(name, "only")
        for barrier in (10, 20, 30):
            ids = list(range(barrier))
            writer.write({"id": ids, "n": [barrier] * barrier}, barrier=barrier, complete=True)
        if name == "shop.b":
            writer.write({"id": [1], "n": [40]}, barrier=40, complete=True)
        tables[name] = table
    with catalog.session() as session:
        assert session.barrier == 30
        for name, snapshot_id in session.snapshot_ids().items():
            assert snapshot_id is not None
            expected = rows(session.table(name))
            assert len(expected) == 30
            assert pypaimon_rows(tables[name], snapshot=snapshot_id) == expected


def test_what_pypaimon_writes_belongs_to_the_next_barrier(
    tmp_path: Path, pypaimon_rows: Reader, pypaimon_write: Callable[[wt.Table, pa.Table], None]
) -> None:
    table = new_table(tmp_path, write_only="true")
    writer = wt.Catalog(tmp_path).writer(NAME, "ours", ["a", "b"])
    writer.write({"id": [1], "a": [1], "b": [1]}, barrier=20, complete=True)
    before = row_texts(table.scan(barrier=20).to_arrow().to_pylist())
    theirs = {"id": [2], "a": [None], "b": [None], "c": [2]}
    pypaimon_write(table, pa.table(theirs, table.arrow_schema))
    assert pypaimon_rows(table) == rows(table)
    assert len(rows(table)) == 2
    assert row_texts(table.scan(barrier=20).to_arrow().to_pylist()) == before
    with pytest.raises(NotFoundError, match="complete up to 20"):
        table.scan(barrier=30)
    writer.complete(30)
    assert row_texts(table.scan(barrier=30).to_arrow().to_pylist()) == rows(table)
    report = table.audit()
    assert not report.findings


def test_a_table_of_pypaimon_is_put_under_barriers(
    tmp_path: Path, pypaimon_rows: Reader, pypaimon_write: Callable[[wt.Table, pa.Table], None]
) -> None:
    """It has written all that there is, reads the same rows afterwards, and writes on."""
    table = plain_table(tmp_path, write_only="true")

    def theirs(id: int) -> None:
        rows = {"id": [id], "a": [id], "b": [None], "c": [None]}
        pypaimon_write(table, pa.table(rows, table.arrow_schema))

    for id in (1, 2):
        theirs(id)
    before = pypaimon_rows(table)
    table.expire_snapshots(1, 1, 0)
    catalog = put(tmp_path)
    assert pypaimon_rows(table) == rows(table) == before
    writer = catalog.writer(NAME, "ours", ["b"])
    writer.write({"id": [1], "b": [7]}, barrier=20, complete=True)
    at_20 = row_texts(table.scan(barrier=20).to_arrow().to_pylist())
    assert at_20 == pypaimon_rows(table) == rows(table)
    theirs(3)
    assert row_texts(table.scan(barrier=20).to_arrow().to_pylist()) == at_20
    writer.complete(30)
    assert row_texts(table.scan(barrier=30).to_arrow().to_pylist()) == pypaimon_rows(table)
    assert len(rows(table)) == 3
    assert not table.audit().findings


def test_what_meta_says_is_read_as_any_table(tmp_path: Path, pypaimon_rows: Reader) -> None:
    new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "ours")
    for barrier in (10, 20):
        writer.write({"id": [barrier], "a": [1]}, barrier=barrier, complete=True)
    counts = catalog.topology().rebuild()
    assert {name.partition("META_")[2]: count for name, count in counts.items() if count} == {
        "ETL_SINK": 1,
        "TABLE_VERSION": 1,
        "JOB": 1,
        "BARRIER": 2,
        "JOB_BARRIER": 2,
        "SETTING": 3,
    }
    for name in counts:
        table = catalog.table(name)
        assert pypaimon_rows(table) == rows(table)
