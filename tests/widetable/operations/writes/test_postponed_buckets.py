"""Rows that wait for a bucket (`bucket` = -2), in Paimon's directory for them: not read until a compaction takes them;
they go when nobody names them, and a rollback brings them back.
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
def test_a_compaction_gives_them_a_bucket(table: wt.Table, full: bool) -> None:
    assert len(waiting_files(table)) == 2
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1]
    assert table.compact(full=full).committed
    files = table.inspect.files().to_pylist()
    assert {(row["bucket"], row["total_buckets"]) for row in files} == {(0, 1)}
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [0, 1, 10, 11]
    assert table.audit().ok
    assert table.doctor(deep=True).ok


def test_they_go_when_nobody_names_them(table: wt.Table) -> None:
    table._committer.overwrite(None, [])
    table.remove_orphan_files(older_than_millis=0)
    assert len(waiting_files(table)) == 2
    gone = table.expire_snapshots(1, 1, 0)
    assert gone.ids == (1, 2, 3, 4)
    assert not list(Path(table.path).rglob("data-*"))


def test_a_rollback_brings_them_back_to_wait(tmp_path: Path) -> None:
    """Under a name by which Java finds the files of a writer."""
    shutil.copytree(ROOT / "wh_others/others.db/postponed", tmp_path / "t")
    table = wt.Table.open(tmp_path / "t")
    (file,) = table.inspect.files().to_pylist()
    assert Path(file["path"]).parent == tmp_path / "t/bucket-postpone"
    whole = Path(file["path"]).read_bytes()
    assert table.compact(full=True).committed
    table.rollback(1)
    (back,) = table.inspect.files().to_pylist()
    assert Path(back["path"]).read_bytes() == whole
    writer, mark, _ = str(file["file_name"]).rpartition("-w-")
    assert mark
    assert str(back["file_name"]).startswith(writer + mark)
    assert table.scan().count() == 0
    table.compact()
    assert table.scan().count() == 4
