"""The command line: what each command prints and with which code it ends, and that errors are one line."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.command_line import Ran, run
from tests.support.tables.fixture_tables import ROOT
from tests.widetable.operations.health.table_surgery import Surgery, with_values

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [f"v{k}" for k in keys]}, SCHEMA)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., wt.Table]:
    def make_table(**options: str) -> wt.Table:
        given = {"changelog-producer": "lookup", "write-only": "true", "widetable.fsync": "false"}
        return wt.Catalog(str(tmp_path)).create_table(
            "db.t", SCHEMA, primary_key=["k"], options={**given, **options}
        )

    return make_table


@pytest.fixture
def surgery(tmp_path: Path) -> Surgery:
    return Surgery(Path(shutil.copytree(ROOT / "wh_java/fx.db/cl_lookup", tmp_path / "table")))


# Errors


def test_an_error_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    commands = ("inspect",), ("explain", "7"), ("audit",), ("maintain",), ("expire",), ("orphans",)
    for command, *rest in commands:
        result = run(command, str(tmp_path / "nothing"), *rest)
        assert result.exit_code == 2
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("NotFoundError: ")
        assert line.endswith("Check the path, or create the table first.")


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    result = run("inspect", str(tmp_path), "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_debug_behind_two_dashes_is_a_name() -> None:
    result = run("inspect", "--", "--debug")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "--debug" in line


def test_a_wrong_time_is_refused(make: Callable[..., wt.Table]) -> None:
    result = run("maintain", make().path, "--once", "--interval", "soon")
    assert result.exit_code == 2
    assert "--interval" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "found", "expected"),
    [
        (("mantain",), "'mantain'", "Did you mean maintain?"),
        (("--once",), "'--once'", "one of init, write, delete, update, copy, ls"),
        (("zzz",), "'zzz'", "Run widetable --help."),
        (
            ("inspect",),
            "required: PATH",
            "widetable inspect [-h] [--what NAME] [--snapshot ID] [--tag NAME] [--format {table,json}] "
            "[--json] [--debug] PATH",
        ),
        (("inspect", "a", "b"), "unrecognized arguments: b", "Run widetable inspect --help."),
        (("inspect", "a", "--jso"), "unrecognized arguments: --jso", "[--json]"),
        (("inspect", "a", "--json=1"), "argument --json", "[--json]"),
        (("expire", "a", "--retain-min"), "argument --retain-min", "[--retain-min NUMBER]"),
        (("expire", "a", "--retain-min", "x"), "'x'", "[--retain-min NUMBER]"),
        (("changes", "a", "0", "1", "--format", "xml"), "'xml'", "{json,csv,parquet,table}"),
        (("changes", "a", "0"), "required: END", "PATH START END"),
    ],
)
def test_a_usage_error_is_one_line_that_says_what_is_allowed(
    arguments: tuple[str, ...], found: str, expected: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("InvalidError: widetable")
    assert found in line
    assert expected in line


def test_without_a_command_the_help_is_an_error() -> None:
    helped = run("--help")
    assert (helped.exit_code, helped.stderr) == (0, "")
    assert run() == Ran(2, "", helped.stdout)


# audit


def test_audit_of_a_right_table(surgery: Surgery) -> None:
    result = run("audit", str(surgery.root))
    assert result.exit_code == 0
    assert "from the empty table to snapshot 6, changelog-producer=lookup" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("ok")


def test_audit_of_a_wrong_changelog(surgery: Surgery) -> None:
    surgery.alter_rows(4, "changelog", lambda table: with_values(table, 0, a=77))
    result = run("audit", str(surgery.root))
    assert result.exit_code == 1
    assert "key {'k': 1}: found -U {'a': 77}; expected {'a': 1}" in result.stdout
    unnamed = run("audit", str(surgery.root), "--findings", "0")
    assert unnamed.exit_code == 1
    assert "and 1 more" in unnamed.stdout
    body = json.loads(run("audit", str(surgery.root), "--json").stdout)
    assert (body["ok"], body["found"]) == (False, {"chain": 1})
    later = run("audit", str(surgery.root), "--from", "4")
    assert later.exit_code == 0
    assert "from snapshot 4 to" in later.stdout


def test_audit_from_where_nothing_is(surgery: Surgery) -> None:
    assert run("audit", str(surgery.root), "--from", "77").exit_code == 2
    assert run("audit", str(surgery.root), "--from", "tag").exit_code == 2


# inspect


def test_inspect_says_what_waits(make: Callable[..., wt.Table]) -> None:
    table = make()
    empty = run("inspect", table.path)
    assert (empty.exit_code, "none" in empty.stdout) == (0, True)
    for key in (1, 2, 3):
        table.write(rows(key))
    result = run("inspect", table.path)
    assert "1 to 3, the newest APPEND" in result.stdout
    assert "3 level-0 files in 1 bucket" in result.stdout
    assert "run widetable maintain" in result.stdout.splitlines()[-1]
    assert json.loads(run("inspect", table.path, "--json").stdout)["backlog"]["rows"] == 3


# explain


def test_explain_says_where_values_are_from(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(rows(1, 2))
    table.create_tag("first", 1)
    table.write(pa.table({"k": [2], "v": ["w"]}))
    result = run("explain", table.path, "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].endswith(": there")
    assert 'v = "w" from #2' in result.stdout.splitlines()
    for as_of in (("--snapshot", "1"), ("--tag", "first")):
        found = json.loads(run("explain", table.path, "k=2", "--json", *as_of).stdout)
        assert [column["value"] for column in found["columns"]] == ["v2"]
    assert run("explain", table.path, "3").stdout.splitlines()[0].endswith(": not there")
    assert 'v = "w" from #2' in run("explain", table.path, "2", "--columns", "v").stdout
    assert run("explain", table.path, "2", "--columns", "zz").exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x",), "column 'k': found 'x'; expected a whole number that the type holds"),
        (("k=1", "k=2"), "the column 'k' twice"),
        (("v=1",), "column 'k': found 'v=1'"),
        (("1", "2"), "'1' without a column"),
        ((), "required: KEY"),
        (("1", "--snapshot", "1", "--tag", "t"), "found both"),
        (("1", "--snapshot", "9"), "no such snapshot"),
    ],
)
def test_explain_refuses_what_is_no_key(
    make: Callable[..., wt.Table], words: tuple[str, ...], said: str
) -> None:
    table = make()
    table.write(rows(1))
    result = run("explain", table.path, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_explain_takes_keys_of_all_types(tmp_path: Path) -> None:
    words = {
        "a": (pa.string(), "x=y"),
        "b": (pa.date32(), "2026-01-31"),
        "c": (pa.decimal128(5, 2), "1.50"),
        "d": (pa.binary(), "00ff"),
        "e": (pa.bool_(), "true"),
        "f": (pa.timestamp("us"), "2026-01-31 10:30:00.5"),
        "g": (pa.float64(), "-0.5"),
        "h": (pa.time32("ms"), "10:30:00"),
        "i": (pa.timestamp("us", "UTC"), "2026-01-31 10:30:00+00:00"),
    }
    schema = pa.schema([pa.field(name, kind, False) for name, (kind, _) in words.items()])
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", schema, primary_key=list(words), options={"bucket": "1"}
    )
    key = {"a": "x=y", "b": date(2026, 1, 31), "c": Decimal("1.50"), "d": b"\x00\xff", "e": True}
    key |= {"f": datetime(2026, 1, 31, 10, 30, 0, 500_000), "g": -0.5}
    key["h"] = datetime(2026, 1, 31, 10, 30).time()
    key["i"] = datetime(2026, 1, 31, 10, 30, tzinfo=timezone.utc)
    table.write(pa.table({name: [value] for name, value in key.items()}, schema))
    result = run("explain", table.path, *(f"{name}={word}" for name, (_, word) in words.items()))
    assert result.stdout.splitlines()[0].endswith(": there"), result


# maintain, expire, orphans


def test_maintain_once(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(rows(1))
    result = run("maintain", table.path, "--once")
    assert result.exit_code == 0
    assert result.stdout.startswith("1 compaction")
    assert table.changes(0, 2).num_rows == 1
    assert run("maintain", table.path, "--once", "--quiet").stdout.startswith("0 compactions")


def test_expire(make: Callable[..., wt.Table]) -> None:
    table = make()
    for key in range(4):
        table.write(rows(key))
    assert run("expire", table.path).stdout.startswith("0 snapshots expired")
    keeping = ("--retain-min", "1", "--time-retained", "0 s")
    reported = run("expire", table.path, *keeping, "--dry-run")
    assert reported.stdout.startswith("3 snapshots would expire: 1 to 3; 6 files of ")
    assert " would stay:\n    newest snapshot, 4  " in reported.stdout
    assert len(table.snapshots()) == 4
    gone = run("expire", table.path, *keeping)
    assert gone.stdout.startswith("3 snapshots expired: 1 to 3")
    assert [snapshot.id for snapshot in table.snapshots()] == [4]


def test_orphans(make: Callable[..., wt.Table]) -> None:
    table = make()
    table.write(rows(1))
    stray = Path(table.path, "bucket-0", "data-stray-0.parquet")
    stray.write_bytes(b"12345")
    assert run("orphans", table.path).stdout.strip() == "0 files removed, 0 B"
    reported = run("orphans", table.path, "--older-than", "0 s", "--dry-run").stdout.splitlines()
    assert reported == [str(stray), "1 file would be removed, 5 B"]
    assert stray.exists()
    run("orphans", table.path, "--older-than", "0 s")
    assert not stray.exists()


# changes


def test_changes_as_json_csv_and_parquet(surgery: Surgery, tmp_path: Path) -> None:
    expected = wt.Table.open(str(surgery.root)).changes(2, 6).to_pylist()
    span = ("changes", str(surgery.root), "2", "6")
    assert [json.loads(line) for line in run(*span).stdout.splitlines()] == expected
    found = list(csv.DictReader(io.StringIO(run(*span, "--format", "csv").stdout)))
    assert found == [{name: str(value) for name, value in row.items()} for row in expected]
    file = tmp_path / "changes.parquet"
    reported = run(*span, "--format", "parquet", "--output", str(file))
    assert reported.stdout.startswith(f"{len(expected)} rows")
    assert pq.read_table(file).to_pylist() == expected
    some = run(*span, "--columns", "a")
    assert json.loads(some.stdout.splitlines()[0]) == {"a": 1, "_row_kind": "-U"}


def test_changes_of_what_is_not_there(surgery: Surgery) -> None:
    assert run("changes", str(surgery.root), "0", "99").exit_code == 2
    assert run("changes", str(surgery.root), "0", "1", "--columns", "nothing").exit_code == 2


def test_changes_of_nested_columns_are_no_csv(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.list_(pa.int32()))])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    table.write(pa.table({"k": [1], "v": [[1, 2]]}, schema))
    result = run("changes", table.path, "0", "1", "--format", "csv")
    assert result.exit_code == 2
    assert "nested columns v" in result.stderr
    assert json.loads(run("changes", table.path, "0", "1").stdout)["v"] == [1, 2]


def test_an_output_of_changes_is_a_new_and_whole_file_or_none(tmp_path: Path) -> None:
    """Neither a file of somebody else nor half of a file is left in its place."""
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.list_(pa.int32()))])
    table = wt.Catalog(str(tmp_path)).create_table("db.t", schema, primary_key=["k"])
    table.write(pa.table({"k": [1], "v": [[1, 2]]}, schema))
    span, file = ("changes", table.path, "0", "1"), tmp_path / "out"
    for wrong in (("0", "9"), ("0", "1", "--format", "csv"), ("0", "1", "--columns", "x")):
        assert run("changes", table.path, *wrong, "--output", str(file)).exit_code == 2
        assert not file.exists()
    for there in (file, tmp_path):
        file.write_bytes(b"of somebody else")
        reported = run(*span, "--output", str(there))
        assert reported.exit_code == 2
        assert "a new file" in reported.stderr
        assert file.read_bytes() == b"of somebody else"
    file.unlink()
    assert run(*span, "--output", str(file)).exit_code == 0
    assert json.loads(file.read_text()) == {"k": 1, "v": [1, 2], "_row_kind": "+I"}


# As a process


def test_the_command_is_installed_under_its_name() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    (line,) = [one for one in project.splitlines() if one.startswith("widetable = ")]
    module, name = line.split('"')[1].split(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
@pytest.mark.parametrize("words", [["maintain", "--once"], ["read"], ["read", "--format", "csv"]])
def test_output_that_is_closed_is_an_error(
    words: list[str], closed: tuple[int, ...], make: Callable[..., wt.Table]
) -> None:
    """And goes not into a file of the table, which would be opened under the free number."""
    table = make()
    table.write(rows(1))
    command = [sys.executable, "-m", "widetable", *words, table.path]
    script = f"import os; [os.close(n) for n in {closed}]; os.execv({sys.executable!r}, {command})"
    root = Path(__file__).parents[3]
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert ("StorageError: standard output" in done.stderr) == (2 not in closed)
    assert "Traceback" not in done.stderr
    assert table.doctor(deep=True).ok
    assert table.audit().ok


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "TABLE"]])
def test_output_that_is_full_is_reported_in_one_line(
    arguments: list[str], unbuffered: str, make: Callable[..., wt.Table]
) -> None:
    path = make().path
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "widetable", *(a.replace("TABLE", path) for a in arguments)],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "No space left" in line


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["foo", "", "inspect /no/table --debug"])
def test_an_error_that_nobody_can_be_told_keeps_its_exit_code(
    arguments: str, unbuffered: str
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "widetable", *arguments.split()],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_any_more_ends_the_command_silently(
    unbuffered: str, make: Callable[..., wt.Table]
) -> None:
    table = make(**{"changelog-producer": "input"})
    table.write(rows(*range(20_000)))  # more than a pipe holds
    command = [sys.executable, "-m", "widetable", "changes", table.path, "0", "1"]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["_row_kind"] == "+I"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_maintainer_in_a_process_follows_until_it_is_stopped(
    number: signal.Signals, make: Callable[..., wt.Table]
) -> None:
    table = make()
    process = subprocess.Popen(
        [sys.executable, "-m", "widetable", "maintain", table.path, "--interval", "50 ms"],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        for key in range(2):
            table.write(rows(key))
            while table.inspect().backlog.files:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end, "nobody compacts"
                time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert out.startswith("2 compactions")
    assert "Traceback" not in err
    assert table.inspect().lease_holder is None
    assert table.audit().ok
