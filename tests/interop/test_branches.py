"""Branches both ways: what we make pypaimon reads and writes, what it makes we do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.interop.conftest import PypaimonProcess
from tests.support.models.plain_rows import row_texts
from tests.support.tables.branched import Rows, create, expire_all, opened, put, rows_of

pytestmark = pytest.mark.interop
Reader = Callable[..., list[str]]
Writer = Callable[[wt.Table, pa.Table], None]


def texts(rows: Rows) -> list[str]:
    return row_texts([{"k": key, "v": value} for key, value in rows.items()])


def arrow(rows: Rows) -> pa.Table:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    return pa.table([list(rows), list(rows.values())], schema=schema)


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path, **{"write-only": "true"})
    put(made, {1: "a", 2: "b"})
    made.create_tag("first")
    put(made, {2: "c"})
    return made


def test_our_branch_is_read_and_written_by_pypaimon(
    table: wt.Table,
    pypaimon_rows: Reader,
    pypaimon_write: Writer,
    pypaimon_process: PypaimonProcess,
) -> None:
    table.create_branch("b", tag="first")
    table.create_branch("e")
    branch, empty = opened(table, "b"), opened(table, "e")
    assert sorted(pypaimon_process.ask(table, branch=["branches"])) == ["b", "e"]
    assert pypaimon_rows(branch) == texts({1: "a", 2: "b"})
    pypaimon_write(branch, arrow({2: "theirs", 3: "theirs"}))
    pypaimon_write(empty, arrow({9: "theirs"}))
    put(branch, {3: "ours"})
    branch.compact(full=True)
    then: Rows = {1: "a", 2: "theirs", 3: "ours"}
    assert rows_of(branch) == then
    assert pypaimon_rows(branch) == texts(then)
    assert rows_of(empty) == {9: "theirs"}
    for one in (table, branch, empty):
        expire_all(one)
        one.remove_orphan_files(older_than_millis=0)
        assert one.audit().ok
    assert pypaimon_rows(branch) == texts(then)
    assert pypaimon_rows(empty) == texts({9: "theirs"})
    assert pypaimon_rows(table) == texts({1: "a", 2: "c"})
    table.fast_forward("b", replace=True)
    assert pypaimon_rows(table) == texts(then)
    pypaimon_write(table, arrow({4: "on"}))
    assert rows_of(table) == {**then, 4: "on"}


def test_pypaimons_branch_is_read_and_written_here(
    table: wt.Table,
    pypaimon_rows: Reader,
    pypaimon_write: Writer,
    pypaimon_process: PypaimonProcess,
) -> None:
    pypaimon_process.ask(table, branch=["create_branch", "b", "first"])
    pypaimon_process.ask(table, branch=["create_branch", "e"])
    assert table.branches() == ["b", "e"]
    branch, empty = opened(table, "b"), opened(table, "e")
    assert rows_of(branch) == {1: "a", 2: "b"}
    assert rows_of(empty) == {}
    put(branch, {2: "ours", 3: "ours"})
    pypaimon_write(branch, arrow({3: "theirs"}))
    put(empty, {9: "ours"})
    branch.compact(full=True)
    then: Rows = {1: "a", 2: "ours", 3: "theirs"}
    assert rows_of(branch) == then
    assert pypaimon_rows(branch) == texts(then)
    assert pypaimon_rows(empty) == texts({9: "ours"})
    assert pypaimon_rows(table) == texts({1: "a", 2: "c"})
    pypaimon_process.ask(table, branch=["drop_branch", "e"])
    assert table.branches() == ["b"]
    table.remove_orphan_files(older_than_millis=0)
    assert rows_of(branch) == then


def test_pypaimons_fast_forward_is_read_here(
    table: wt.Table, pypaimon_process: PypaimonProcess
) -> None:
    """It lays the branch's snapshots over main's."""
    table.create_branch("b", tag="first")
    branch = opened(table, "b")
    put(branch, {5: "x"})
    put(branch, {6: "y"})
    pypaimon_process.ask(table, branch=["fast_forward", "b"])
    assert rows_of(wt.Table.open(table.path)) == {1: "a", 2: "b", 5: "x", 6: "y"}
    put(wt.Table.open(table.path), {7: "z"})
    assert wt.Table.open(table.path).audit().ok


@pytest.mark.parametrize("name", ["", " ", "main", "12"])
def test_both_refuse_the_same_names(
    table: wt.Table, pypaimon_process: PypaimonProcess, name: str
) -> None:
    with pytest.raises(AssertionError, match="Branch name"):
        pypaimon_process.ask(table, branch=["create_branch", name])
    with pytest.raises(wt.InvalidError):
        table.create_branch(name)
