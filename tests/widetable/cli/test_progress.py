"""Lines that say that a command is still at work: on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import widetable as wt
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.programs.command_line import run
from widetable.cli import app
from widetable.cli.output.progress import line_seconds, progress

LINE = re.compile(
    r"audit: (\d+ s|\d+ min)(, [\d.]+ [KMGTPE]?i?B read, [\d.]+ [KMGTPE]?i?B written)?"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class LostTerminal(Terminal):
    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def lines_of(stream: io.StringIO, waits: int) -> list[str]:
    """Of a block that ends within that wait."""
    waited: list[float] = []

    def ended(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == waits

    with progress("audit", stream, ended):
        pass
    return stream.getvalue().splitlines()


def test_lines_come_after_a_second_and_ever_more_seldom() -> None:
    assert list(islice(line_seconds(), 7)) == [1, 3, 10, 30, 60, 120, 180]
    assert lines_of(Terminal(), 1) == []
    lines = lines_of(Terminal(), 6)
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert [line.split(",")[0].removeprefix("audit: ") for line in lines] == [
        "1 s",
        "3 s",
        "10 s",
        "30 s",
        "1 min",
    ]


def test_no_line_where_nobody_looks() -> None:
    assert lines_of(io.StringIO(), 6) == []


def test_an_error_ends_it_and_a_lost_terminal_is_no_error() -> None:
    with pytest.raises(ZeroDivisionError), progress("audit", Terminal()):
        raise ZeroDivisionError
    assert lines_of(LostTerminal(), 3) == []


@pytest.mark.parametrize(
    ("words", "is_told"),
    [
        ("inspect PATH", True),
        ("join add PATH", True),
        ("join run PATH", False),
        ("join run PATH --once", True),
        ("maintain PATH", False),
        ("maintain PATH --once", True),
        ("meta show PATH", True),
        ("meta serve PATH", False),
    ],
)
def test_all_but_what_runs_until_it_is_stopped_tells_how_far_it_is(
    words: str, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def noted(command: str) -> contextlib.AbstractContextManager[None]:
        told.append(command)
        return contextlib.nullcontext()

    monkeypatch.setattr(app, "progress", noted)
    assert run(*words.replace("PATH", f"{tmp_path}/nothing").split()).exit_code == 2
    assert told == [words.split()[0]] * is_told


def test_a_command_on_a_terminal(tmp_path: Path) -> None:
    """It waits for its rows for longer than a second."""
    table = wt.Catalog(str(tmp_path)).create_table("db.t", {"k": "INT"}, primary_key=["k"])
    ours, theirs = pty.openpty()
    rows = subprocess.PIPE
    command = [sys.executable, "-m", "widetable", "write", table.path, "-", "--format", "json"]
    with subprocess.Popen(command, stdin=rows, stdout=rows, stderr=theirs, text=True) as process:
        os.close(theirs)
        said = os.read(ours, 4096).decode()  # blocks until there is a line
        out, _ = process.communicate('{"k": 1}\n', PATIENCE_SECONDS)
    os.close(ours)
    assert said.startswith("write: 1 s"), said
    assert process.returncode == 0
    assert "write:" not in out
