"""What a newcomer reads on the command line is so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run


def words(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return " ".join(result.stdout.split())


@pytest.fixture
def users(tmp_path: Path) -> wt.Table:
    options = {"bucket": "1", "merge-engine": "partial-update", "widetable.fsync": "false"}
    columns = {"id": "BIGINT", "city": "STRING", "age": "INT"}
    return wt.Catalog(tmp_path).create_table(
        "shop.users", columns, primary_key=["id"], options=options
    )


def test_help_names_every_command_that_ends_with_1() -> None:
    assert "1 audit or doctor has findings, or meta has not heard of a writer" in words("--help")
    assert "show, jobs and tables end with exit code 1" in words("meta", "--help")


@pytest.mark.parametrize("command", ["read", "inspect", "rollback", "meta"])
def test_help_takes_any_url_of_a_table(command: str) -> None:
    """s3:// and hdfs:// as well as file:."""
    assert "file: URL" not in words(command, "--help").partition("options:")[0]


def test_help_of_write_says_what_becomes_of_a_column_that_a_row_lacks(
    users: wt.Table, tmp_path: Path
) -> None:
    text = words("write", "--help")
    assert "rows without it get null" in text
    assert (
        "A row that lacks columns of a sequence group is refused if other rows have them." in text
    )
    users.write([{"id": 1, "city": "Oslo", "age": 3}])
    file = tmp_path / "rows.json"
    file.write_text('{"id": 1, "city": "Bari"}\n{"id": 2, "age": 4}\n')
    assert run("write", users.path, str(file)).exit_code == 0
    assert users.scan().to_arrow().to_pylist() == [
        {"id": 1, "city": "Bari", "age": 3},
        {"id": 2, "city": None, "age": 4},
    ]


def test_help_of_branch_says_that_one_without_a_tag_is_empty() -> None:
    assert "create: begin with the rows of this tag; without it the branch is empty." in words(
        "branch", "--help"
    )


def test_a_table_without_partition_columns_says_so(users: wt.Table) -> None:
    users.write([{"id": 1}])
    assert words("partition", "list", users.path).startswith(
        "no partition columns; 1 row in 1 file of "
    )
    found = json.loads(run("partition", "list", users.path, "--json").stdout)
    assert [one["partition"] for one in found["partitions"]] == [""]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            "show",
            "no table of this warehouse is under barriers (option widetable.barrier-interval, docs/consistency.md)",
        ),
        (
            "tables",
            "no table of this warehouse is under barriers (option widetable.barrier-interval, docs/consistency.md)",
        ),
        ("jobs", "no job writes a table of this warehouse that is under barriers"),
    ],
    ids=["show", "tables", "jobs"],
)
def test_meta_of_a_warehouse_without_barriers_says_so(
    users: wt.Table, action: str, said: str
) -> None:
    warehouse = str(Path(users.path).parents[1])
    assert words("meta", action, warehouse) == said
    assert json.loads(run("meta", action, warehouse, "--json").stdout)["lost"] == []


def test_meta_of_tables_that_nobody_writes_lists_them(tmp_path: Path) -> None:
    options = {"widetable.barrier-interval": "10 s", "bucket": "1", "widetable.fsync": "false"}
    wt.Catalog(tmp_path).create_table("db.x", {"id": "BIGINT"}, primary_key=["id"], options=options)
    assert "db.x" in words("meta", "show", str(tmp_path))
    assert words("meta", "jobs", str(tmp_path)).startswith("no job writes a table")
