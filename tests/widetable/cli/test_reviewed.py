"""What a review of the command line found, a test of each class."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable.cli.input import row_inputs


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    options = {"write-only": "true", "widetable.fsync": "false"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", {"k": "DATE", "v": "STRING"}, primary_key=["k"], options=options
    )
    made.write({"k": [date(2024, 2, 29)], "v": ["x"]})
    return made


def test_what_read_prints_as_a_key_explain_takes(table: wt.Table, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text('{"k": "+12024-02-29", "v": "far"}\n')
    assert run("write", table.path, str(rows)).exit_code == 0
    printed = [json.loads(line)["k"] for line in run("read", table.path).stdout.splitlines()]
    assert sorted(printed) == ["+12024-02-29", "2024-02-29"]
    for key in [*printed, f" {printed[0]}"]:
        assert "v" in run("explain", table.path, key).stdout


def test_a_dry_run_of_expiry_names_tags_and_consumers(table: wt.Table) -> None:
    table.create_tag("short", time_retained_millis=1)
    path = Path(table.path, "tag/tag-short")
    body = json.loads(path.read_text())
    ended = date.today() - timedelta(days=2)
    del body["widetable.tag-created-millis"]  # as another client makes it
    path.write_text(json.dumps({**body, "tagCreateTime": [ended.year, ended.month, ended.day]}))
    said = run("expire", table.path, "--dry-run").stdout
    assert said.splitlines()[1] == "tag short would be deleted"
    assert run("expire", table.path).stdout.splitlines()[1:] == ["tag short deleted"]


def test_times_that_no_calendar_has_are_printed(table: wt.Table) -> None:
    path = Path(table.path, "snapshot/snapshot-1")
    path.write_text(json.dumps({**json.loads(path.read_text()), "timeMillis": 10**17}))
    said = run("inspect", table.path)
    assert said.exit_code == 0, said.stderr
    assert "100000000000000000 ms" in said.stdout


@pytest.mark.parametrize(
    "words",
    [
        [
            "alter",
            "PATH",
            "--set",
            "snapshot.num-retained.min=1",
            "--set",
            "snapshot.num-retained.min=2",
        ],
        ["alter", "PATH", "--set", " =1"],
    ],
    ids=" ".join,
)
def test_words_without_effect_are_refused(table: wt.Table, words: list[str]) -> None:
    said = run(*[table.path if word == "PATH" else word for word in words])
    assert said.exit_code == 2
    assert said.stderr.startswith("InvalidError: ")
    assert (table.tags(), table.branches(), table.schema.id) == ({}, [], 0)


def test_a_row_with_the_word_block_is_refused_for_what_it_is(
    table: wt.Table, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("k,v\n2024-01-01,block,x\n")
    assert "Expected 2 columns, got 3" in run("write", table.path, str(rows)).stderr


def test_an_open_quote_in_the_line_of_names_is_named_at_once(
    table: wt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more than a bound is held of it."""
    rows = tmp_path / "rows.csv"
    rows.write_text('k,"v\n' + "2024-01-01,x\n" * 200_000)
    assert "a quote that is not closed" in run("write", table.path, str(rows)).stderr
    monkeypatch.setattr(row_inputs, "_MAX_BYTES", 1 << 16)
    assert "a line of names that does not end" in run("write", table.path, str(rows)).stderr


def test_a_table_that_cannot_be_read_is_not_blamed_on_the_output(
    table: wt.Table, tmp_path: Path
) -> None:
    (data,) = Path(table.path).glob("bucket-0/data-*.parquet")
    data.write_bytes(data.read_bytes()[:-5])
    for output in ([], ["--output", str(tmp_path / "out.json")]):
        said = run("read", table.path, *output).stderr
        assert said.startswith("DamagedError: ")
        assert "standard output" not in said
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_a_full_disk_behind_standard_output_is_named(table: wt.Table, format: str) -> None:
    command = [sys.executable, "-m", "widetable", "read", table.path, "--format", format]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("StorageError: standard output: ")
