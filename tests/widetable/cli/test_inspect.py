"""`widetable inspect --what`: rows for people in human units, and for programs as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.branched import create, put
from widetable.format.human_units import duration_text, size_text, time_text
from widetable.operations.inspection.inspected_names import NAMES


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    made = create(tmp_path)
    put(made, {1: "a", 2: "b"})
    made.create_tag("one")
    put(made, {3: "c"})
    return made


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_line_for_each_row(table: wt.Table, name: str) -> None:
    frame = table.inspect.frame(name)
    shown = run("inspect", table.path, "--what", name)
    assert (shown.exit_code, shown.stderr) == (0, "")
    head, *lines = shown.stdout.splitlines()
    assert len(lines) == frame.num_rows
    assert head.split()[0] == frame.column_names[0]
    rows = json.loads(run("inspect", table.path, "--what", name, "--format", "json").stdout)[name]
    assert len(rows) == frame.num_rows
    assert all(list(row) == frame.column_names for row in rows)


def test_sizes_are_in_human_units_and_json_has_bytes(table: wt.Table) -> None:
    (size, *_) = table.inspect.files()["size_bytes"].to_pylist()
    head, line, *_ = run("inspect", table.path, "--what", "files").stdout.splitlines()
    assert " size " in head
    assert "size_bytes" not in head
    assert f" {size_text(size)} " in line
    body = json.loads(run("inspect", table.path, "--what", "files", "--json").stdout)
    assert body["files"][0]["size_bytes"] == size


def test_of_a_snapshot_or_a_tag(table: wt.Table) -> None:
    first = run("inspect", table.path, "--what", "files", "--snapshot", "1").stdout
    assert run("inspect", table.path, "--what", "files", "--tag", "one").stdout.startswith(
        "partition"
    )
    assert len(first.splitlines()) == 1 + table.inspect.files(snapshot_id=1).num_rows
    for words in (["--snapshot", "1"], ["--what", "tags", "--tag", "one"], ["--what", "filez"]):
        refused = run("inspect", table.path, *words)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("InvalidError")


def test_units() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 2**20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB"}
    assert {size: size_text(size) for size in sizes} == sizes
    assert size_text(2**80) == "1048576.0 EiB"
    millis = {0: "0 ms", 999: "999 ms", 1500: "1.5 s", 60_000: "1 min", 7_500_000: "2 h 5 min"}
    assert {each: duration_text(each) for each in millis} == millis
    assert duration_text(90_000_000) == "1 d 1 h"
    assert duration_text(86_400_000 + 60_000) == "1 d"
    assert time_text(0) == "1970-01-01 00:00:00 UTC"
    assert time_text(2**80) == f"{2**80} ms"
