"""The command line, called in this process."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from widetable.cli.app import main


@dataclass(frozen=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Ran:
    """As `widetable <arguments>`. What the command line raises is raised here, but the end of the process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exit_code = main(arguments)
        except SystemExit as end:  # after help
            exit_code = int(end.code or 0)
    return Ran(exit_code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)  # flushes
    return stream.read()
