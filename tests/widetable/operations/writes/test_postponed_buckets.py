"""Rows that wait for a bucket (`bucket` = -2), in Paimon's directory for them: not read, not compacted; they go when
nobody names them, and other clients give them buckets.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.fixture_tables import ROOT

POSTPONED = -2


@pytest.fixture(params=[False, True], ids=["flat", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> wt.Table:
    """Two commits to bucket 0, and two that wait for one; the compaction of bucket 0 is due."""
    table = wt.Catalog(tmp_path).create_table(
        "db.t",
        {"p": "INT", "k": "BIGINT"},
        primary_key=["p", "k"],
        partition_by=["p"] if request.param else [],
        options={"bucket": "1", "widetable.fsync": "false", "write-only": "true"},
    )
    for key in range(2):
        table.write({"p": [1], "k": [key]})
        _postpone(table, key + 10)
    schema = Path(table.path, "schema/schema-0")
    schema.write_text(schema.read_text().replace('"bucket": "1"', '"bucket": "-2"'))
    assert '"-2"' in schema.read_text()
    return wt.Table.open(table.path)


def _postpone(table: wt.Table, key: int) -> None:
    writer = table.new_writer(["p", "k"])
    writer.write({"p": [1], "k": [key]})
    waiting = []
    for message in writer.finish():
        for file in message.new_files:
            (source,) = Path(table.path).rglob(file.file_name)
            target = source.parent.with_name("bucket-postpone")
            target.mkdir(exist_ok=True)
            source.rename(target / file.file_name)
        waiting.append(replace(message, bucket=POSTPONED, total_buckets=POSTPONED))
    table._committer.append(waiting)


def waiting_files(table: wt.Table) -> set[str]:
    return {str(file) for file in Path(table.path).rglob("bucket-postpone/data-*")}


def test_files_are_where_paimon_has_them(table: wt.Table) -> None:
    found = table.inspect.files().to_pylist()
    assert {row["path"] for row in found if row["bucket"] == POSTPONED} == waiting_files(table)
    assert all(Path(row["path"]).is_file() for row in found)
    assert len(found) == 4


@pytest.mark.parametrize("full", [False, True])
def test_no_compaction_takes_them(table: wt.Table, full: bool) -> None:
    before = waiting_files(table)
    assert len(before) == 2
    assert table.compact(full=full).committed == full
    table.maintain(once=True)
    files = table.inspect.files().to_pylist()
    assert {row["path"] for row in files if row["bucket"] == POSTPONED} == before
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1]
    assert table.changes(0, 4)["k"].to_pylist() == [0, 1]
    assert table.audit().ok
    assert table.doctor(deep=True).ok


def test_they_go_when_nobody_names_them(table: wt.Table) -> None:
    table._committer.overwrite(None, [])
    table.remove_orphan_files(older_than_millis=0)
    assert len(waiting_files(table)) == 2
    gone = table.expire_snapshots(1, 1, 0)
    assert gone.ids == (1, 2, 3, 4)
    assert not list(Path(table.path).rglob("data-*"))


def test_a_table_of_java_stays_as_it_is_and_can_be_rolled_back(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "wh_others/others.db/postponed", tmp_path / "t")
    table = wt.Table.open(tmp_path / "t")
    (file,) = table.inspect.files().to_pylist()
    assert Path(file["path"]).parent == tmp_path / "t/bucket-postpone"
    assert Path(file["path"]).is_file()
    assert not table.compact(full=True).committed
    assert table.doctor(deep=True).ok
    table._committer.overwrite(None, [])
    table.rollback(1)
    (back,) = table.inspect.files().to_pylist()
    assert Path(back["path"]).read_bytes() == Path(file["path"]).read_bytes()
