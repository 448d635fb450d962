"""The command `branch`: it does what the methods of a table do, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.branched import create, opened, put, rows_of
from widetable.cli.app import main


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path, **{"write-only": "true"})
    put(made, {1: "a"})
    made.create_tag("first")
    return made


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["branch", *words]) == 0
    return capsys.readouterr().out


def test_make_list_go_forward_and_drop(table: wt.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "list", table.path) == ""
    said(capsys, "create", table.path, "b", "--tag", "first")
    said(capsys, "create", table.path, "e")
    put(opened(table, "b"), {2: "b"})
    assert said(capsys, "list", table.path) == "b  snapshot 2\ne  no snapshot\n"
    listed = json.loads(said(capsys, "list", table.path, "--format", "json"))
    assert listed == {"branches": [{"name": "b", "snapshot": 2}, {"name": "e", "snapshot": None}]}
    assert said(capsys, "fast-forward", table.path, "b", "--dry-run") == (
        "would be: snapshots: 2\n"
    )
    assert rows_of(table) == {1: "a"}
    done = json.loads(said(capsys, "fast-forward", table.path, "b", "--format", "json"))
    assert (done["branch"], done["common_id"], done["snapshots"]) == ("b", 1, [2])
    assert rows_of(table) == {1: "a", 2: "b"}
    said(capsys, "drop", table.path, "b")
    assert table.branches() == ["e"]


def test_what_only_main_has_needs_a_flag(
    table: wt.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    table.create_branch("b", tag="first")
    put(table, {3: "main"})
    assert main(["branch", "fast-forward", table.path, "b"]) == 2
    assert "snapshot 2" in capsys.readouterr().err
    assert said(capsys, "fast-forward", table.path, "b", "--replace") == "dropped snapshots: 2\n"
    assert rows_of(wt.Table.open(table.path)) == {1: "a"}


def test_another_command_takes_the_directory_of_a_branch(
    table: wt.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    table.create_branch("b", tag="first")
    put(opened(table, "b"), {2: "b"})
    assert main(["read", f"{table.path}/branch/branch-b", "--filter", "k = 2"]) == 0
    assert json.loads(capsys.readouterr().out) == {"k": 2, "v": "b"}


@pytest.mark.parametrize(
    "words",
    [
        ["list", "PATH", "b"],
        ["drop", "PATH"],
        ["drop", "PATH", "b", "--dry-run"],
        ["list", "PATH", "--tag", "first"],
        ["create", "PATH", "b", "--replace"],
        ["create", "PATH", "main"],
        ["fast-forward", "PATH", "none"],
    ],
)
def test_what_does_not_fit_is_refused(
    table: wt.Table, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["branch", *(table.path if word == "PATH" else word for word in words)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert table.branches() == []


def test_a_branch_without_a_tag_is_said_to_be_empty(
    table: wt.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "create", table.path, "bare") == (
        "branch bare created, empty (--tag starts it from a tag)\n"
    )
    assert opened(table, "bare").scan().count() == 0
