"""`widetable alter` changes columns as `Catalog.alter_table` does, and says what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    columns = {"k": "BIGINT", "a": "INT", "b": "STRING", "r": "ROW<x INT, y STRING>"}
    made = wt.Catalog(tmp_path).create_table("db.t", columns, primary_key=["k"])
    made.write({"k": [1], "a": [2], "b": ["three"], "r": [{"x": 4, "y": "five"}]})
    return made


def test_columns_and_fields_change_in_one_step(table: wt.Table) -> None:
    done = run(
        *("alter", table.path, "--add", "c VARCHAR(3)", "--add", "r.z INT", "--drop", "b"),
        *("--rename", "r.y=why", "--type", "a BIGINT", "--move", "c=first", "--move", "r.z=first"),
        *("--comment", "a=how many", "--set", "write-only=true"),
    )
    assert (done.exit_code, done.stdout) == (0, "schema 1\n"), done
    table = wt.Table.open(table.path)
    assert table.scan().to_arrow().to_pylist() == [
        {"c": None, "k": 1, "a": 2, "r": {"z": None, "x": 4, "why": "five"}}
    ]
    fields = {field.name: field for field in table.schema.fields}
    assert (fields["c"].type.length, fields["a"].type.root) == (3, "BIGINT")
    assert fields["a"].description == "how many"
    assert table.schema.options["write-only"] == "true"


def test_a_type_keeps_what_its_text_says(table: wt.Table) -> None:
    assert run("alter", table.path, "--add", "c VARCHAR(3)").exit_code == 0
    assert run("alter", table.path, "--type", "c VARCHAR(9)").exit_code == 0
    assert wt.Table.open(table.path).schema.field("c").type.length == 9
    refused = run("alter", table.path, "--type", "c VARCHAR(9) NOT NULL")
    assert (refused.exit_code, "NOT NULL" in refused.stderr) == (2, True), refused


def test_nulls_and_comments_come_and_go(table: wt.Table) -> None:
    off = "alter-column-null-to-not-null.disabled=false"
    assert run("alter", table.path, "--set", off).exit_code == 0
    assert run("alter", table.path, "--not-null", "a", "--comment", "b=x").exit_code == 0
    fields = wt.Table.open(table.path).schema.by_name
    assert (fields["a"].type.nullable, fields["b"].description) == (False, "x")
    done = run("alter", table.path, "--nullable", "a", "--comment", "b=", "--format", "json")
    assert json.loads(done.stdout) == {"schema_id": 3}
    fields = wt.Table.open(table.path).schema.by_name
    assert (fields["a"].type.nullable, fields["b"].description) == (True, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to change"),
        (["--add", "c"], "--add: found 'c'"),
        (["--add", "c NO_TYPE"], "NO_TYPE"),
        (["--type", "a"], "--type: found 'a'"),
        (["--type", "a VARCHAR(x)"], "VARCHAR"),
        (["--rename", "a"], "--rename: found 'a'"),
        (["--rename", "a=c", "--rename", "a=d"], "--rename: found 'a' twice"),
        (
            ["--nullable", "a", "--not-null", "b", "--not-null", "a"],
            "--nullable and --not-null: found 'a' twice",
        ),
        (["--drop", "k"], "column 'k'"),
        (["--drop", "no"], "'no'"),
        (["--move", "a=up"], "up"),
    ],
    ids=str,
)
def test_what_cannot_be_done_changes_nothing(table: wt.Table, words: list[str], said: str) -> None:
    done = run("alter", table.path, *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert wt.Table.open(table.path).schema.id == 0
