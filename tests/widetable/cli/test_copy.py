"""The command `copy`: a table of one snapshot of another, by their paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.branched import create, put, rows_of
from widetable.format.human_units import size_text


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path, **{"write-only": "true"})
    put(made, {1: "a"})
    made.create_tag("first")
    put(made, {1: "b", 2: "b"})
    return made


def test_a_table_is_copied_to_another_warehouse(table: wt.Table, tmp_path: Path) -> None:
    target = f"{tmp_path}/other/x.db/u"
    done = run("copy", table.path, target)
    size = sum(path.stat().st_size for path in Path(target).glob("bucket-*/*"))
    files = len(list(Path(target).glob("bucket-*/*")))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{target}: snapshot 2, 3 rows in {files} files of {size_text(size)}\n"
    assert rows_of(wt.Table.open(target)) == {1: "b", 2: "b"}


def test_a_tag_a_snapshot_a_branch_and_json(table: wt.Table, tmp_path: Path) -> None:
    target = f"{tmp_path}/db.db/u"
    said = json.loads(run("copy", table.path, target, "--tag", "first", "--format", "json").stdout)
    assert (said["path"], said["snapshot_id"], said["rows"], said["files"]) == (target, 1, 1, 1)
    assert rows_of(wt.Table.open(target)) == {1: "a"}
    assert run("copy", table.path, f"{target}2", "--snapshot", "1").exit_code == 0
    table.create_branch("side", tag="first")
    assert run("copy", f"{table.path}/branch/branch-side", f"{target}3").exit_code == 0
    assert rows_of(wt.Table.open(f"{target}3")) == {1: "a"}


def test_what_cannot_be_copied_is_said(table: wt.Table, tmp_path: Path) -> None:
    for target, said in {
        table.path: "a table or another directory",
        f"{tmp_path}/nowhere": "<warehouse>/<db>.db/<table>",
        f"{tmp_path}/db.db/a.b": "a name without $ @ : and dots",
    }.items():
        done = run("copy", table.path, target)
        assert done.exit_code == 2
        assert said in done.stderr
    assert run("copy", f"{tmp_path}/db.db/none", f"{tmp_path}/db.db/u").exit_code == 2
    assert run("copy", table.path, f"{tmp_path}/db.db/u", "--tag", "none").exit_code == 2
    assert wt.Catalog(tmp_path).list_tables() == ["db.t"]
