"""What reaches a terminal and what a pipe: colours on the one, the same text on both, and nobody else's control
characters.
"""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from widetable.cli.output.console import write_error, write_line
for style in ("plain", "good", "warning", "error"):
    write_line("a " + style, style)
write_line("data-\\x1b[2J\\r\\n\\x9b.parquet")
write_error(ValueError("it is\\n  wrong"))
"""
LINES = [
    "a plain",
    "a good",
    "a warning",
    "a error",
    r"data-\x1b[2J\x0d\x0a\x9b.parquet",
    "ValueError: it is wrong",
]
COLOURS = ["", "32", "33", "31", "", "31"]


def on_a_terminal(**environment: str) -> str:
    """What a process with a terminal for its output writes there."""
    terminal, end = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        env={**inherited, "TERM": "xterm", **environment},
        stdout=end,
        stderr=end,
        check=True,
    )
    os.close(end)
    said = b""
    with open(terminal, "rb", buffering=0) as output, contextlib.suppress(OSError):  # its end
        while part := output.read(10_000):  # which may be less than what is there
            said += part
    return said.decode().replace("\r\n", "\n")


def test_a_terminal_has_colours() -> None:
    coloured = [
        f"\x1b[{colour}m{line}\x1b[0m" if colour else line
        for line, colour in zip(LINES, COLOURS, strict=True)
    ]
    assert on_a_terminal().splitlines() == coloured


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_user_may_want_none(setting: dict[str, str]) -> None:
    assert on_a_terminal(**setting).splitlines() == LINES


def test_a_pipe_has_the_text_alone() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == LINES
