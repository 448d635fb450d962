"""Every command with arguments and values that nobody means: an exit code and one message, never a traceback."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.hostile_values import TEXTS
from tests.support.programs.command_line import run
from widetable.cli.command import FORMATS, Command
from widetable.cli.commands import COMMANDS

# What each command is called with, where nothing hostile is in its place; T: the table.
USUAL = {
    "init": ["wh/d.db/new", "k DATE", "--key", "k", "--if-not-exists"],
    "write": ["T", "rows.json"],
    "delete": ["T", "k IS NULL"],
    "copy": ["T", "wh/d.db/t"],
    "ls": ["wh"],
    "explain": ["T", "2026-01-31"],
    "changes": ["T", "0", "1"],
    "maintain": ["T", "--once"],
    "join": ["run", "T", "--once"],
    "rescale": ["T", "1"],
    "alter": ["T", "--unset", "x"],
    "tag": ["create", "T", "there"],
    "branch": ["fast-forward", "T", "there", "--dry-run"],
    "consumer": ["delete", "T", "there"],
    "meta": ["leave", ".", "db.under_barriers", "w", "--dry-run"],
    "rollback": ["T", "--snapshot", "1"],
    "completion": ["bash"],
    "warmup": [],
}
KINDS = ("usage", *(f"{kind.__name__}: " for kind in wt.WidetableError.__subclasses__()))
NUMBERS = [
    "-1",
    "99999999999999999999",
    "1" * 5000,
    "\N{SUPERSCRIPT TWO}",
    "1.5",
    "nan",
    "9" * 19 + " d",
    "9" * 400 + " s",
]
LAST_DAY, LAST = 2**31 - 1, 2**63 - 1
EXTREMES = {
    "k": pa.array([LAST_DAY], pa.int32()).view(pa.date32()),
    "at": pa.array([LAST], pa.int64()).view(pa.timestamp("ms")),
    "zoned": pa.array([-LAST], pa.int64()).view(pa.timestamp("us", "UTC")),
    "nothing": pa.array([float("nan")]),
    "much": pa.array(["9" * 38]).cast(pa.decimal128(38, 0)),
    "bytes": pa.array([b"\x00\xff"]),
}


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    data = pa.table(EXTREMES)
    table = wt.Catalog(tmp_path).create_table(
        "db.t", data.schema, primary_key=["k"], options={"widetable.fsync": "false"}
    )
    table.write(data)
    return table


def assert_reported(*arguments: str) -> None:
    said = ascii(arguments)[:200]
    result = run(*arguments)
    assert result.exit_code in (0, 1, 2), said
    assert "Traceback" not in result.stdout + result.stderr, said
    if result.exit_code == 2:
        assert result.stderr.startswith(KINDS), f"{said}: {result.stderr[:200]}"


def options_with_values(command: Command) -> list[str]:
    return [
        name
        for name, settings in command.arguments
        if name.startswith("-") and settings.get("action", "append") == "append"
    ]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_hostile_argument_is_reported(
    table: wt.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.json").write_text('{"k": "2026-01-31"}\n')
    usual = [table.path if word == "T" else word for word in USUAL.get(command.name, ["T"])]
    if command.arguments != FORMATS:  # warmup, which takes long
        assert_reported(command.name, *usual)
    for value in (*TEXTS, *NUMBERS):
        for at, word in enumerate(usual):
            if not word.startswith("--"):
                assert_reported(command.name, *usual[:at], value, *usual[at + 1 :])
        for option in options_with_values(command):
            assert_reported(command.name, *usual, option, value)
    assert wt.Table.open(table.path).audit().ok


def test_values_that_python_does_not_hold_are_printed(table: wt.Table) -> None:
    in_json = run("changes", table.path, "0", "1")
    assert json.loads(in_json.stdout) == {
        "k": "+5881580-07-11",
        "at": "+292278994-08-17 07:12:55.807",
        "zoned": "-290308-12-21 19:59:05.224193+00:00",
        "nothing": "NaN",
        "much": "9" * 38,
        "bytes": "00ff",
        "_row_kind": "+I",
    }
    in_csv = run("changes", table.path, "0", "1", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(in_csv.stdout))
    assert row == json.loads(in_json.stdout)


def test_a_file_name_that_is_no_text_is_printed(table: wt.Table) -> None:
    stray = Path(table.path, "bucket-0", "data-\udcff-0.parquet")
    stray.write_bytes(b"")
    result = run("orphans", table.path, "--older-than", "0 s", "--dry-run")
    assert result.exit_code == 0
    assert "data-\\udcff-0.parquet" in result.stdout
