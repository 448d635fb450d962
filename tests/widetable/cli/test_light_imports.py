"""Who only asks for help, or mistypes, does not wait for the engine: it is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from widetable.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
HEAVY = {"numba", "numpy", "pyarrow", "fastavro", "sqlglot"}

# Runs `python -m widetable <arguments>`, then prints which packages that imported.
PROGRAM = """
import contextlib, io, json, runpy, sys
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        runpy.run_module("widetable", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
print(json.dumps([code or 0, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def code_and_imports(*arguments: str) -> tuple[int, set[str]]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    code, imported = json.loads(answer.stdout)
    return code, set(imported)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--help",), 0),
        ((), 2),
        (("mantain",), 2),
        (("completion", "bash"), 0),
        *(((command, "--help"), 0) for command in COMMANDS),
        *(((command, "--no-such-option"), 2) for command in COMMANDS),
    ],
)
def test_help_and_usage_errors_import_no_engine(arguments: tuple[str, ...], expected: int) -> None:
    code, imported = code_and_imports(*arguments)
    assert code == expected
    assert HEAVY & imported == set()


def test_a_command_does_import_it(tmp_path: Path) -> None:
    """So that the test above can fail."""
    code, imported = code_and_imports("inspect", str(tmp_path))
    assert code == 2
    assert imported >= {"numpy", "pyarrow"}
